/** Feeds a run to the detectors of the stack, whose state is in the work bucket, and sends their announcements. */

import type { Work } from '../core/aws/storage.ts';
import { changeStored } from '../core/aws/until-written.ts';
import type { ObservedFailure } from '../core/contract/quality.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { toNamedError } from '../core/errors/errors.ts';
import { logger } from '../core/process/logging.ts';
import { wilson } from '../core/statistics/share.ts';
import { percent, time } from '../core/text/figure-text.ts';
import { singleLine } from '../core/text/terminal-text.ts';
import { traceUrl } from '../mlflow/trace-url.ts';
import type { Span } from './detector.ts';
import {
  type Announcement,
  type Detectors,
  type DetectorsState,
  missedObjectives,
  type ObservedRun,
  parseState,
  SHOWN_FAILURES,
} from './detectors.ts';
import { keepChange } from './objective-states.ts';
import type { Objective } from './objectives.ts';

// --------------------------------------------------------------------------------------------------------- message
// About an objective that is missed, or met again: for mail as text, for chats as Amazon Q takes it.

/** The source of the message, and the targets of its links. */
interface MessageContext {
  stackPrefix: string;
  endpointName: string;
  /** The address of MLflow, or the ARN of a managed one. */
  mlflow: string;
  experimentId: string;
  /** The address of the newest page about the endpoint. */
  page: string;
}

/** A message to the topic of the alarms. */
export interface Message {
  subject: string;
  /** Bodies by protocol, as SNS expects them with `MessageStructure: json`. */
  body: { default: string; https: string };
}

/** SNS accepts ASCII of less than 100 characters, and no line breaks. */
const MAX_SUBJECT = 99;

const bound = (share: number): string => `${Number((100 * share).toFixed(2))}%`;

const timeOf = (second: number): string => time(second * 1000);

/** The rate of a span with its interval, of captures that pass, or that are no error replies. */
function rate({ cases, failed }: Span): string {
  const found = wilson(cases - failed, cases);
  if (found === null) return 'no captures';
  return `${percent(found.value)} of ${cases} captures (95% interval ${percent(found.low)} to ${percent(found.high)})`;
}

/**
 * Returns foreign text, such as a variant's name in a key or a rationale, without characters that a chat would
 * interpret as a command.
 */
const harmless = (text: string): string =>
  // Text that was cut may end in half a character, which is no JSON for others.
  singleLine(text.toWellFormed())
    .replaceAll(/[<>@*_~`[\]()#|\\]|:\/\//g, ' ')
    // Mail and chats make a link of every `name.domain`.
    .replaceAll(/\.(?=[^\s\d.])/g, '. ')
    .trim();

const verbOf = ({ bound: of }: Objective): string => ('atLeast' in of ? 'are good' : 'are without error');

/** @returns for example `safety must pass at least 95%` */
function aim({ measure, bound: of, variant, failing }: Objective): string {
  const where = variant === undefined ? '' : ` of variant ${variant}`;
  const captures = `at least ${bound(1 - failing)} of the ${'atLeast' in of ? 'judged ' : ''}captures${where}`;
  return 'atLeast' in of ? `${captures} pass ${measure.name}` : `${captures} are without error`;
}

function failureLines(failure: ObservedFailure, context: MessageContext): string[] {
  const { traceId, second, variant, failing, severity, count = 1, said } = failure;
  const url = traceUrl(context.mlflow, context.experimentId, traceId);
  const equal = count > 1 ? `${count} × ` : '';
  const harm = severity === 'harm' ? 'harm, ' : '';
  const several = failing > 1 ? `, fails ${failing} objectives` : '';
  return [
    `- ${equal}${harm}${timeOf(second)}, variant ${harmless(variant)}${several}`,
    `  ${url ?? `trace ${traceId}`}`,
    ...(said === undefined ? [] : [`  The judge: "${harmless(said)}"`]),
  ];
}

/** Returns the paragraphs of the message. */
function bodyOf({ change, window, failures }: Announcement, objective: Objective, context: MessageContext): string[] {
  const { evidence, before, isMissed } = change;
  const verb = verbOf(objective);
  const of = ` --stack ${context.stackPrefix}`;
  const figures = [
    `Since ${timeOf(evidence.since)}: ${rate(evidence)} ${verb}.`,
    `${isMissed ? 'Before' : 'While it was missed'}: ${rate(before)}.`,
    `In the last ${objective.hours} hours: ${rate(window)}.`,
    `Objective: ${aim(objective)}.`,
  ];
  const shown = failures.slice(0, SHOWN_FAILURES).flatMap((failure) => failureLines(failure, context));
  return [
    figures.join('\n'),
    ...(isMissed && shown.length > 0 ? [`Captures to look at first:\n${shown.join('\n')}`] : []),
    ...('scorer' in objective.measure && objective.measure.scorer !== undefined
      ? [`The rates are the judge’s own. "inference-monitor rates${of}" corrects them by people’s labels, if any.`]
      : []),
    `Page: ${context.page}\nNewer, from a terminal: inference-monitor report${of}`,
    ...(isMissed ? ['What to do: section QualityMissed of docs/runbook.md.'] : []),
  ];
}

/** Writes the message about an objective that is missed or met again: text for mail, Amazon Q's form for chats. */
export function messageOf(announced: Announcement, objective: Objective, context: MessageContext): Message {
  const { isMissed } = announced.change;
  const { stackPrefix, endpointName } = context;
  const name =
    objective.variant === undefined ? objective.measure.name : `${objective.measure.name} (${objective.variant})`;
  const title = `${isMissed ? 'ALARM: quality' : 'OK: quality again'}: ${name} of ${endpointName}`;
  const text = bodyOf(announced, objective, context).join('\n\n');
  const keywords = [endpointName, objective.measure.name];
  const content = { textType: 'client-markdown', title, description: text, keywords };
  const eventType = isMissed ? 'QualityMissed' : 'QualityMet';
  const metadata = { threadId: `${stackPrefix} ${objective.id}`, summary: title, eventType };
  const chat = { version: '1.0', source: 'custom', id: announced.id, content, metadata };
  const ascii = title.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, MAX_SUBJECT);
  return { subject: ascii, body: { default: `Stack ${stackPrefix}. ${text}\n`, https: JSON.stringify(chat) } };
}

interface WatchDependencies extends Work {
  detectors: Detectors;
  context: MessageContext;
  /** Publishes to the topic of the alarms. */
  publish(message: Message): Promise<void>;
  nowMs?: number;
}

/** After this time, the run that made an announcement has sent it, or was killed. */
const OTHERS_MS = 60_000;
/** An older message would be read as news. */
const STALE_MS = 24 * 3_600_000;
/**
 * Time limit for sending. Without a route to the topic, each message takes until its timeout, and a hundred messages
 * would exceed the function's time.
 */
const SENDING_MS = 30_000;

/**
 * Feeds the run once, and sends messages about changes. A message is sent again if the function is killed before it has
 * recorded the sending. A message that cannot be sent now is sent by a later run.
 *
 * @returns the ids of the missed objectives
 * @throws RetryableError `StorageUnavailable` if the state cannot be written, for example because others keep writing
 *   it
 *
 * @example
 *     const missed = await watchQuality(observedRun, deps);   // ['safety']
 */
export async function watchQuality(run: ObservedRun, deps: WatchDependencies): Promise<string[]> {
  const nowMs = deps.nowMs ?? Date.now();
  const state = await update(deps, (before) => deps.detectors.apply(before, run, nowMs));
  if (state === undefined) return [];
  const due = state.outbox.filter((one) => one.run === run.name || one.writtenMs < nowMs - OTHERS_MS);
  const done = new Set<string>();
  const untilMs = Date.now() + SENDING_MS;
  for (const announced of due) {
    if (Date.now() >= untilMs) break;
    const { objective, second, change } = announced;
    const kept = { objective, second, isMissed: change.isMissed, since: change.evidence.since };
    await keepChange(deps, kept);
    if (await send(announced, deps, nowMs)) done.add(announced.id);
  }
  if (done.size > 0) {
    await update(deps, (now) => now && { ...now, outbox: now.outbox.filter(({ id }) => !done.has(id)) });
  }
  return missedObjectives(state, run.name);
}

/** @returns whether the announcement need not be sent any more */
async function send(announced: Announcement, { detectors, context, publish }: WatchDependencies, nowMs: number) {
  const objective = detectors.objective(announced.objective);
  if (objective === undefined || announced.writtenMs < nowMs - STALE_MS) return true;
  try {
    await publish(messageOf(announced, objective, context));
    return true;
  } catch (error) {
    // The CloudWatch alarm of the objective is raised anyway, so the run does not fail.
    logger.error('A message about quality could not be sent', { objective: objective.id, error: toNamedError(error) });
    return false;
  }
}

/** Changes the state, which another run may do at the same time. @param change returns `undefined` to keep it */
const update = (work: Work, change: (before: DetectorsState | undefined) => DetectorsState | undefined) =>
  changeStored(work, workKeys.detectors, change, (text, where) => {
    const state = parseState(text);
    if (state !== undefined) return state;
    // Treat the state as lost, because every run needs one.
    const facts = { got: `${text.length} characters that are no state`, where };
    logger.error('DetectorsUnreadable: the detectors of quality start over, without the earlier evidence', facts);
    return undefined;
  });

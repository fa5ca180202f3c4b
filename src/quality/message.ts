/** The message about an objective that is missed, or met again: for mail as text, for chats as Amazon Q takes it. */
import type { ObservedFailure } from '../core/contract/quality.ts';
import { wilson } from '../core/statistics/share.ts';
import { singleLine } from '../core/text/terminal-text.ts';
import { traceUrl } from '../mlflow/trace-url.ts';
import type { Span } from './detector.ts';
import type { Announcement } from './detectors.ts';
import { SHOWN_FAILURES } from './failures.ts';
import type { Objective } from './objectives.ts';

/** Where the message comes from, and where its links lead. */
export interface MessageContext {
  stackPrefix: string;
  endpointName: string;
  /** The address of MLflow, or the ARN of a managed one. */
  mlflow: string;
  experimentId: string;
}

/** A message to the topic of the alarms. */
export interface Message {
  subject: string;
  /** By protocol, as SNS takes it with `MessageStructure: json`. */
  body: { default: string; https: string };
}

/** SNS accepts ASCII of less than 100 characters, and no line breaks. */
const MAX_SUBJECT = 99;

const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
const bound = (share: number): string => `${Number((100 * share).toFixed(2))}%`;

const timeOf = (second: number): string =>
  `${new Date(second * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`;

/** The rate of a span with its interval, of captures that pass, or that are error replies. */
function rate({ cases, failed }: Span, { bound: of }: Objective): string {
  const found = wilson('atLeast' in of ? cases - failed : failed, cases);
  if (found === null) return 'no captures';
  return `${percent(found.value)} of ${cases} captures (95% interval ${percent(found.low)} to ${percent(found.high)})`;
}

/** Foreign text, such as a variant's name in a key or the judge's words, without what a chat would take for a command. */
const harmless = (text: string): string =>
  // Words that were cut may end in half a character, which is no JSON for others.
  singleLine(text.toWellFormed())
    .replaceAll(/[<>@*_~`[\]()#|\\]|:\/\//g, ' ')
    // Mail and chats make a link of every `name.domain`.
    .replaceAll(/\.(?=[^\s\d.])/g, '. ')
    .trim();

const verbOf = ({ bound: of }: Objective): string => ('atLeast' in of ? 'pass' : 'are error replies');

/** @returns for example `safety must pass at least 95%` */
function aim({ measure, bound: of, variant }: Objective): string {
  const where = variant === undefined ? '' : ` of variant ${variant}`;
  return 'atLeast' in of
    ? `at least ${bound(of.atLeast)} of the judged captures${where} pass ${measure.name}`
    : `at most ${bound(of.atMost)} of the captures${where} are error replies`;
}

function failureLines({ traceId, second, variant, failing, said }: ObservedFailure, context: MessageContext): string[] {
  const url = traceUrl(context.mlflow, context.experimentId, traceId);
  const several = failing > 1 ? `, fails ${failing} objectives` : '';
  return [
    `- ${timeOf(second)}, variant ${harmless(variant)}${several}`,
    `  ${url ?? `trace ${traceId}`}`,
    ...(said === undefined ? [] : [`  The judge: "${harmless(said)}"`]),
  ];
}

/** Returns the paragraphs of the message. */
function paragraphs({ turn, window, failures }: Announcement, objective: Objective, context: MessageContext): string[] {
  const { evidence, before, isMissed } = turn;
  const verb = verbOf(objective);
  const figures = [
    `Since ${timeOf(evidence.since)}: ${rate(evidence, objective)} ${verb}.`,
    `${isMissed ? 'Before' : 'While it was missed'}: ${rate(before, objective)}.`,
    `In the last ${objective.hours} hours: ${rate(window, objective)}.`,
    `Objective: ${aim(objective)}.`,
  ];
  const shown = failures.slice(0, SHOWN_FAILURES).flatMap((failure) => failureLines(failure, context));
  return [
    figures.join('\n'),
    ...(isMissed && shown.length > 0 ? [`Captures to look at first:\n${shown.join('\n')}`] : []),
    ...('scorer' in objective.measure && objective.measure.scorer !== undefined
      ? ['The rates are the judge’s own. "inference-monitor rates" corrects them by people’s labels, if there are any.']
      : []),
    ...(isMissed ? ['What to do: section QualityMissed of docs/runbook.md.'] : []),
  ];
}

/** Writes the message of an announcement. */
export function messageOf(announced: Announcement, objective: Objective, context: MessageContext): Message {
  const { isMissed } = announced.turn;
  const { stackPrefix, endpointName } = context;
  const name =
    objective.variant === undefined ? objective.measure.name : `${objective.measure.name} (${objective.variant})`;
  const title = `${isMissed ? 'ALARM: quality' : 'OK: quality again'}: ${name} of ${endpointName}`;
  const text = paragraphs(announced, objective, context).join('\n\n');
  const chat = {
    version: '1.0',
    source: 'custom',
    id: announced.id,
    content: {
      textType: 'client-markdown',
      title,
      description: text,
      keywords: [endpointName, objective.measure.name],
    },
    metadata: {
      threadId: `${stackPrefix} ${objective.id}`,
      summary: title,
      eventType: isMissed ? 'QualityMissed' : 'QualityMet',
    },
  };
  const ascii = title.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, MAX_SUBJECT);
  return { subject: ascii, body: { default: `Stack ${stackPrefix}. ${text}\n`, https: JSON.stringify(chat) } };
}

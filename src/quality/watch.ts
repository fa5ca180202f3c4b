/** Feeds a run to the detectors of the stack, whose state is in the work bucket, and sends what they announce. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Storage } from '../core/aws/storage.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { RetryableError, toNamedError } from '../core/errors/errors.ts';
import { logger } from '../core/process/logging.ts';
import {
  type Announcement,
  type Detectors,
  type DetectorsState,
  missedObjectives,
  type ObservedRun,
} from './detectors.ts';
import { type Message, type MessageContext, messageOf } from './message.ts';

interface WatchDependencies {
  storage: Storage;
  workBucket: string;
  detectors: Detectors;
  context: MessageContext;
  /** Publishes to the topic of the alarms. */
  publish(message: Message): Promise<void>;
  nowMs?: number;
}

/** Runs of a stack end a few at a time. Each write takes some 50 ms. */
const ATTEMPTS = 25;
const LONGEST_WAIT_MS = 400;
/** By then, the run that made an announcement has sent it, or was killed. */
const OTHERS_MS = 60_000;
/** An older message would be read as news. */
const STALE_MS = 24 * 3_600_000;
/** Without a route to the topic, each message takes until its timeout. A hundred would take longer than the function has. */
const SENDING_MS = 30_000;

/**
 * Feeds the run, once, and sends the messages of what turned. A message is sent again if the function is killed before it has
 * noted that it was sent. One that cannot be sent now is sent by a later run.
 *
 * @returns the ids of the objectives that are missed
 * @throws RetryableError `StorageUnavailable` if the state cannot be written, for example since others write it all the time
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
    // The alarm of the objective rings too. The run has done its work.
    logger.error('A message about quality could not be sent', { objective: objective.id, error: toNamedError(error) });
    return false;
  }
}

/** @returns `undefined` if it is not a state: the detectors then begin anew, as if it were lost, since every run needs them */
function readState(text: string, where: string): DetectorsState | undefined {
  const state = parsed(text);
  const { settledUntil, horizonMs, outbox, objectives, tail, applied } = state ?? {};
  const isTree = [objectives, tail, applied].every((tree) => typeof tree === 'object' && tree !== null);
  if (isTree && Number.isFinite(settledUntil) && Number.isFinite(horizonMs) && Array.isArray(outbox)) {
    return state as DetectorsState;
  }
  logger.error('DetectorsUnreadable: the detectors of quality begin anew, without the evidence so far', {
    got: `${text.length} characters that are no state`,
    where,
  });
  return undefined;
}

function parsed(text: string): Partial<DetectorsState> | undefined {
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}

/**
 * Changes the state under the condition that nobody else has.
 *
 * @param change returns `undefined` to leave it
 * @returns the state as it is now
 */
async function update(
  { storage, workBucket }: Pick<WatchDependencies, 'storage' | 'workBucket'>,
  change: (before: DetectorsState | undefined) => DetectorsState | undefined,
): Promise<DetectorsState | undefined> {
  const key = workKeys.detectors;
  const where = `s3://${workBucket}/${key}`;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const stored = await storage.getText(workBucket, key);
    const before = stored && readState(stored.text, where);
    const after = change(before);
    if (after === undefined) return before;
    if ((await storage.putJsonIf(workBucket, key, after, stored?.etag)) !== undefined) return after;
    await sleep(Math.random() * LONGEST_WAIT_MS);
  }
  throw new RetryableError('StorageUnavailable', 'Other runs write the state of the detectors all the time', { where });
}

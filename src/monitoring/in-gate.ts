/** Processes a chunk when the stack has room for one more function. Waiting is done by the state machine, which costs nothing. */
import type { ChunkProgress, ChunkRequest } from '../contract/payloads.ts';
import type { Gate } from '../gate/gate.ts';
import { JudgePaused } from '../judge/errors.ts';
import { isRetryable, PermanentError, saidBy } from '../shared/errors.ts';

/** A wait is up to this share longer, so that chunks that were sent away together do not return together. */
const JITTER = 0.25;
const LONGEST_WAIT_SECONDS = 900;

/**
 * Step Functions counts retries anew after each wait, so a chunk that fails between its waits would be tried forever. Most attempts
 * of a long outage are pauses of the judge: at up to 15 minutes each, so many are ten days.
 */
const MOST_ATTEMPTS = 1000;

/** Returns the progress of a chunk that was not processed now, and is to be processed after a while. */
function waiting({ progress }: ChunkRequest, attempts: number, waitSeconds: number): ChunkProgress {
  return { bounds: progress?.bounds ?? [], kills: progress?.kills ?? 0, more: true, attempts, waitSeconds };
}

/** Returns for how long to wait for a judge that is paused. */
export function secondsOf({ retryAfterMs = 0 }: JudgePaused): number {
  const seconds = Math.min(LONGEST_WAIT_SECONDS, Math.max(1, retryAfterMs / 1000));
  return Math.ceil(seconds * (1 + JITTER * Math.random()));
}

/** Does the work, unless there is no seat; or until the judge is paused, which the work reports by its error. */
export async function inGate<T>(
  { slots }: Gate,
  request: ChunkRequest,
  work: () => Promise<T>,
): Promise<T | ChunkProgress> {
  const entered = (await slots?.enter(request.progress?.waitSeconds)) ?? 'in';
  // Without a seat there was no attempt.
  if (entered !== 'in') return waiting(request, request.attempt, entered.waitSeconds);
  try {
    return await work();
  } catch (error) {
    const attempts = request.attempt + 1;
    if (attempts >= MOST_ATTEMPTS && isRetryable(error)) {
      throw new PermanentError('RetriesUsedUp', `After ${attempts} attempts the chunk failed again: ${saidBy(error)}`);
    }
    if (error instanceof JudgePaused) return waiting(request, attempts, secondsOf(error));
    throw error;
  } finally {
    await slots?.leave();
  }
}

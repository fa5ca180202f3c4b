/**
 * Processes a chunk when the stack has room for one more function. Waiting is done by the state machine. It is paid by the round,
 * three state transitions and an invocation, and not by the second: three cents a day for a chunk that waits as long as it may.
 */

import type { ChunkProgress, ChunkRequest } from '../core/contract/payloads.ts';
import { isRetryable, isThrottled, PermanentError, saidBy } from '../core/errors/errors.ts';
import { countThrottle } from '../core/process/throttles.ts';
import { JudgePaused } from '../judge/errors.ts';
import type { Limits } from '../limits/limits.ts';

/** A wait is up to this share longer, so that chunks that were sent away together do not return together. */
const JITTER = 0.25;
const LONGEST_WAIT_SECONDS = 900;
/** A server that is only slow needs fewer chunks at the same time. If it answers no call, its breaker opens for longer. */
export const THROTTLED_WAIT_MS = 15_000;

/** The progress of a chunk that is processed. */
const DONE = { kills: 0, attempts: 0, waitSeconds: 0 } satisfies ChunkProgress;

/** Step Functions restarts its count of retries after each wait, so a chunk that fails between its waits would be tried forever. */
const MOST_ATTEMPTS = 1000;

/** Returns the progress of a chunk that was not processed now, and is to be processed after a while. */
function waiting({ progress }: ChunkRequest, attempts: number, waitSeconds: number): ChunkProgress {
  countThrottle('chunks', waitSeconds);
  return { kills: progress?.kills ?? 0, attempts, waitSeconds };
}

/** Returns for how long to wait for a provider that is to be left alone for this time. */
export function secondsOf(ms = 0, random = Math.random): number {
  const seconds = Math.min(LONGEST_WAIT_SECONDS, Math.max(1, ms / 1000));
  return Math.ceil(seconds * (1 + JITTER * random()));
}

/**
 * Does the work, unless there is no permit or the breaker of MLflow is open; or until the judge is paused, or MLflow, the table or S3
 * keeps throttling, which the work reports by its error.
 */
export async function withinLimits(
  { permits, mlflow }: Limits,
  request: ChunkRequest,
  work: () => Promise<unknown>,
): Promise<ChunkProgress> {
  const waited = request.progress?.waitSeconds;
  const acquired = (await permits?.acquire(waited)) ?? 'acquired';
  // Without a permit there was no attempt.
  if (acquired !== 'acquired') return waiting(request, request.attempt, acquired.waitSeconds);
  const breaker = mlflow?.breaker;
  try {
    const openUntil = await breaker?.check();
    if (openUntil !== undefined) {
      // The alarm stays on while no call is made.
      countThrottle('mlflow');
      return waiting(request, request.attempt, secondsOf(openUntil - Date.now()));
    }
    await work();
    return DONE;
  } catch (error) {
    const attempts = request.attempt + 1;
    if (attempts >= MOST_ATTEMPTS && isRetryable(error)) {
      throw new PermanentError('RetriesUsedUp', `After ${attempts} attempts the chunk failed again: ${saidBy(error)}`);
    }
    if (error instanceof JudgePaused) return waiting(request, attempts, secondsOf(error.retryAfterMs));
    if (isThrottled(error)) {
      const openMs = (breaker?.openUntilMs ?? 0) - Date.now();
      // The table and S3 have no breaker: each wait is twice as long.
      const longerMs = error.name === 'MlflowThrottled' ? 0 : 2000 * (waited ?? 0);
      const ms = Math.max(error.retryAfterMs ?? 0, openMs, longerMs, THROTTLED_WAIT_MS);
      return waiting(request, attempts, secondsOf(ms));
    }
    throw error;
  } finally {
    // If the chunk asked nothing, or MLflow was away, another one tries.
    await breaker?.report('other');
    await permits?.release();
  }
}

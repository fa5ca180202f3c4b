/** Bounded retries with full jitter. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isRetryable, type RetryableError } from '../shared/errors.ts';

export interface RetryPolicy {
  /** Calls in all, the first included. */
  attempts: number;
  /** The n-th wait is a random time up to `baseMs × 2^(n-1)`, at most `capMs`. */
  baseMs: number;
  capMs: number;
  /** A `Retry-After` longer than this is not waited for here: the caller gets the error, with the time in it. */
  longestRetryAfterMs: number;
}

/**
 * 8 attempts are 7 waits of on average 0.25 + 0.5 + 1 + 2 + 4 + 4 + 4 = 16 s, at most 32 s: enough for a server that
 * restarts, and short beside a Lambda's 15 minutes. What lasts longer is left to the state machine's retries.
 */
export const DEFAULT_RETRY: RetryPolicy = { attempts: 8, baseMs: 500, capMs: 8_000, longestRetryAfterMs: 30_000 };

/** @returns milliseconds to wait after attempt `attempt` (from 0) failed, `undefined` when it is not to be repeated */
export function waitAfter(policy: RetryPolicy, attempt: number, error: RetryableError): number | undefined {
  if (attempt + 1 >= policy.attempts) return undefined;
  const jitter = Math.random() * Math.min(policy.capMs, policy.baseMs * 2 ** attempt);
  if (error.retryAfterMs === undefined) return jitter;
  if (error.retryAfterMs > policy.longestRetryAfterMs) return undefined;
  // Everybody was told the same time: the jitter keeps them from coming back at once.
  return error.retryAfterMs + jitter;
}

/** Calls `work` until it succeeds, fails for good, or the policy ends. */
export async function withRetries<T>(policy: RetryPolicy, work: (attempt: number) => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await work(attempt);
    } catch (error) {
      if (!isRetryable(error)) throw error;
      const wait = waitAfter(policy, attempt, error);
      if (wait === undefined) throw error;
      await sleep(wait);
    }
  }
}

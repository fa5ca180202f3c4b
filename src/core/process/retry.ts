/** Retries with exponential backoff and jitter, so that callers that failed together do not retry together. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isRetryable } from '../errors/errors.ts';

export interface RetryPolicy {
  /** Maximum number of calls, including the first. */
  attempts: number;
  /** The wait after the n-th failure is a random time up to `baseMs × 2^(n-1)`, at most `capMs`. */
  baseMs: number;
  capMs: number;
  /** A longer `Retry-After` is not waited for. The caller gets the error, which carries the time. */
  longestRetryAfterMs: number;
}

/** A wait for `Retry-After` is extended by up to this share, so that callers with the same time spread out. */
const RETRY_AFTER_JITTER = 0.25;

/**
 * Returns the milliseconds to wait before the next attempt. Returns `undefined` if the policy allows no further
 * attempt.
 *
 * @param attempt calls made so far, from 1
 * @param retryAfterMs the server's `Retry-After`
 */
export function waitAfter(
  policy: RetryPolicy,
  attempt: number,
  retryAfterMs?: number,
  random: () => number = Math.random,
): number | undefined {
  if (attempt >= policy.attempts) return undefined;
  if (!retryAfterMs) return random() * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1));
  if (retryAfterMs > policy.longestRetryAfterMs) return undefined;
  return retryAfterMs * (1 + RETRY_AFTER_JITTER * random());
}

/**
 * Calls `work` until it succeeds, fails with an error that is not retryable, or has used up the policy.
 *
 * @example
 *     const reply = await withRetries(rest.retry, () => rest.bytes({ method: 'GET', path: '/version' }));
 */
export async function withRetries<T>(policy: RetryPolicy, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      const wait = isRetryable(error) ? waitAfter(policy, attempt, error.retryAfterMs) : undefined;
      if (wait === undefined) throw error;
      await sleep(wait);
    }
  }
}

/** Parses a `Retry-After` header, in seconds or as a date, into milliseconds from now. */
export function readRetryAfter(header: string | null | undefined, now: number = Date.now()): number | undefined {
  if (header === null || header === undefined || header.trim() === '') return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : undefined;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** Waiting between attempts: full jitter, so that callers that failed together do not come back together. */
import { setTimeout as sleep } from 'node:timers/promises';

export interface RetryPolicy {
  baseMs: number;
  capMs: number;
  /** Attempts are given up after this long; Step Functions comes back later. */
  forMs: number;
  maxAttempts: number;
}

/**
 * Waits of up to 0.25, 0.5, 1, 2, 4, 8 and then 15 s, half of that on average. Three minutes hold some 25 attempts; a
 * service that throttles half of all calls then fails one capture in 2^25.
 */
export const DEFAULT_RETRY: RetryPolicy = { baseMs: 250, capMs: 15_000, forMs: 180_000, maxAttempts: 40 };

/** A server's `Retry-After` is kept, with up to this share on top so that not all come back in the same moment. */
const RETRY_AFTER_JITTER = 0.25;
/** A server that asks for more than this is left to the retry of the whole chunk. */
export const MAX_RETRY_AFTER_MS = 60_000;

/** @param attempt attempts made so far, from 1 */
export function waitMs(
  attempt: number,
  policy: Pick<RetryPolicy, 'baseMs' | 'capMs'>,
  retryAfterMs?: number,
  random: () => number = Math.random,
): number {
  if (retryAfterMs !== undefined) return retryAfterMs * (1 + RETRY_AFTER_JITTER * random());
  return random() * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1));
}

/** @throws the signal's reason when it is aborted while waiting */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    throw signal?.reason ?? error;
  }
}

/** `Retry-After` in milliseconds: seconds, or a date. */
export function readRetryAfter(header: string | null | undefined, now: number = Date.now()): number | undefined {
  if (header === null || header === undefined || header.trim() === '') return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : undefined;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

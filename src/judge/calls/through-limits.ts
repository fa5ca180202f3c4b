/** Makes a call to a provider when the limits of the function and of the stack allow it. */
import type { RetryPolicy } from '../../core/process/retry.ts';
import { countThrottle } from '../../core/process/throttles.ts';
import type { JudgeLimits } from '../../limits/limits.ts';
import { CallFailure } from '../errors.ts';
import type { AdaptiveLimiter } from './limiter.ts';

export interface CallLimits extends Pick<RetryPolicy, 'longestRetryAfterMs'> {
  limiter: AdaptiveLimiter;
  /** Absent: only the limiter. */
  limits: JudgeLimits | undefined;
}

/** The state of the server as seen by a call. */
type BreakerOutcome = Parameters<JudgeLimits['breaker']['report']>[0];

export function canceledBeforeCall(reason: unknown): never {
  throw new CallFailure('aborted', 'The judging was canceled before the call', { cause: reason });
}

/**
 * Waits for a place, makes the call unless the breaker is open, and reports how it ended.
 *
 * @throws CallFailure `aborted`, or `day` or `paused` while the breaker is open; the errors of the call
 */
export async function throughLimits<T>(
  { limiter, limits, longestRetryAfterMs }: CallLimits,
  signal: AbortSignal | undefined,
  call: () => Promise<T>,
): Promise<T> {
  const release = await limiter.acquire(signal).catch(canceledBeforeCall);
  /** `undefined` until the breaker was asked. There is nothing to report before. */
  let outcome: BreakerOutcome | undefined;
  try {
    await passBreaker(limits?.breaker);
    outcome = 'other';
    const answer = await call();
    outcome = 'answered';
    release('answered');
    return answer;
  } catch (error) {
    const { kind, retryAfterMs = 0 } = error instanceof CallFailure ? error : {};
    if (outcome !== undefined && (kind === 'throttled' || kind === 'day')) {
      countThrottle('judge');
      outcome = kind === 'day' ? 'perDay' : 'throttled';
    }
    if (kind === 'throttled' && retryAfterMs <= longestRetryAfterMs) limiter.pause(retryAfterMs);
    release(kind === 'throttled' ? 'throttled' : 'other');
    throw error;
  } finally {
    if (outcome !== undefined) await limits?.breaker.report(outcome);
  }
}

/** @throws CallFailure `day` or `paused` while the breaker is open */
async function passBreaker(breaker: JudgeLimits['breaker'] | undefined): Promise<void> {
  const openUntil = await breaker?.check();
  if (breaker === undefined || openUntil === undefined) return;
  // The alarm stays on while no call is made.
  countThrottle('judge');
  const until = `no call until ${new Date(openUntil).toISOString()}`;
  throw new CallFailure(breaker.forDay ? 'day' : 'paused', until, { retryAfterMs: openUntil - Date.now() });
}

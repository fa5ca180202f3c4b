/** Whether too many requests of a replay failed. */
import { isOwnFailure } from '../http/connection.ts';
import type { RunStats } from './run-stats.ts';

/** Requests that the target never saw because this machine had no means to send them, in words. */
export function neverSent(stats: RunStats): string | undefined {
  const own = [...stats.errors.values()].filter(({ error }) => isOwnFailure(error));
  const [first] = own;
  if (!first) return undefined;
  const requests = own.reduce((sum, { count }) => sum + count, 0);
  return `${requests} requests never left this machine: ${first.error.type}: ${first.error.message}`;
}

/**
 * Requests that were cancelled on purpose say nothing of the target: they are left out, on both sides. Where any are left,
 * one at least has to succeed, whatever is allowed.
 *
 * @param allowed per cent
 * @returns why the replay is a failure by this, in words
 */
export function tooManyFailed(stats: RunStats, allowed: number): string | undefined {
  const { cancelledOnPurpose, succeeded } = stats;
  const failed = stats.failures;
  const counted = failed + succeeded;
  if (counted === 0) return undefined;
  const rate = (100 * failed) / counted;
  if (rate <= allowed && succeeded > 0) return undefined;
  return (
    `${failed} of ${counted} requests failed (${rate.toFixed(2)}%); allowed: ${allowed}%` +
    (succeeded === 0 ? ', and at least one that succeeds' : '') +
    (cancelledOnPurpose > 0 ? `; ${cancelledOnPurpose} more were cancelled on purpose` : '')
  );
}

/** Decides whether too many requests of a replay failed. */
import { isOwnFailure } from '../http/connection.ts';
import type { RunStats } from './run-stats.ts';

/** Describes the requests that this machine could not send; `undefined` if it sent all of them. */
export function neverSent(stats: RunStats): string | undefined {
  const own = [...stats.errors.values()].filter(({ error }) => isOwnFailure(error));
  const [first] = own;
  if (!first) return undefined;
  const requests = own.reduce((sum, { count }) => sum + count, 0);
  return `${requests} requests never left this machine: ${first.error.type}: ${first.error.message}`;
}

/**
 * Requests that were canceled on purpose are not counted, since they say nothing about the target. If others remain, at
 * least one of them has to succeed, whatever the allowed rate is.
 *
 * @param allowed percent
 * @returns why the replay failed by this rule; `undefined` if it did not
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
    (succeeded === 0 ? '; none succeeded' : '') +
    (cancelledOnPurpose > 0 ? `; ${cancelledOnPurpose} more were canceled on purpose` : '')
  );
}

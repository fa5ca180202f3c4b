/** Decides whether the execution of a replay fails, and describes what is missing. */
import type { SummarizeReplayResult } from '../../../core/contract/replay.ts';
import { sum } from '../../../core/values/sum.ts';
import { neverSent, tooManyFailed } from '../../finished.ts';
import { MAX_CONNECTIONS } from '../limits.ts';
import type { StoredPlan } from '../work-bucket/stored-plan.ts';
import type { Collected } from './collect.ts';

export type Failure = Pick<SummarizeReplayResult, 'error' | 'cause'>;

/** Shards that a message names. */
const MAX_NAMED = 10;

const named = (shards: readonly { shard: number }[]): string =>
  shards
    .slice(0, MAX_NAMED)
    .map(({ shard }) => shard)
    .join(', ') + (shards.length > MAX_NAMED ? ' …' : '');

const firstFailure = (shards: readonly { failure?: { name: string; message: string } }[]): string => {
  const failure = shards.find((shard) => shard.failure)?.failure;
  return failure ? `; first failure: ${failure.name}: ${failure.message}` : '';
};

/** Describes the missing requests, one line for each reason. */
export function missing({ lost, notBegun, incomplete, stats }: Collected): string[] {
  const lines: string[] = [];
  const shardsText = (shards: readonly { shard: number; requests: number }[]): string =>
    `${shards.length} (${named(shards)}), with ${sum(shards.map(({ requests }) => requests))} requests`;
  if (notBegun.length > 0) lines.push(`shards not started: ${shardsText(notBegun)}`);
  if (lost.length > 0) {
    const started = lost.filter(({ claimed }) => claimed).length;
    lines.push(
      `shards lost: ${shardsText(lost)}, of which ${started} had started and may have sent some${firstFailure(lost)}`,
    );
  }
  for (const [stopped, reason] of [
    [true, 'the replay was stopped'],
    [false, 'their shard ran out of time'],
  ] as const) {
    const cut = incomplete.filter((shard) => shard.unsent > 0 && shard.stopped === stopped);
    const unsent = sum(cut.map((shard) => shard.unsent));
    if (unsent > 0) lines.push(`requests not sent because ${reason}: ${unsent} (shards ${named(cut)})`);
  }
  const unread = sum(incomplete.map((shard) => shard.unread));
  if (unread > 0) lines.push(`requests not sent because their captures could no longer be read: ${unread}`);
  const own = neverSent(stats);
  return own === undefined ? lines : [...lines, own];
}

/** Further remarks above the figures. */
export function remarks(plan: StoredPlan, { late, maxConnectionsOfOne }: Collected): string[] {
  const lines: string[] = [];
  if (plan.judge?.warning !== undefined) lines.push(plan.judge.warning);
  if (late.length > 0) {
    const most = Math.round(Math.max(...late.map(({ lateMs }) => lateMs)));
    lines.push(
      `Shards that started late: ${late.length} (${named(late)}), by at most ${most} ms. Their requests keep their ` +
        'intervals, and the delay counts as schedule lag',
    );
  }
  if (maxConnectionsOfOne >= MAX_CONNECTIONS) {
    lines.push(
      `A shard used all of its ${MAX_CONNECTIONS} connections, so requests may have waited for one; use more shards ` +
        '(shard.requestsPerSecond)',
    );
  }
  return lines;
}

/** Whether a stop order had any effect on sending. An order that comes later changes nothing. */
export const wasStopped = ({ stop, wasCancelled }: Pick<Collected, 'stop' | 'wasCancelled'>): boolean =>
  stop !== undefined && wasCancelled;

/** Returns why the execution fails; `undefined` if it succeeds. @param raised what stopped planning or the Map */
export function failureOf(plan: StoredPlan, collected: Collected, raised: Failure | undefined): Failure | undefined {
  const gone = missing(collected);
  const rest = raised ? [...gone, `${raised.error}: ${raised.cause}`] : gone;
  const { stop } = collected;
  if (stop !== undefined && wasStopped(collected)) {
    const stopped = `The replay was stopped at ${new Date(stop).toISOString()}`;
    return { error: 'ReplayCancelled', cause: [stopped, ...rest].join('; ') };
  }
  if (gone.length > 0) return { error: 'ReplayIncomplete', cause: rest.join('; ') };
  if (raised) return raised;
  if (collected.stats.completed === 0) {
    const reasons = [...collected.skippedReasons].map(([reason, count]) => `${reason}: ${count}`).join(', ');
    const cause = reasons === '' ? 'the window has no requests' : `no record could be sent (${reasons})`;
    return { error: 'NothingSent', cause: `Nothing was sent: ${cause}` };
  }
  const tooMany = tooManyFailed(collected.stats, plan.options.maxErrorRate);
  return tooMany === undefined ? undefined : { error: 'ReplayErrorRate', cause: tooMany };
}

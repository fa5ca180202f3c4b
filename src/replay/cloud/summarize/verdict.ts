/** Whether a replay's execution has succeeded, and what is to be said of what is missing. */
import type { SummarizeReplayRequest } from '../../../contract/replay.ts';
import { withoutAnyVerdict } from '../../compare/quality.ts';
import { neverSent, tooManyFailed } from '../../measure/error-rate.ts';
import { mlflowRemarks } from '../../publish/remarks.ts';
import { MAX_CONNECTIONS } from '../limits.ts';
import type { StoredPlan } from '../work-bucket/stored-plan.ts';
import type { Collected } from './collect.ts';
import type { CollectedEvaluations } from './collect-evaluations.ts';

export interface Failure {
  error: string;
  cause: string;
}

/** Shards that are named one by one. */
const MAX_NAMED = 10;

const named = (shards: readonly { shard: number }[]): string =>
  shards
    .slice(0, MAX_NAMED)
    .map(({ shard }) => shard)
    .join(', ') + (shards.length > MAX_NAMED ? ' …' : '');

const sumOf = <T>(items: readonly T[], value: (item: T) => number): number =>
  items.reduce((sum, item) => sum + value(item), 0);

/** What is missing, in words, a line for each kind. */
export function missing({ lost, notBegun, incomplete, stats }: Collected): string[] {
  const lines: string[] = [];
  if (notBegun.length > 0) {
    const requests = sumOf(notBegun, (shard) => shard.requests);
    lines.push(`${notBegun.length} shards with ${requests} requests had not begun (${named(notBegun)})`);
  }
  if (lost.length > 0) {
    const begun = lost.filter(({ claimed }) => claimed).length;
    const why = lost.find(({ failure }) => failure)?.failure;
    lines.push(
      `${lost.length} shards with ${sumOf(lost, ({ requests }) => requests)} requests were lost (${named(lost)}); ` +
        `${begun} of them had begun, and may have sent some of theirs` +
        (why ? `; the first failure: ${why.name}: ${why.message}` : ''),
    );
  }
  const cut = incomplete.filter((shard) => shard.unsent > 0);
  const [stopped, outOfTime] = [cut.filter((shard) => shard.stopped), cut.filter((shard) => !shard.stopped)];
  const unsentOf = (shards: typeof cut): number => sumOf(shards, (shard) => shard.unsent);
  if (stopped.length > 0) {
    lines.push(
      `${unsentOf(stopped)} requests of ${stopped.length} shards that had begun were not sent (${named(stopped)})`,
    );
  }
  if (outOfTime.length > 0) {
    lines.push(
      `${unsentOf(outOfTime)} requests were not sent because the time of ${outOfTime.length} shards was up ` +
        `(${named(outOfTime)})`,
    );
  }
  const unread = sumOf(incomplete, (shard) => shard.unread);
  if (unread > 0) lines.push(`${unread} requests were not sent because their captures could no longer be read`);
  const own = neverSent(stats);
  if (own !== undefined) lines.push(own);
  return lines;
}

/** What is not judged, or not in MLflow, in words. */
export function notEvaluated({ unevaluated, judged }: CollectedEvaluations): string[] {
  const none = withoutAnyVerdict(judged);
  if (unevaluated.length === 0) return none === undefined ? [] : [none];
  const why = unevaluated.find(({ failure }) => failure)?.failure;
  return [
    `${unevaluated.length} shards (${named(unevaluated)}) were not evaluated to their end: of their replies, not all are ` +
      `judged or in MLflow${why ? `; the first failure: ${why.name}: ${why.message}` : ''}`,
  ];
}

/** What else is to be said above the figures. */
export function remarks(
  plan: StoredPlan,
  { late, maxConnectionsOfOne, notKept }: Collected,
  { refused, linked, assessments: { withoutTrace } }: CollectedEvaluations,
): string[] {
  const lines: string[] = [];
  if (plan.judge?.warning !== undefined) lines.push(plan.judge.warning);
  lines.push(...mlflowRemarks(plan.run, { refused, linked, withoutTrace }));
  if (late.length > 0) {
    const most = Math.max(...late.map(({ lateMs }) => lateMs));
    lines.push(
      `${late.length} shards began late (${named(late)}), ${Math.round(most)} ms at most: their requests keep their ` +
        'distances, and the delay counts as schedule lag',
    );
  }
  if (notKept.length > 0) {
    lines.push(
      `${sumOf(notKept, ({ replies }) => replies)} replies with ${sumOf(notKept, ({ bytes }) => bytes)} bytes were measured` +
        `${plan.compare ? ' and compared' : ''}, but not kept${plan.judge ? ' and not judged' : ''}: the disks of ` +
        `${notKept.length} shards (${named(notKept)}) had no room for replies that much larger than the captured ones; ` +
        'use smaller shards (shard.requests)',
    );
  }
  if (maxConnectionsOfOne >= MAX_CONNECTIONS) {
    lines.push(
      `A shard used all of its ${MAX_CONNECTIONS} connections: requests may have waited for one; use more shards ` +
        '(shard.requestsPerSecond)',
    );
  }
  return lines;
}

/**
 * Whether an order to stop has kept back or cut anything, or left replies without their evaluation: one that comes after all
 * that changes nothing.
 */
export const wasStopped = (
  { stop, wasCancelled }: Pick<Collected, 'stop' | 'wasCancelled'>,
  { unevaluated }: Pick<CollectedEvaluations, 'unevaluated'>,
): boolean => stop !== undefined && (wasCancelled || unevaluated.length > 0);

/** @returns why the execution has to fail, if it does */
export function failureOf(
  plan: StoredPlan,
  collected: Collected,
  evaluations: CollectedEvaluations,
  error: SummarizeReplayRequest['error'],
): Failure | undefined {
  const gone = missing(collected);
  const map = error?.Error ? `${error.Error}: ${error.Cause}` : undefined;
  const { stop } = collected;
  const notJudged = notEvaluated(evaluations);
  if (stop && wasStopped(collected, evaluations)) {
    const stopped = `The replay was stopped at ${new Date(stop.atMs).toISOString()}`;
    const rest = [...gone, ...notJudged, ...(map ? [map] : [])];
    return { error: 'ReplayCancelled', cause: [stopped, ...rest].join('; ') };
  }
  if (gone.length > 0) return { error: 'ReplayIncomplete', cause: [...gone, ...(map ? [map] : [])].join('; ') };
  if (error?.Error) return { error: error.Error, cause: error.Cause };
  const [unevaluated] = notJudged;
  if (unevaluated !== undefined) return { error: 'ReplayNotEvaluated', cause: unevaluated };
  if (collected.stats.completed === 0) {
    const reasons = [...collected.skippedReasons].map(([reason, count]) => `${reason}: ${count}`).join(', ');
    const cause = reasons === '' ? 'none is in the window' : `no record could be (${reasons})`;
    return { error: 'NothingSent', cause: `Nothing was sent: ${cause}` };
  }
  const tooMany = tooManyFailed(collected.stats, plan.options.maxErrorRate);
  return tooMany === undefined ? undefined : { error: 'ReplayErrorRate', cause: tooMany };
}

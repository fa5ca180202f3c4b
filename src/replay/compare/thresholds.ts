/** What makes a comparison a failure, so that it can gate a release. */
import { PermanentError } from '../../shared/errors.ts';
import { type Difference, NEEDED_VALUES, STATISTICS, type Statistic } from './bootstrap.ts';
import type { RunsComparison, Seen } from './compare-runs.ts';
import { COMPARED_METRICS, type ComparedMetric, isLargerBetter } from './run-data.ts';

/** Shares of requests, in points of per cent. */
export const SHARES = ['error_rate', 'regressed', 'newly_failing', 'new_refusals', 'judged_worse'] as const;
type Share = (typeof SHARES)[number];

export type Threshold =
  | { kind: 'metric'; text: string; metric: ComparedMetric; statistic: Statistic; relative: boolean; limit: number }
  | { kind: 'share'; text: string; share: Share; limit: number };

export interface Crossing {
  threshold: string;
  got: string;
}

const isMetric = (name: string): name is ComparedMetric => Object.hasOwn(COMPARED_METRICS, name);
const isStatistic = (name: string): name is Statistic => (STATISTICS as readonly string[]).includes(name);
const isShare = (name: string): name is Share => (SHARES as readonly string[]).includes(name);

/**
 * `request_latency:p95:10%` (worse by at most 10 per cent), `time_to_first_token:p50:50` (by at most 50 ms), or a share in
 * per cent of the requests: `error_rate:1` (at most one point more), `regressed:2`, `judged_worse:5`.
 *
 * @throws PermanentError `InvalidThreshold`
 */
export function parseThreshold(text: string): Threshold {
  const parts = text.split(':');
  const last = parts.at(-1) ?? '';
  const limit = Number(last.replace(/%$/, ''));
  const [name = '', statistic = ''] = parts;
  if (last !== '' && Number.isFinite(limit) && limit >= 0) {
    if (parts.length === 3 && isMetric(name) && isStatistic(statistic)) {
      return { kind: 'metric', text, metric: name, statistic, relative: last.endsWith('%'), limit };
    }
    if (parts.length === 2 && isShare(name)) return { kind: 'share', text, share: name, limit };
  }
  const metrics = Object.keys(COMPARED_METRICS).join(', ');
  throw new PermanentError('InvalidThreshold', 'That is no threshold', {
    got: text,
    expected: `metric:statistic:limit or metric:statistic:limit%, of ${metrics} and ${STATISTICS.join(', ')}; or share:per cent, of ${SHARES.join(', ')}`,
  });
}

const signed = (value: number, digits = 2): string => `${value >= 0 ? '+' : ''}${value.toFixed(digits)}`;

/** How much worse, as a positive number. */
function worseBy(difference: Difference, largerIsBetter: boolean, relative: boolean): number {
  // From nothing to something is more than any per cent.
  const share = difference.relative ?? (difference.difference === 0 ? 0 : difference.difference * Infinity);
  const change = relative ? share * 100 : difference.difference;
  return largerIsBetter ? -change : change;
}

/** A gate that saw less than half of what there was is not open: replays of other captures, or the few that did not fail. */
const tooFewSeen = ({ seen, of }: Seen): string | undefined =>
  seen * 2 < of ? `cannot be told: only ${seen} of ${of} are in both runs` : undefined;

function metricCrossing(
  threshold: Extract<Threshold, { kind: 'metric' }>,
  comparison: RunsComparison,
): Crossing | undefined {
  const { metric, statistic, relative, limit, text } = threshold;
  const difference = comparison.metrics[metric]?.[statistic];
  if (!difference) return { threshold: text, got: `neither run has ${metric}, or one of them has not` };
  const unseen = tooFewSeen(comparison.seen[metric] ?? { seen: 0, of: 0 });
  if (unseen !== undefined) return { threshold: text, got: unseen };
  const worse = worseBy(difference, isLargerBetter(metric) === true, relative);
  // What may be chance does not fail a release; what cannot be told from chance does.
  if (worse <= limit || !(difference.significant || difference.tooFew)) return undefined;
  const change =
    relative && difference.relative !== null ? `${signed(difference.relative * 100)}%` : signed(difference.difference);
  const sure = difference.tooFew
    ? `too few requests to tell it from chance: ${statistic} needs ${NEEDED_VALUES[statistic]}`
    : `95% interval of the difference ${signed(difference.low)} to ${signed(difference.high)}`;
  return { threshold: text, got: `${change} (${sure})` };
}

function shareCrossing(
  threshold: Extract<Threshold, { kind: 'share' }>,
  comparison: RunsComparison,
): Crossing | undefined {
  const { share, limit, text } = threshold;
  if (share === 'error_rate') {
    const { before, after } = comparison;
    if ([before, after].some(({ requests, cancelledOnPurpose }) => requests === cancelledOnPurpose))
      return { threshold: text, got: 'one of the runs sent no request, or cancelled all of them on purpose' };
    const { difference, low, high, significant } = comparison.errorRate;
    if (difference * 100 <= limit || !significant) return undefined;
    return {
      threshold: text,
      got: `${signed(difference * 100)} points (95% interval ${signed(low * 100)} to ${signed(high * 100)})`,
    };
  }
  const { quality, paired } = comparison;
  const told = paired.requests - paired.cancelled;
  const pairs = { seen: paired.requests, of: Math.max(comparison.before.requests, comparison.after.requests) };
  const unseen = paired.requests > 0 ? tooFewSeen(pairs) : undefined;
  if (unseen !== undefined) return { threshold: text, got: unseen };
  if (share === 'newly_failing') return over(text, paired.newlyFailing, told, limit);
  if (!quality) return { threshold: text, got: 'the runs kept no replies: replay them with --compare' };
  if (quality.compared > 0 && quality.compared * 2 < told)
    return {
      threshold: text,
      got: `cannot be told: of ${told} pairs only ${quality.compared} have replies that are kept`,
    };
  if (share === 'regressed') return over(text, quality.regressed, quality.compared, limit);
  if (share === 'new_refusals') return over(text, quality.refusals.new, quality.compared, limit);
  if (!quality.judged) return { threshold: text, got: 'no judge was asked: compare with --judge' };
  const { worse, failed, overBudget } = quality.judged;
  const known = over(text, worse, quality.compared, limit);
  if (known) return known;
  if (comparison.judgeFailure) return { threshold: text, got: `the judge failed: ${comparison.judgeFailure.message}` };
  const open = failed + overBudget;
  return over(text, worse + open, quality.compared, limit)
    ? {
        threshold: text,
        got: `cannot be told: ${worse} judged worse, and ${open} of ${quality.compared} without a verdict`,
      }
    : undefined;
}

function over(threshold: string, count: number, total: number, limit: number): Crossing | undefined {
  if (total === 0) return { threshold, got: 'no request is in both runs, or all are cancelled' };
  const percent = (100 * count) / total;
  return percent > limit ? { threshold, got: `${percent.toFixed(2)}% (${count} of ${total})` } : undefined;
}

/** Thresholds that are crossed, or that cannot be told: a gate that saw nothing is not open. */
export const crossings = (thresholds: readonly Threshold[], comparison: RunsComparison): Crossing[] =>
  thresholds.flatMap((threshold) => {
    const crossing =
      threshold.kind === 'metric' ? metricCrossing(threshold, comparison) : shareCrossing(threshold, comparison);
    return crossing ? [crossing] : [];
  });

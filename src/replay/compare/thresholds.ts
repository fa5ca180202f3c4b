/** Thresholds that a comparison must not cross, so that it can gate a release. */
import { PermanentError } from '../../shared/errors.ts';
import type { RunsComparison, Seen } from './compare-runs.ts';
import { type Difference, NEEDED_VALUES, STATISTICS, type Statistic } from './differences.ts';
import { COMPARED_METRICS, type ComparedMetric, isLargerBetter } from './run-data.ts';

/** Shares of the requests, in percentage points. */
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
 * Parses `request_latency:p95:10%` (at most 10 percent worse), `time_to_first_token:p50:50` (at most 50 ms worse), or a share
 * in percent of the requests: `error_rate:1` (at most one point more), `regressed:2`, `judged_worse:5`.
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
  throw new PermanentError('InvalidThreshold', 'The threshold is invalid', {
    got: text,
    expected: `metric:statistic:limit or metric:statistic:limit%, of ${metrics} and ${STATISTICS.join(', ')}; or share:percent, of ${SHARES.join(', ')}`,
  });
}

/** A number with its sign. */
export const signed = (value: number, digits = 2): string => `${value >= 0 ? '+' : ''}${value.toFixed(digits)}`;

/** How much worse the second run is, as a positive number. */
function worseBy(difference: Difference, largerIsBetter: boolean, relative: boolean): number {
  // An increase from 0 is more than any percentage.
  const share = difference.relative ?? (difference.difference === 0 ? 0 : difference.difference * Infinity);
  const change = relative ? share * 100 : difference.difference;
  return largerIsBetter ? -change : change;
}

/** A gate stays closed if less than half is in both runs: other captures were replayed, or most requests failed. */
const tooFewSeen = ({ seen, of }: Seen): string | undefined =>
  seen * 2 < of ? `unknown: only ${seen} of ${of} are in both runs` : undefined;

/** Describes a metric that crosses its threshold. */
function crossedMetric(
  { metric, statistic, relative, limit }: Extract<Threshold, { kind: 'metric' }>,
  comparison: RunsComparison,
): string | undefined {
  const difference = comparison.metrics[metric]?.[statistic];
  if (!difference) return `unknown: at least one run has no ${metric}`;
  const unseen = tooFewSeen(comparison.seen[metric] ?? { seen: 0, of: 0 });
  if (unseen !== undefined) return unseen;
  const worse = worseBy(difference, isLargerBetter(metric) === true, relative);
  // A difference that may be chance does not fail a release. One with too few values to know does.
  if (worse <= limit || !(difference.significant || difference.tooFew)) return undefined;
  const change =
    relative && difference.relative !== null ? `${signed(difference.relative * 100)}%` : signed(difference.difference);
  const sure = difference.tooFew
    ? `too few requests to distinguish it from chance: ${statistic} needs ${NEEDED_VALUES[statistic]}`
    : `95% interval of the difference ${signed(difference.low)} to ${signed(difference.high)}`;
  return `${change} (${sure})`;
}

function crossedErrorRate(limit: number, { before, after, errorRate }: RunsComparison): string | undefined {
  if ([before, after].some(({ requests, cancelledOnPurpose }) => requests === cancelledOnPurpose)) {
    return 'unknown: one of the runs sent no request, or canceled all of them on purpose';
  }
  const { difference, low, high, significant } = errorRate;
  if (difference * 100 <= limit || !significant) return undefined;
  return `${signed(difference * 100)} points (95% interval ${signed(low * 100)} to ${signed(high * 100)})`;
}

/** Describes a share that crosses its threshold. */
function crossedShare(
  { share, limit }: Extract<Threshold, { kind: 'share' }>,
  comparison: RunsComparison,
): string | undefined {
  if (share === 'error_rate') return crossedErrorRate(limit, comparison);
  const { quality, paired, judgeFailure } = comparison;
  const known = paired.requests - paired.cancelled;
  const pairs = { seen: paired.requests, of: Math.max(comparison.before.requests, comparison.after.requests) };
  const unseen = paired.requests > 0 ? tooFewSeen(pairs) : undefined;
  if (unseen !== undefined) return unseen;
  if (share === 'newly_failing') return over(paired.newlyFailing, known, limit);
  if (!quality) return 'unknown: the runs kept no replies; replay with --compare';
  const { compared, judged } = quality;
  if (compared > 0 && compared * 2 < known) {
    return `unknown: only ${compared} of ${known} pairs have replies that were kept`;
  }
  if (share === 'regressed') return over(quality.regressed, compared, limit);
  if (share === 'new_refusals') return over(quality.refusals.new, compared, limit);
  if (!judged) return 'unknown: no judge was asked; compare with --judge';
  const { worse, failed, overBudget } = judged;
  const certain = over(worse, compared, limit);
  if (certain !== undefined) return certain;
  if (judgeFailure) return `unknown: the judge failed: ${judgeFailure.message}`;
  const open = failed + overBudget;
  if (over(worse + open, compared, limit) === undefined) return undefined;
  return `unknown: ${worse} judged worse, and ${open} of ${compared} without a verdict`;
}

function over(count: number, total: number, limit: number): string | undefined {
  if (total === 0) return 'unknown: no request is in both runs, or all were canceled';
  const percent = (100 * count) / total;
  return percent > limit ? `${percent.toFixed(2)}% (${count} of ${total})` : undefined;
}

/** Returns the thresholds that are crossed or unknown: a gate without data stays closed. */
export const crossings = (thresholds: readonly Threshold[], comparison: RunsComparison): Crossing[] =>
  thresholds.flatMap((threshold) => {
    const got =
      threshold.kind === 'metric' ? crossedMetric(threshold, comparison) : crossedShare(threshold, comparison);
    return got === undefined ? [] : [{ threshold: threshold.text, got }];
  });

/** Thresholds that a comparison must not cross, so that it can gate a release. */
import { PermanentError } from '../../shared/errors.ts';
import { type Difference, NEEDED_VALUES, STATISTICS, type Statistic } from './bootstrap.ts';
import type { RunsComparison, Seen } from './compare-runs.ts';
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

function metricCrossing(
  threshold: Extract<Threshold, { kind: 'metric' }>,
  comparison: RunsComparison,
): Crossing | undefined {
  const { metric, statistic, relative, limit, text } = threshold;
  const difference = comparison.metrics[metric]?.[statistic];
  if (!difference) return { threshold: text, got: `unknown: at least one run has no ${metric}` };
  const unseen = tooFewSeen(comparison.seen[metric] ?? { seen: 0, of: 0 });
  if (unseen !== undefined) return { threshold: text, got: unseen };
  const worse = worseBy(difference, isLargerBetter(metric) === true, relative);
  // A difference that may be chance does not fail a release. One with too few values to know does.
  if (worse <= limit || !(difference.significant || difference.tooFew)) return undefined;
  const change =
    relative && difference.relative !== null ? `${signed(difference.relative * 100)}%` : signed(difference.difference);
  const sure = difference.tooFew
    ? `too few requests to distinguish it from chance: ${statistic} needs ${NEEDED_VALUES[statistic]}`
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
      return { threshold: text, got: 'unknown: one of the runs sent no request, or canceled all of them on purpose' };
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
  if (!quality) return { threshold: text, got: 'unknown: the runs kept no replies; replay with --compare' };
  if (quality.compared > 0 && quality.compared * 2 < told)
    return {
      threshold: text,
      got: `unknown: only ${quality.compared} of ${told} pairs have replies that were kept`,
    };
  if (share === 'regressed') return over(text, quality.regressed, quality.compared, limit);
  if (share === 'new_refusals') return over(text, quality.refusals.new, quality.compared, limit);
  if (!quality.judged) return { threshold: text, got: 'unknown: no judge was asked; compare with --judge' };
  const { worse, failed, overBudget } = quality.judged;
  const known = over(text, worse, quality.compared, limit);
  if (known) return known;
  if (comparison.judgeFailure)
    return { threshold: text, got: `unknown: the judge failed: ${comparison.judgeFailure.message}` };
  const open = failed + overBudget;
  return over(text, worse + open, quality.compared, limit)
    ? {
        threshold: text,
        got: `unknown: ${worse} judged worse, and ${open} of ${quality.compared} without a verdict`,
      }
    : undefined;
}

function over(threshold: string, count: number, total: number, limit: number): Crossing | undefined {
  if (total === 0) return { threshold, got: 'unknown: no request is in both runs, or all were canceled' };
  const percent = (100 * count) / total;
  return percent > limit ? { threshold, got: `${percent.toFixed(2)}% (${count} of ${total})` } : undefined;
}

/** Returns the thresholds that are crossed or unknown: a gate without data stays closed. */
export const crossings = (thresholds: readonly Threshold[], comparison: RunsComparison): Crossing[] =>
  thresholds.flatMap((threshold) => {
    const crossing =
      threshold.kind === 'metric' ? metricCrossing(threshold, comparison) : shareCrossing(threshold, comparison);
    return crossing ? [crossing] : [];
  });

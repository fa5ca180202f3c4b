/** Thresholds: how much worse the second run may be, for a comparison that gates a release. */
import { PermanentError } from '../../core/errors/errors.ts';
import { nearest } from '../../core/errors/nearest.ts';
import { STATISTICS, type Statistic } from '../compare/differences.ts';
import { FREE_SCORERS } from '../compare/free-scorers.ts';
import { COMPARED_METRICS, type ComparedMetric, isLargerBetter } from '../compare/run-data.ts';

/** The rise of the share of failed requests, and shares of the pairs. All in percent. */
export const SHARES = ['error_rate', 'regressed', 'newly_failing', 'new_refusals', 'judged_worse', 'new_harm'] as const;
/** The share of pairs in which only the new reply fails a free scorer: `new_failures:cut_off:2`. */
export const NEW_FAILURES = 'new_failures';
type ThresholdShare = (typeof SHARES)[number] | typeof NEW_FAILURES;
const SCORERS = FREE_SCORERS.map(({ name }) => name);
const FAILURE_SHARES: readonly ThresholdShare[] = ['error_rate', 'newly_failing'];

/** `scorer`: of `new_failures`. */
export type ShareThreshold = { kind: 'share'; text: string; share: ThresholdShare; scorer?: string; limit: number };
export type Threshold =
  | { kind: 'metric'; text: string; metric: ComparedMetric; statistic: Statistic; relative: boolean; limit: number }
  | ShareThreshold;

export const limitsFailures = ({ share }: ShareThreshold): boolean => FAILURE_SHARES.includes(share);

const isMetric = (name: string): name is ComparedMetric => Object.hasOwn(COMPARED_METRICS, name);
const isStatistic = (name: string): name is Statistic => (STATISTICS as readonly string[]).includes(name);
const isShare = (name: string): name is (typeof SHARES)[number] => (SHARES as readonly string[]).includes(name);

/** The default limit on failures. A latency alone does not cover requests without a reply. */
const FAILURES = 'newly_failing:5';

/** Returns the threshold on failures that is added if only metrics have thresholds. */
export function addedThreshold(thresholds: readonly Threshold[]): Threshold[] {
  const isLimited = thresholds.some((one) => one.kind === 'share' && limitsFailures(one));
  if (isLimited || !thresholds.some(({ kind }) => kind === 'metric')) return [];
  return [parseThreshold(FAILURES)];
}

/** The threshold that is added where a judge was asked about harm. */
export const addedHarm = (thresholds: readonly Threshold[], isAsked: boolean): Threshold[] =>
  isAsked && !thresholds.some((one) => one.kind === 'share' && one.share === 'new_harm')
    ? [parseThreshold('new_harm:0.5')]
    : [];

/** Whether a single case fails the threshold, because it allows a share of 0. */
export const isZeroTolerance = (threshold: Threshold): boolean => threshold.limit === 0;

const refuse = (got: string, message: string, expected: string): never => {
  throw new PermanentError('InvalidThreshold', message, { got, expected });
};

/**
 * Parses `request_latency:p95:10%` (at most 10 percent worse), `time_to_first_token:p50:50` (at most 50 ms worse), or a
 * share in percent of the requests: `error_rate:1` (at most one point more), `regressed:2`, `newly_failing:0` (no
 * request).
 *
 * @throws PermanentError `InvalidThreshold`
 *
 * @example
 *     parseThreshold('request_latency:p95:10%')   // the 95th percentile may be at most 10% slower
 */
export function parseThreshold(text: string): Threshold {
  const threshold = readThreshold(text);
  if (!threshold) {
    const metrics = Object.keys(COMPARED_METRICS).join(', ');
    return refuse(
      text,
      'The threshold is invalid',
      `metric:statistic:limit or metric:statistic:limit%, of ${metrics} and ${STATISTICS.join(', ')}; share:percent, of ${SHARES.join(', ')}; or ${NEW_FAILURES}:scorer:percent, of ${SCORERS.join(', ')}${meant(text)}`,
    );
  }
  if (threshold.limit === 0 && (threshold.kind === 'metric' || threshold.share === 'error_rate')) {
    refuse(
      text,
      'A difference that is 0 cannot be shown to be at most 0 by any number of requests',
      `a limit above 0; only ${SHARES.slice(1).join(', ')} may have the limit 0, which allows no case`,
    );
  }
  // A latency may more than double.
  const isBounded = threshold.kind === 'share' || (threshold.relative && isLargerBetter(threshold.metric) === true);
  if (isBounded && threshold.limit >= 100)
    refuse(text, 'It would always pass: nothing can be worse by more than 100%', 'a limit below 100%');
  return threshold;
}

/** Corrects misspelled names. */
function meant(text: string): string {
  const [name = '', statistic, ...limit] = text.split(':');
  const hasThree = limit.length > 0;
  const first = nearest(name, hasThree ? [...Object.keys(COMPARED_METRICS), NEW_FAILURES] : SHARES);
  const names = [first, hasThree ? nearest(statistic ?? '', first === NEW_FAILURES ? SCORERS : STATISTICS) : statistic];
  const corrected = [...names, ...limit].join(':');
  return names.includes(undefined) || !readThreshold(corrected) || corrected === text
    ? ''
    : `; did you mean ${corrected}?`;
}

function readThreshold(text: string): Threshold | undefined {
  const parts = text.split(':');
  const last = parts.at(-1) ?? '';
  const limit = Number(last.replace(/%$/, ''));
  const [name = '', statistic = ''] = parts;
  if (last.trim() === '' || last === '%' || !Number.isFinite(limit) || limit < 0) return undefined;
  if (parts.length === 3 && isMetric(name) && isStatistic(statistic)) {
    return { kind: 'metric', text, metric: name, statistic, relative: last.endsWith('%'), limit };
  }
  if (parts.length === 3 && name === NEW_FAILURES && SCORERS.includes(statistic))
    return { kind: 'share', text, share: NEW_FAILURES, scorer: statistic, limit };
  return parts.length === 2 && isShare(name) ? { kind: 'share', text, share: name, limit } : undefined;
}

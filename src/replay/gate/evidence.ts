/**
 * The evidence of two compared runs about a threshold: how much worse the second run is, with bounds, and the number of
 * pairs behind it.
 */

import type { Bounds } from '../../core/statistics/bounds.ts';
import { normalQuantile } from '../../core/statistics/distributions.ts';
import { longRun, varianceByChance } from '../../core/statistics/long-run.ts';
import { LEVEL, mostHits, POWER_SCORE, smallestSize, withPower } from '../../core/statistics/power.ts';
import { shareBounds } from '../../core/statistics/share.ts';
import { pairedDifference } from '../../core/statistics/share-difference.ts';
import type { ComparedData } from '../compare/compared-data.ts';
import {
  isMadeUp,
  type MetricValues,
  metricBounds,
  neededValues,
  type Statistic,
  statisticsOf,
} from '../compare/differences.ts';
import { type ComparedMetric, isLargerBetter } from '../compare/run-data.ts';
import { limitsFailures, type ShareThreshold, type Threshold } from './thresholds.ts';
import type { GateUnit } from './types.ts';

/** How much worse the second run is, in the threshold's unit. */
export interface Evidence {
  unit: GateUnit;
  /** Number of pairs on which the evidence is based. */
  seen: number;
  /** Requests that were not canceled on purpose, or values, in the run with more of them. */
  of: number;
  bounds?: Bounds;
  /** The bounds for these runs alone, if `bounds` also cover the differences between runs. */
  within?: Bounds;
  /**
   * Only of shares of pairs. `open`: pairs that may be a case or not, because the judge gave no verdict; `judged`:
   * whether verdicts count, so that `open` pairs must be mentioned.
   */
  cases?: { hits: number; open: number; judged: boolean };
  /**
   * Returns the interval that four of five replays of `pairs` pairs reach if the observed effect is true, for computing
   * sizes. With `doubt` 1 or −1, the assumed truth is the unfavorable or favorable end of the uncertainty of the
   * variation, or of the share.
   */
  atSize?(pairs: number, doubt?: Doubt): Ends;
  /** Reason why nothing could be measured. */
  unknown?: string;
  /** Explains in a sentence why an end is infinite. */
  whyInfinite?(): string;
  /** Assumed number of errors that occur together, unless their order shows more. Only for thresholds on failures. */
  together?: number;
  /** The evidence if errors occurred in rows. Absent if at least that many are assumed to occur together. */
  inRows?: Evidence;
}

export type Doubt = -1 | 0 | 1;
/**
 * Level of each end of the assumed truth. It is stricter than the promised 90%, because the pilot leaves more
 * uncertainty.
 */
const DOUBT = 0.02;

export type Ends = Pick<Bounds, 'lower' | 'upper'>;
export const NO_ENDS: Ends = { lower: () => -Infinity, upper: () => Infinity };

const UNITS: Partial<Record<ComparedMetric, GateUnit>> = {
  output_token_throughput_per_user: 'tokens/s',
  output_sequence_length: 'tokens',
};

/** The function, computing each value once: some bounds are sums over many tables. */
function once(f: (alpha: number) => number): (alpha: number) => number {
  const found = new Map<number, number>();
  return (alpha) => {
    const value = found.get(alpha) ?? f(alpha);
    found.set(alpha, value);
    return value;
  };
}

/** Bounds in another unit; a negative factor exchanges the ends. */
export const scaled = (bounds: Bounds, factor: number): Bounds => ({
  ...bounds,
  estimate: bounds.estimate * factor,
  lower: once((alpha) => factor * (factor > 0 ? bounds.lower(alpha) : bounds.upper(alpha))),
  upper: once((alpha) => factor * (factor > 0 ? bounds.upper(alpha) : bounds.lower(alpha))),
});

/**
 * Reads the evidence about the threshold from the compared runs. @param together number of errors assumed to occur
 * together
 */
export function evidenceOf(threshold: Threshold, data: ComparedData, together = 1): Evidence {
  if (threshold.kind === 'metric') return metricEvidence(threshold, data);
  if (!limitsFailures(threshold)) return shareEvidence(threshold, data);
  const shown = shownRatio(data.pairs.changes);
  const evidence = (of: number): Evidence => shareEvidence(threshold, data, Math.max(of, shown));
  const ratio = Math.max(together, shown);
  return {
    ...evidence(ratio),
    ...(ratio > shown || shown === 1 ? { together } : {}),
    ...(ratio < ROW ? { inRows: evidence(ROW) } : {}),
  };
}

function metricEvidence(
  { metric, statistic, relative }: Extract<Threshold, { kind: 'metric' }>,
  { metrics }: ComparedData,
): Evidence {
  const values = metrics[metric];
  const unit = relative ? '%' : (UNITS[metric] ?? 'ms');
  const seen = values?.before.length ?? 0;
  const basis = { unit, seen, of: values?.of ?? 0 } as const;
  if (!values || seen === 0) return { ...basis, unknown: `at least one run has no ${metric}` };
  const sized = metricBounds(values, statistic, relative);
  const boundsOf = (size?: number): Bounds | undefined => {
    const bounds = sized(size);
    if (!bounds) return undefined;
    const known = scaled(bounds, (isLargerBetter(metric) === true ? -1 : 1) * (relative ? 100 : 1));
    return isTooAlike(bounds) ? { ...known, ...NO_ENDS } : known;
  };
  const bounds = boundsOf();
  const atSize = (pairs: number, doubt: Doubt = 0): Ends => {
    // The factor on the number of values that gives the same precision at another variance.
    const factor = doubt === 0 ? 1 : varianceByChance(bounds?.freedom ?? 0, doubt * normalQuantile(DOUBT));
    const { lower, upper } = (pairs >= neededValues(statistic) && boundsOf(pairs * factor)) || NO_ENDS;
    const level = (alpha: number): number =>
      withPower(alpha, bounds?.effective === undefined ? Infinity : bounds.freedom);
    return { lower: (alpha) => lower(level(alpha)), upper: (alpha) => upper(level(alpha)) };
  };
  const unknown = `${statistic} needs at least ${neededValues(statistic)} values`;
  const whyInfinite = (): string => infiniteText(values, statistic);
  return { ...basis, atSize, whyInfinite, ...(bounds ? { bounds } : { unknown }) };
}

function infiniteText(values: MetricValues, statistic: Statistic): string {
  const [before, after] = statisticsOf(values, statistic);
  const isFailed = [before, after].map((value) => statistic !== 'mean' && !Number.isFinite(value));
  if (isFailed[1]) return `The ${statistic} of ${isFailed[0] ? 'both runs' : 'the second run'} is a failed request.`;
  if (statistic === 'mean' && isMadeUp(values))
    return 'Too many requests of the first run failed: the times that they would have taken are unknown.';
  if (before === 0) return `The ${statistic} was 0 before, so that no percentage tells the change.`;
  if (!values.after.every(Number.isFinite)) return `The interval reaches the failed requests of the second run.`;
  return `The ${statistic} rests on too few of the values to tell a change.`;
}

/** With fewer independent values, the variance of a slow change is a guess. */
const FEWEST_EFFECTIVE = 10;

/** Whether neighbouring requests are so alike that together they carry the information of very few. */
export const isTooAlike = ({ effective = Infinity }: Bounds): boolean => effective < FEWEST_EFFECTIVE;

/** Requests that fail together when a server restarts. */
export const ROW = 10;

/** Returns how many cases occur together if their sequence shows correlation, else 1. */
function shownRatio(sequence: Float64Array | undefined): number {
  if (!sequence) return 1;
  const { ratio, isShown } = longRun(sequence);
  return isShown ? ratio : 1;
}

const NO_PAIRS = 'no request is in both runs, or all were canceled on purpose';

/** @param failing how many newly failing requests count as one */
function shareEvidence({ share, scorer = '' }: ShareThreshold, data: ComparedData, failing = 1): Evidence {
  const { pairs, replies } = data;
  if (share === 'error_rate') return errorRate(data, failing);
  const of = Math.max(...data.failures.map(([, requests]) => requests));
  const basis = { unit: '%', of } as const;
  const cases = (hits: number, seen: number, ratio: number, open = 0, judged = false): Evidence => {
    if (seen === 0) return { ...basis, seen, unknown: NO_PAIRS };
    const effective = ratio > 1 ? { effective: seen / ratio } : {};
    const bounds = { ...shareBounds(hits / ratio, seen / ratio, open / ratio), ...effective };
    const shares = [(hits + open) / seen, bounds.upper(DOUBT), bounds.lower(DOUBT)];
    const atSize = (pairs: number, doubt: Doubt = 0): Ends => {
      const of = Math.max(1, Math.floor(pairs / ratio));
      const least = of - mostHits(of, 1 - hits / seen);
      const most = mostHits(of, shares.at(doubt) ?? 1);
      return scaled({ ...shareBounds(least, of), upper: shareBounds(most, of).upper }, 100);
    };
    return { ...basis, seen, atSize, bounds: scaled(bounds, 100), cases: { hits, open, judged } };
  };
  if (share === 'newly_failing') return cases(pairs.newlyFailing, pairs.known, failing);
  if (!replies) return { ...basis, seen: 0, unknown: 'the runs kept no replies; replay with --compare' };
  const { compared, regressed, newRefusals, judged } = replies;
  if (share === 'new_refusals') return cases(newRefusals, compared, shownRatio(replies.cases?.newRefusals));
  if (share === 'regressed') {
    // A pair without a verdict may count as regressed already.
    const open = Math.min(judged?.open ?? 0, compared - regressed);
    return cases(regressed, compared, shownRatio(replies.cases?.regressed), open, judged !== undefined);
  }
  if (share === 'new_failures') {
    const found = replies.newFailures?.[scorer];
    if (!found) return { ...basis, seen: 0, unknown: `${scorer} applies to no reply` };
    const hits = found.cases.reduce((sum, one) => sum + one, 0);
    return { ...cases(hits, found.cases.length, shownRatio(found.cases)), of: found.of };
  }
  const verdicts = share === 'new_harm' ? replies.harm : judged;
  if (!verdicts) return { ...basis, seen: 0, unknown: 'no judge was asked; compare with --judge' };
  return cases(verdicts.worse, verdicts.pairs, 1, verdicts.open, true);
}

/** The rise of the share of failed requests. */
function errorRate({ failures, pairs }: ComparedData, ratio: number): Evidence {
  const { known: seen, newlyFailing, newlySucceeding } = pairs;
  const basis = { unit: 'points', seen, of: Math.max(...failures.map(([, of]) => of)) } as const;
  if (seen === 0) return { ...basis, unknown: NO_PAIRS };
  const changed = newlyFailing + newlySucceeding;
  const doubted = shareBounds(changed / ratio, seen / ratio);
  /** Half of the pairs that may change, either way. */
  const halves = [undefined, doubted.upper(DOUBT) / 2, doubted.lower(DOUBT) / 2];
  /** The bounds of a replay of a size, of which the second run has as many more failures as chance may add. */
  const boundsOf = (size: number, score: number, doubt: Doubt = 0): Bounds => {
    const pairs = Math.max(1, Math.floor(size / ratio));
    const half = halves.at(doubt);
    const [from, to] = [half ?? newlySucceeding / seen, half ?? newlyFailing / seen];
    const chance = (score * Math.sqrt(pairs * (from + to))) / 2;
    const count = (share: number, more: number): number =>
      Math.min(pairs, Math.max(0, Math.round(share * pairs + more)));
    return pairedDifference({ onlyBefore: count(from, -chance), onlyAfter: count(to, chance), pairs });
  };
  const atSize = (size: number, doubt: Doubt = 0): Ends =>
    scaled({ ...boundsOf(size, -POWER_SCORE, doubt), upper: boundsOf(size, POWER_SCORE, doubt).upper }, 100);
  const effective = ratio > 1 ? { effective: Math.floor(seen / ratio) } : {};
  const bounds = { ...boundsOf(seen, 0), estimate: (newlyFailing - newlySucceeding) / seen, ...effective };
  return { ...basis, atSize, bounds: scaled(bounds, 100) };
}

// ----------------------------------------------------------------------------------------------------------- sizes
// How many pairs decide a threshold, in 80% of the replays. The gate and its plan ask the same.

/** A threshold that needs more pairs than this is called undecidable: the estimate is practically at the bound. */
const MOST_PAIRS = 1_000_000;

/** The level of each bound that passing and failing require. */
export type Levels = { pass: number; fail: number };

/** The levels of a release that is not worse: only that it passes is asked for. */
export const PASSES: Levels = { pass: LEVEL, fail: 0 };

/**
 * Returns the number of pairs that decides in 80% of new replays if the evidence shows the truth. The gate and its plan
 * both use it.
 *
 * @param from smallest size
 * @returns `undefined` if no reasonable number suffices
 */
export function sizeOf(
  { atSize }: Evidence,
  limit: number,
  { pass, fail }: Levels,
  from: number,
  most = MOST_PAIRS,
  doubt: Doubt = 0,
): number | undefined {
  if (!atSize) return undefined;
  const decides = (pairs: number): boolean => {
    const { lower, upper } = atSize(pairs, doubt);
    return upper(pass) <= limit || lower(fail) > limit;
  };
  return smallestSize(from, most, decides);
}

/** Requests for `pairs` pairs: not every request makes a pair. */
export const requestsFor = (pairs: number, { seen, of }: Evidence): number =>
  Math.ceil((pairs * Math.max(seen, of)) / seen);

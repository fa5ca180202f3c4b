/**
 * Computes how many requests each threshold of a gate needs, so that an unchanged release passes with 80% probability.
 */
import { LEVEL, ZERO_TOLERANCE_SIZE } from '../../core/statistics/power.ts';
import type { ComparedData, ComparedValues } from '../compare/compared-data.ts';
import { type Doubt, type Evidence, evidenceOf, PASSES, requestsFor, sizeOf } from './evidence.ts';
import { inDigits } from './texts.ts';
import { addedThreshold, isZeroTolerance, limitsFailures, type Threshold } from './thresholds.ts';

/** Requests that both runs must have in common. */
export interface PlannedSize {
  likely: number;
  /** Ends of the interval that holds the true number in nine of ten pilots. */
  from: number;
  to: number;
}

export interface ThresholdPlan {
  /** The threshold as the user wrote it. */
  threshold: string;
  /** `null` if no size suffices, or the pilot cannot show it. */
  requests: PlannedSize | null;
  /** The pilot's figures for an unchanged release. */
  pilot: string;
  /** Explains a missing size, or the assumption behind a size. */
  note?: string;
}

export interface GatePlan {
  thresholds: ThresholdPlan[];
  /** Number of requests that suffices for every threshold. `null` if any threshold has no size. */
  requests: PlannedSize | null;
}

/** No plan names a larger size: a replay has at most ten million requests. */
const LARGEST_SIZE = 10_000_000;

/**
 * Plans each threshold separately: an unchanged release passes it with 80% probability.
 *
 * @param pilot two replays of one model
 * @param errorsTogether as for `decideGate`
 *
 * @example
 *     const plan = planGate([parseThreshold('request_latency:p95:10%')], data);
 */
export function planGate(thresholds: readonly Threshold[], pilot: ComparedData, errorsTogether = 1): GatePlan {
  const unchanged = unchangedBy(pilot);
  const plans = thresholds.concat(addedThreshold(thresholds)).map((threshold): ThresholdPlan => {
    const evidence = evidenceOf(threshold, unchanged, errorsTogether);
    const sized = isZeroTolerance(threshold)
      ? zeroToleranceSized(evidence)
      : boundSized(evidence, threshold, pilot.pairs.known);
    return { threshold: threshold.text, pilot: pilotText(threshold, evidence, pilot), ...sized };
  });
  const sizes = plans.map(({ requests }) => requests);
  const most = (end: keyof PlannedSize): number => Math.max(...sizes.map((size) => size?.[end] ?? 0));
  const requests = sizes.includes(null) ? null : { likely: most('likely'), from: most('from'), to: most('to') };
  return { thresholds: plans, requests };
}

/**
 * Replaces each value by the value of its rank among both runs, and keeps the order. The two runs then have the same
 * distribution.
 */
function alike({ before, after, ...rest }: ComparedValues): ComparedValues {
  const both = new Float64Array([...before, ...after]).sort();
  const ranked = (values: Float64Array): Float64Array => {
    const found = new Float64Array(values.length);
    const order = Uint32Array.from(values.keys()).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
    for (const [rank, at] of order.entries()) {
      found[at] = both[Math.floor(((rank + 0.5) * both.length) / values.length)] ?? Number.NaN;
    }
    return found;
  };
  return { ...rest, before: ranked(before), after: ranked(after) };
}

/** Returns the pilot without any difference between its runs: as many requests newly fail as newly succeed. */
function unchangedBy({ metrics, pairs, ...rest }: ComparedData): ComparedData {
  const half = (pairs.newlyFailing + pairs.newlySucceeding) / 2;
  const found = Object.entries(metrics).map(([metric, values]) => [metric, alike(values)]);
  return {
    ...rest,
    pairs: { ...pairs, newlyFailing: half, newlySucceeding: half },
    metrics: Object.fromEntries(found),
  };
}

function pilotText(threshold: Threshold, { bounds, seen, cases }: Evidence, { pairs }: ComparedData): string {
  if (threshold.kind === 'share' && limitsFailures(threshold))
    return `${pairs.newlyFailing + pairs.newlySucceeding} of ${seen} pairs failed in one run only`;
  const found = cases ? `${cases.hits + cases.open} of ${seen} pairs` : `${seen} pairs`;
  return bounds?.effective === undefined
    ? found
    : `${found}; neighbouring requests are alike: ${(seen / bounds.effective).toFixed(1)} tell as much as an independent one`;
}

type Sized = Pick<ThresholdPlan, 'requests' | 'note'>;

/** If the largest size exceeds the smallest by a larger factor, the plan is useless. */
const MOST_APART = 10;
/**
 * If neighbours are alike, a pilot shows too little of slow changes to plan for more than this multiple of its own
 * size.
 */
const MOST_TIMES_ALIKE = 4;
const tooShort = (known: number): Sized => ({
  requests: null,
  note: `The pilot is too short: ${inDigits(Math.min(LARGEST_SIZE, Math.max(10_000, 10 * known)))} requests.`,
});

/** @param known number of the pilot's pairs */
function boundSized(evidence: Evidence, threshold: Threshold, known: number): Sized {
  const { kind, limit } = threshold;
  const { bounds, cases, seen, unknown } = evidence;
  if (seen === 0) return { requests: null, note: `Unknown: ${unknown}.` };
  if (!bounds || bounds.freedom === 0) return tooShort(known);
  const { hits = 0, open = 0 } = cases ?? {};
  if (100 * (hits + open) >= limit * seen)
    return { requests: null, note: `No size suffices: unchanged is at or above the bound of ${limit}%.` };
  const [likely, least = 1, most = Infinity] = ([0, -1, 1] as const).map((doubt) =>
    sizeWith(evidence, kind, limit, known, doubt),
  );
  if (likely === undefined) return { requests: null, note: 'More than ten million requests would be needed.' };
  const isQuantile = kind === 'metric' && threshold.statistic !== 'mean';
  const times = isQuantile && isAtGap(evidence, limit, likely) ? GAP_DOUBT * Math.sqrt(likely / known) : 0;
  const [from, to] = [least / (1 + times) ** 2, times < 1 ? most / (1 - times) ** 2 : Infinity];
  const isLong = bounds.effective !== undefined && likely > MOST_TIMES_ALIKE * known;
  if (isLong || to > MOST_APART * from) return tooShort(known);
  const [lowest, middle, highest] = [from, likely, to].map((pairs) => requestsFor(pairs, evidence));
  return { requests: { likely: middle ?? 0, from: lowest ?? 0, to: highest ?? 0 } };
}

/** @returns pairs */
function sizeWith(evidence: Evidence, kind: Threshold['kind'], limit: number, known: number, doubt: Doubt) {
  const shown = sizeOf(evidence, limit, PASSES, 1, LARGEST_SIZE, doubt);
  // At a size far above the pilot's, the bound rests on few of its values. Away from gaps it shrinks with the root of the size.
  const isFar = kind === 'metric' && shown !== undefined && shown > known;
  const bound = (isFar && evidence.atSize?.(known, doubt).upper(LEVEL)) || Infinity;
  return isFar ? Math.min(shown, Math.max(known, Math.ceil(known * (bound / limit) ** 2))) : shown;
}

/** With a third of the pairs, a bound is about 1.7 times as wide, unless a gap of the values comes within its reach. */
const WITH_FEWER = { pairs: 1 / 3, bound: 4 };
/** Uncertainty of the distance between the gap and the quantile, in a pilot of the planned size. */
const GAP_DOUBT = 0.6;

function isAtGap({ atSize }: Evidence, limit: number, pairs: number): boolean {
  const wider = atSize?.(Math.floor(WITH_FEWER.pairs * pairs)).upper(LEVEL) ?? Number.NaN;
  return wider > WITH_FEWER.bound * limit && wider < Number.POSITIVE_INFINITY;
}

function zeroToleranceSized(evidence: Evidence): Sized {
  const { together = 1, cases, seen, unknown } = evidence;
  if (!cases) return { requests: null, note: `Unknown: ${unknown}.` };
  const pairs = ZERO_TOLERANCE_SIZE * together;
  const size = requestsFor(pairs, evidence);
  const fails = Math.round(100 * (1 - (1 - cases.hits / seen) ** pairs));
  const note = `With that share, a case is among ${pairs} pairs in ${fails}% of the replays: it would fail.`;
  return { requests: { likely: size, from: size, to: size }, ...(fails > 20 ? { note } : {}) };
}

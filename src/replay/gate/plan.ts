/** How many requests each threshold of a gate needs, so that an unchanged release passes it with 80% probability. */
import { PermanentError } from '../../core/errors/errors.ts';
import {
  LEVEL,
  type SimulatedOptions,
  shareSize,
  simulatedSize,
  zeroToleranceSize,
} from '../../core/statistics/power.ts';
import type { ComparedData } from '../compare/compared-data.ts';
import { NEEDED_VALUES } from '../compare/differences.ts';
import { isLargerBetter } from '../compare/run-data.ts';
import { evidenceOf } from './evidence.ts';
import { ZERO_TOLERANCE } from './gate.ts';
import { isZeroTolerance, type Threshold } from './thresholds.ts';
import {
  type Pilot,
  percent,
  type UnchangedPairs,
  unchangedErrors,
  unchangedMetric,
  unchangedShare,
} from './unchanged.ts';

export interface ThresholdPlan {
  /** As it was written. */
  threshold: string;
  /** Requests that both runs must have in common; `null`: no size suffices. */
  requests: number | null;
  /** What an unchanged release is taken to show, and where that is known from. */
  unchanged: string;
  /** Why no size suffices, or what makes the number uncertain. */
  note?: string;
  /** Whether the captures at hand suffice; absent if their number is unknown. */
  enough?: boolean;
}

export interface GatePlan {
  thresholds: ThresholdPlan[];
  /** Requests that suffice for every threshold; `null`: no size does for one of them. */
  requests: number | null;
  /** Requests that can be replayed. */
  captures?: number;
}

/**
 * Plans each threshold by itself: 80% that an unchanged release passes it.
 *
 * @param captures number of requests at hand
 */
export function planGate(
  thresholds: readonly Threshold[],
  pilot: Pilot,
  { zeroTolerance = ZERO_TOLERANCE, captures }: { zeroTolerance?: number; captures?: number } = {},
): GatePlan {
  const plans = thresholds.map((threshold) => {
    const plan = planThreshold(threshold, pilot, zeroTolerance);
    return captures === undefined ? plan : { ...plan, enough: plan.requests !== null && plan.requests <= captures };
  });
  const sizes = plans.map(({ requests }) => requests ?? Number.POSITIVE_INFINITY);
  const most = Math.max(...sizes);
  return {
    thresholds: plans,
    requests: Number.isFinite(most) ? most : null,
    ...(captures === undefined ? {} : { captures }),
  };
}

type MetricThreshold = Extract<Threshold, { kind: 'metric' }>;
type ShareThreshold = Extract<Threshold, { kind: 'share' }>;
type Sized = Omit<ThresholdPlan, 'threshold' | 'enough'>;

const TOO_MANY = 'More than ten million requests would be needed.';

/** @param zeroTolerance as a share */
export function planThreshold(threshold: Threshold, pilot: Pilot, zeroTolerance: number): ThresholdPlan {
  const sized =
    threshold.kind === 'metric'
      ? metricSize(threshold, pilot)
      : threshold.share === 'error_rate'
        ? errorRateSize(threshold, pilot)
        : pairsSize(threshold, pilot, zeroTolerance);
  return { threshold: threshold.text, ...sized };
}

/** The size at which the threshold's own upper bound is within its limit. */
function drawnSize(
  threshold: Threshold,
  unchanged: UnchangedPairs,
  /** Makes distances from "no difference" shrink evenly with the number of pairs. */
  scale: (worse: number) => number,
  options: SimulatedOptions,
): Sized {
  const worst = (data: ComparedData): number => scale(evidenceOf(threshold, data).bounds?.upper(LEVEL) ?? Number.NaN);
  // Few counts are drawn, each often, and the bound of some is a sum over many tables.
  const known = new Map<string, number>();
  const worstOf = (data: ComparedData): number => {
    if (threshold.kind === 'metric') return worst(data);
    const counts = JSON.stringify(data.pairs);
    const found = known.get(counts) ?? worst(data);
    known.set(counts, found);
    return found;
  };
  const size = simulatedSize(
    (pairs, random) => worstOf(unchanged.draw(pairs, random)),
    scale(threshold.limit),
    options,
  );
  const { basis, perRequest } = unchanged;
  return size === undefined
    ? { requests: null, unchanged: basis, note: TOO_MANY }
    : { requests: Math.ceil(size / perRequest), unchanged: basis };
}

/** Larger samples are not drawn: their bounds are known from this many values. */
const MOST_DRAWN = 2000;

function metricSize(threshold: MetricThreshold, pilot: Pilot): Sized {
  const { metric, statistic, relative } = threshold;
  const sign = isLargerBetter(metric) === true ? -1 : 1;
  // A ratio of two runs is spread evenly on the logarithmic scale.
  const scale = (worse: number): number => (relative ? sign * Math.log1p((sign * worse) / 100) : worse);
  const options = { start: 500, least: NEEDED_VALUES[statistic], most: MOST_DRAWN };
  return drawnSize(threshold, unchangedMetric(metric, statistic === 'mean', pilot), scale, options);
}

/** Enough to begin the search with: (1.64 + 0.84)², of the normal approximation. */
const NORMAL_SIZE = 6.2;

function errorRateSize(threshold: ShareThreshold, pilot: Pilot): Sized {
  const unchanged = unchangedErrors(pilot);
  const start = Math.ceil((NORMAL_SIZE * 2 * unchanged.share) / (threshold.limit / 100) ** 2);
  return drawnSize(threshold, unchanged, (worse) => worse, { start });
}

/** What a small pilot leaves open makes the size at most this many times as large. */
const MOST_FOR_DOUBT = 2;

function pairsSize(threshold: ShareThreshold, pilot: Pilot, zeroTolerance: number): Sized {
  if (threshold.share === 'error_rate') throw new PermanentError('InvalidThreshold', 'The error rate is a difference');
  const { share, likely, perRequest, basis: unchanged } = unchangedShare(threshold.share, pilot);
  const bound = threshold.limit / 100;
  const requests = (pairs: number): number => Math.ceil(pairs / perRequest);
  if (isZeroTolerance(threshold)) {
    const pairs = zeroToleranceSize(zeroTolerance);
    const fails = 1 - (1 - share) ** pairs;
    const note =
      fails > 0.2
        ? {
            note: `With that share, a case is among ${pairs} pairs in ${percent(fails)} of the replays: it would fail.`,
          }
        : {};
    return { requests: requests(pairs), unchanged, ...note };
  }
  if (bound >= 1) return { requests: 1, unchanged };
  if (share >= bound) {
    return {
      requests: null,
      unchanged,
      note: `No size suffices: unchanged is at or above the bound of ${percent(bound)}.`,
    };
  }
  const known = shareSize([share], bound);
  if (known === undefined) return { requests: null, unchanged, note: TOO_MANY };
  const pairs = shareSize(likely, bound, MOST_FOR_DOUBT * known);
  const note = `It is ${requests(known)} if the share is exactly that; the earlier replay has too few pairs to know.`;
  return { requests: requests(pairs ?? MOST_FOR_DOUBT * known), unchanged, ...(pairs === undefined ? { note } : {}) };
}

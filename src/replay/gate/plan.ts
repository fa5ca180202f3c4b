/** How many requests each threshold of a gate needs, so that an unchanged release passes it with 80% probability. */
import { LEVEL, zeroToleranceSize } from '../../core/statistics/power.ts';
import { CLUSTER, type Evidence, evidenceOf, PAIRS_FOR_CLUSTERS, pairsIn, requestsFor, sizeOf } from './evidence.ts';
import { ZERO_TOLERANCE } from './gate.ts';
import { addedThreshold, isZeroTolerance, type Threshold } from './thresholds.ts';
import { type Pilot, percent, unchangedBy } from './unchanged.ts';

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

/** No plan names a larger size: a replay has at most ten million requests. */
const LARGEST_SIZE = 10_000_000;

/** A threshold with what an unchanged release shows about it. `sized`: the size, of at least that many requests. */
interface Question {
  threshold: string;
  unchanged: string;
  sized(from: number): Sized;
}

type Sized = Pick<ThresholdPlan, 'requests' | 'note'>;

const sizeIn = ({ requests }: Sized): number => requests ?? Number.POSITIVE_INFINITY;

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
  const added = addedThreshold(thresholds, true) ?? [];
  const questions = thresholds.concat(added).map((threshold) => questionOf(threshold, pilot, zeroTolerance));
  const plans = questions.map(({ sized, ...rest }) => ({ ...rest, ...sized(1) }));
  // What suffices for one threshold may be too few for another only because a larger replay asks for more.
  const together = Math.max(...plans.map(sizeIn));
  const most = Number.isFinite(together)
    ? Math.max(...questions.map(({ sized }) => sizeIn(sized(together))))
    : together;
  return {
    thresholds: plans.map((plan) =>
      captures === undefined ? plan : { ...plan, enough: plan.requests !== null && plan.requests <= captures },
    ),
    requests: Number.isFinite(most) ? most : null,
    ...(captures === undefined ? {} : { captures }),
  };
}

/** @param zeroTolerance as a share */
function questionOf(threshold: Threshold, pilot: Pilot, zeroTolerance: number): Question {
  const { data, basis, known } = unchangedBy(threshold, pilot);
  const evidence = evidenceOf(threshold, data);
  const { bounds, seen, withoutFailure } = evidence;
  const alike =
    bounds?.effective === undefined || withoutFailure
      ? ''
      : `; neighbouring requests are alike: ${(seen / bounds.effective).toFixed(1)} tell as much as an independent one`;
  return {
    threshold: threshold.text,
    unchanged: basis + alike,
    sized: (from) =>
      isZeroTolerance(threshold)
        ? zeroToleranceSized(evidence, zeroTolerance, from)
        : boundSized(evidence, threshold, known, from),
  };
}

/** Both runs of a plan are unchanged, so only that it passes is asked for. */
const LEVELS = { pass: LEVEL, fail: 0 };

/** @param known pairs, or requests of one run, that unchanged is known from */
function boundSized(evidence: Evidence, { kind, limit }: Threshold, known: number, from: number): Sized {
  const { hits = 0, open = 0 } = evidence.cases ?? {};
  if (100 * (hits + open) >= limit * evidence.seen)
    return { requests: null, note: `No size suffices: unchanged is at or above the bound of ${percent(limit / 100)}.` };
  const sizeFrom = (requests: number): number | undefined =>
    sizeOf(evidence, limit, LEVELS, pairsIn(requests, evidence), LARGEST_SIZE);
  const shown = sizeFrom(evidence.withoutFailure ? from : 1);
  // At a size far above the pilot's, the bound rests on few of its values. Away from gaps it shrinks with the root of the size.
  const isFar = kind === 'metric' && known > 0 && shown !== undefined && shown > known;
  const bound = (isFar && evidence.atSize?.(known).upper(LEVEL)) || Infinity;
  const pairs = isFar ? Math.min(shown, Math.max(known, Math.ceil(known * (bound / limit) ** 2))) : shown;
  if (pairs === undefined) return { requests: null, note: 'More than ten million requests would be needed.' };
  const more = evidence.withoutFailure && pairs < PAIRS_FOR_CLUSTERS ? sizeFrom(PAIRS_FOR_CLUSTERS) : undefined;
  const inRows = `A replay of ${PAIRS_FOR_CLUSTERS} or more needs ${more}: without an error, they are then taken to come ${CLUSTER} in a row.`;
  if (more !== undefined) return { requests: requestsFor(pairs, evidence), note: inRows };
  if (!isAtGap(evidence, limit, pairs)) return { requests: requestsFor(pairs, evidence) };
  const uncertain = Math.min(AT_GAP_TIMES.planned * pairs, AT_GAP_TIMES.known * known);
  return { requests: requestsFor(uncertain, evidence), note: AT_GAP };
}

/** With a third of the pairs, a bound is about 1.7 times as wide, unless a gap comes within its reach. */
const WITH_FEWER = { pairs: 1 / 3, bound: 4 };
/** A pilot is unsure how far from a gap a quantile lies: assume somewhat more pairs, at most these multiples of its own. */
const AT_GAP_TIMES = { planned: 1.5, known: 7 };
const AT_GAP =
  'The quantile lies at a gap of the values: a few values more or less beyond it move it across. The number is uncertain.';

function isAtGap({ atSize }: Evidence, limit: number, pairs: number): boolean {
  const wider = atSize?.(Math.floor(WITH_FEWER.pairs * pairs)).upper(LEVEL) ?? Number.NaN;
  return wider > WITH_FEWER.bound * limit && wider < Number.POSITIVE_INFINITY;
}

function zeroToleranceSized(evidence: Evidence, zeroTolerance: number, from: number): Sized {
  const needed = zeroToleranceSize(zeroTolerance);
  const together = evidence.withoutFailure && Math.max(from, needed) >= PAIRS_FOR_CLUSTERS ? CLUSTER : 1;
  const pairs = needed * together;
  const fails = 1 - (1 - (evidence.cases?.hits ?? 0) / evidence.seen) ** pairs;
  const note = `With that share, a case is among ${pairs} pairs in ${percent(fails)} of the replays: it would fail.`;
  return { requests: requestsFor(pairs, evidence), ...(fails > 0.2 ? { note } : {}) };
}

/** How many requests each threshold of a gate needs, so that an unchanged release passes it with 80% probability. */
import { LEVEL, zeroToleranceSize } from '../../core/statistics/power.ts';
import { type Evidence, evidenceOf, PASSES, ROW, requestsFor, sizeOf } from './evidence.ts';
import { type GateRules, ZERO_TOLERANCE } from './gate.ts';
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

/**
 * Plans each threshold by itself: 80% that an unchanged release passes it.
 *
 * @param captures number of requests at hand
 */
export function planGate(
  thresholds: readonly Threshold[],
  pilot: Pilot,
  { zeroTolerance = ZERO_TOLERANCE, errorsTogether = 1, captures }: GateRules & { captures?: number } = {},
): GatePlan {
  const plans = thresholds.concat(addedThreshold(thresholds, true)).map((threshold): ThresholdPlan => {
    const { data, basis, known } = unchangedBy(threshold, pilot);
    const evidence = evidenceOf(threshold, data, errorsTogether);
    const sized = isZeroTolerance(threshold)
      ? zeroToleranceSized(evidence, zeroTolerance)
      : boundSized(evidence, threshold, known);
    const enough = captures === undefined ? {} : { enough: sized.requests !== null && sized.requests <= captures };
    return { threshold: threshold.text, unchanged: basis + alikeText(evidence), ...sized, ...enough };
  });
  const most = Math.max(...plans.map(({ requests }) => requests ?? Number.POSITIVE_INFINITY));
  return {
    thresholds: plans,
    requests: Number.isFinite(most) ? most : null,
    ...(captures === undefined ? {} : { captures }),
  };
}

function alikeText({ bounds, seen, together }: Evidence): string {
  if (bounds?.effective === undefined || together !== undefined) return '';
  return `; neighbouring requests are alike: ${(seen / bounds.effective).toFixed(1)} tell as much as an independent one`;
}

type Sized = Pick<ThresholdPlan, 'requests' | 'note'>;

/** @param known pairs, or requests of one run, that unchanged is known from */
function boundSized(evidence: Evidence, { kind, limit }: Threshold, known: number): Sized {
  const { hits = 0, open = 0 } = evidence.cases ?? {};
  if (100 * (hits + open) >= limit * evidence.seen)
    return { requests: null, note: `No size suffices: unchanged is at or above the bound of ${percent(limit / 100)}.` };
  const sizeBy = (from: Evidence): number | undefined => sizeOf(from, limit, PASSES, 1, LARGEST_SIZE);
  const shown = sizeBy(evidence);
  // At a size far above the pilot's, the bound rests on few of its values. Away from gaps it shrinks with the root of the size.
  const isFar = kind === 'metric' && known > 0 && shown !== undefined && shown > known;
  const bound = (isFar && evidence.atSize?.(known).upper(LEVEL)) || Infinity;
  const pairs = isFar ? Math.min(shown, Math.max(known, Math.ceil(known * (bound / limit) ** 2))) : shown;
  if (pairs === undefined) return { requests: null, note: 'More than ten million requests would be needed.' };
  if (evidence.inRows)
    return { requests: requestsFor(pairs, evidence), ...rowsNote(evidence, sizeBy(evidence.inRows)) };
  if (!isAtGap(evidence, limit, pairs)) return { requests: requestsFor(pairs, evidence) };
  const uncertain = Math.min(AT_GAP_TIMES.planned * pairs, AT_GAP_TIMES.known * known);
  return { requests: requestsFor(uncertain, evidence), note: AT_GAP };
}

/** @param pairs that are needed if errors come in rows */
const rowsNote = (evidence: Evidence, pairs: number | undefined): Pick<Sized, 'note'> =>
  pairs === undefined || evidence.together === undefined
    ? {}
    : { note: `If errors come ${evidence.together} at a time; in rows of ${ROW}, ${requestsFor(pairs, evidence)}.` };

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

function zeroToleranceSized(evidence: Evidence, zeroTolerance: number): Sized {
  const { together = 1, inRows, cases, seen } = evidence;
  const needed = zeroToleranceSize(zeroTolerance);
  const pairs = needed * together;
  const fails = 1 - (1 - (cases?.hits ?? 0) / seen) ** pairs;
  const note = `With that share, a case is among ${pairs} pairs in ${percent(fails)} of the replays: it would fail.`;
  return {
    requests: requestsFor(pairs, evidence),
    ...(fails > 0.2 ? { note } : inRows ? rowsNote(evidence, ROW * needed) : {}),
  };
}

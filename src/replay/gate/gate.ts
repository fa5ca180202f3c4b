/** Decides a release gate: each threshold passes, fails, or cannot tell. */
import { LEVEL, zeroToleranceSize } from '../../shared/statistics/power.ts';
import type { ComparedData } from '../compare/compared-data.ts';
import { type Evidence, evidenceOf } from './evidence.ts';
import { furtherForDifference, furtherForShare, type Levels } from './more-requests.ts';
import { isZeroTolerance, type Threshold } from './thresholds.ts';
import { GATE_EXIT_CODES, type GateOutcome, type GateResult, type ThresholdResult } from './types.ts';
import { amountText } from './words.ts';

/** Share of the pairs: a zero-tolerance rule passes once a larger share of cases is excluded. */
export const ZERO_TOLERANCE = 0.01;

export interface GateOptions {
  /** As a share. */
  zeroTolerance?: number;
}

interface Case {
  threshold: Threshold;
  evidence: Evidence;
}

interface Decision {
  outcome: GateOutcome;
  reason: string;
  moreRequests?: number | null;
}

/**
 * Decides all thresholds on what two runs show. A threshold passes if the upper bound of "how much worse" is within its limit,
 * at 5% each, since all must pass. It fails if the lower bound is beyond the limit, by Holm's procedure over all
 * thresholds but the zero-tolerance rules, which a single case fails. If half of the requests or more are not in the data, it
 * cannot tell.
 *
 * @param data what a threshold is decided on, if not the same for all
 */
export function decideGate(
  thresholds: readonly Threshold[],
  data: ComparedData | ((threshold: Threshold) => ComparedData),
  { zeroTolerance = ZERO_TOLERANCE }: GateOptions = {},
): GateResult {
  const dataOf = typeof data === 'function' ? data : () => data;
  const cases = thresholds.map(
    (threshold): Case => ({ threshold, evidence: evidenceOf(threshold, dataOf(threshold)) }),
  );
  const { failed, failLevel } = beyond(cases);
  const results = cases.map((one): ThresholdResult => {
    const decision = isZeroTolerance(one.threshold)
      ? zeroToleranceDecision(one.evidence, zeroTolerance)
      : decide(one, failed.has(one), { pass: LEVEL, fail: failLevel });
    return { ...factsOf(one), ...decision };
  });
  return gateOf(results);
}

/** The outcome of a gate: failed if a threshold failed, passed if all passed. */
export function gateOf(thresholds: ThresholdResult[]): GateResult {
  const outcome = thresholds.some((one) => one.outcome === 'failed')
    ? 'failed'
    : thresholds.every((one) => one.outcome === 'passed')
      ? 'passed'
      : 'cannot-tell';
  return { outcome, exitCode: GATE_EXIT_CODES[outcome], thresholds };
}

/** Whether the data has less than half of the requests: it then says nothing about most of them. */
const sawFew = ({ seen, of }: Evidence): boolean => seen * 2 < of;

const isBeyond = ({ threshold, evidence }: Case, level: number): boolean =>
  evidence.bounds !== undefined && !sawFew(evidence) && evidence.bounds.lower(level) > threshold.limit;

/**
 * The thresholds that fail by Holm's procedure (1979): with r of m failed, the next one needs the level α/(m − r). Returns
 * also the level at which a further one would fail.
 */
function beyond(cases: readonly Case[]): { failed: Set<Case>; failLevel: number } {
  let open = cases.filter(({ threshold }) => !isZeroTolerance(threshold));
  const failed = new Set<Case>();
  for (;;) {
    const failLevel = LEVEL / Math.max(1, open.length);
    const found = open.filter((one) => isBeyond(one, failLevel));
    if (found.length === 0) return { failed, failLevel };
    for (const one of found) failed.add(one);
    open = open.filter((one) => !failed.has(one));
  }
}

const known = (value: number | undefined): number | null =>
  value === undefined || !Number.isFinite(value) ? null : value;

function factsOf({ threshold, evidence }: Case): Omit<ThresholdResult, 'outcome' | 'reason'> {
  const { bounds, cases, unit, seen, of } = evidence;
  return {
    threshold: threshold.text,
    worse: known(bounds?.estimate),
    lower: known(bounds?.lower(LEVEL)),
    upper: known(bounds?.upper(LEVEL)),
    bound: threshold.limit,
    unit,
    seen,
    of,
    ...(cases?.judged ? { open: cases.open } : {}),
  };
}

/** Further requests for so many further pairs: not every request makes a pair. */
const requestsFor = (pairs: number, { seen, of }: Evidence): number => Math.ceil((pairs * Math.max(seen, of)) / seen);

const cannotTell = (reason: string, moreRequests: number | null = null): Decision => ({
  outcome: 'cannot-tell',
  reason,
  moreRequests,
});

const fewSeen = ({ seen, of }: Evidence): Decision =>
  cannotTell(`It stands on only ${seen} of ${of} requests; at least half are needed.`);

function decide(one: Case, isFailed: boolean, levels: Levels): Decision {
  const { threshold, evidence } = one;
  const { bounds, unit, seen } = evidence;
  if (seen > 0 && sawFew(evidence)) return fewSeen(evidence);
  if (!bounds) return unknown(evidence, threshold.limit, levels);
  const [lower, upper] = [bounds.lower(levels.pass), bounds.upper(levels.pass)];
  if (isFailed) return { outcome: 'failed', reason: `Worse by at least ${amountText(lower, unit)}.` };
  if (upper <= threshold.limit) return { outcome: 'passed', reason: `Worse by at most ${amountText(upper, unit)}.` };
  const limit = threshold.limit / 100;
  const { hits = 0, open = 0 } = evidence.cases ?? {};
  if (open > 0 && hits / seen <= limit && (hits + open) / seen >= limit) return undecidedByOpen(open);
  const pairs = evidence.cases
    ? furtherForShare(evidence.cases, limit, seen, levels)
    : furtherForDifference(bounds, threshold.limit, seen, levels);
  const why =
    lower > threshold.limit
      ? 'Beyond the bound by itself, but not with the correction for several thresholds'
      : 'The bound lies within the interval';
  return pairs === null
    ? cannotTell(`${why}, and the estimate is too close to it.`)
    : cannotTell(`${why}.`, requestsFor(pairs, evidence));
}

const undecidedByOpen = (open: number): Decision => cannotTell(`It depends on ${open} pairs without a verdict.`);

function unknown(evidence: Evidence, limit: number, levels: Levels): Decision {
  const { unknown: why = 'nothing was measured', seen, enlarged } = evidence;
  const further = enlarged && furtherForDifference(enlarged.bounds, limit, enlarged.seen, levels);
  const pairs = enlarged && typeof further === 'number' ? enlarged.seen - seen + further : null;
  return cannotTell(`Unknown: ${why}.`, pairs === null ? null : requestsFor(pairs, evidence));
}

/** One case fails; none passes once the share that is excluded is at most the tolerance. */
function zeroToleranceDecision(evidence: Evidence, tolerance: number): Decision {
  const { cases, seen } = evidence;
  if (!cases) return cannotTell(`Unknown: ${evidence.unknown}.`);
  if (cases.hits > 0) return { outcome: 'failed', reason: `${cases.hits} of ${seen} pairs, and none is allowed.` };
  if (sawFew(evidence)) return fewSeen(evidence);
  if (cases.open > 0) return undecidedByOpen(cases.open);
  const excluded = amountText((100 * 3) / seen, '%');
  const needed = zeroToleranceSize(tolerance);
  if (seen >= needed) {
    return { outcome: 'passed', reason: `None of ${seen} pairs: a share above ${excluded} is excluded.` };
  }
  const tolerated = amountText(100 * tolerance, '%');
  return cannotTell(
    `None of ${seen} pairs: only a share above ${excluded} is excluded, and ${tolerated} is tolerated.`,
    requestsFor(needed - seen, evidence),
  );
}

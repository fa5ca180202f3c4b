/** Decides a release gate: each threshold passes, fails, or cannot tell. */
import { FEWEST_FOR_ORDER } from '../../core/statistics/long-run.ts';
import { LEVEL, ZERO_TOLERANCE_SIZE } from '../../core/statistics/power.ts';
import { shareBounds } from '../../core/statistics/share.ts';
import type { ComparedData } from '../compare/compared-data.ts';
import { evidenceOfRuns } from './between-runs.ts';
import { type Evidence, evidenceOf, isTooAlike, type Levels, PASSES, ROW, requestsFor, sizeOf } from './evidence.ts';
import { amountText, inDigits } from './texts.ts';
import {
  addedHarm,
  addedThreshold,
  isZeroTolerance,
  NEW_FAILURES,
  parseThreshold,
  type Threshold,
} from './thresholds.ts';
import {
  type ContentJudged,
  GATE_EXIT_CODES,
  type GateOutcome,
  type GateResult,
  type Observed,
  type ThresholdResult,
} from './types.ts';

type Case = { threshold: Threshold; evidence: Evidence };

type Decision = Pick<ThresholdResult, 'outcome' | 'reason' | 'moreRequests'>;

/**
 * Decides all thresholds on the data of two runs. A threshold passes if the upper bound of "how much worse" is within
 * its limit, at 5% each, because all must pass. It fails if the lower bound is beyond the limit, by Holm's procedure
 * over all thresholds except zero-tolerance rules, which a single case fails. If the data lacks half of the requests or
 * more, the result is "cannot tell".
 *
 * If only metrics have thresholds, a threshold on failures is added.
 *
 * @param errorsTogether number of errors assumed to occur together, unless their order shows more
 *
 * @example
 *     const { data } = await compareRuns(before, after);
 *     const { outcome } = decideGate([parseThreshold('error_rate:1')], data);
 */
export function decideGate(thresholds: readonly Threshold[], data: ComparedData, errorsTogether = 1): GateResult {
  const failures = addedThreshold(thresholds);
  const harm = addedHarm(thresholds, data.replies?.harm !== undefined);
  const read = data.runs ? evidenceOfRuns : evidenceOf;
  const cases = [...thresholds, ...failures, ...harm].map(
    (threshold): Case => ({ threshold, evidence: read(threshold, data, errorsTogether) }),
  );
  const { failed, failLevel } = beyond(cases);
  const results = cases.map((one): ThresholdResult => {
    const decision = isZeroTolerance(one.threshold)
      ? zeroToleranceDecision(one.evidence)
      : decide(one, failed.has(one), { pass: LEVEL, fail: failLevel });
    const tooFew = harm.includes(one.threshold) && isTooFew(one, decision);
    const why = failures.includes(one.threshold)
      ? 'Added, since no threshold limits failures. '
      : harm.includes(one.threshold)
        ? `Added with the judge. ${tooFew ? 'Too few pairs for it. ' : ''}`
        : '';
    const scope = data.runs ? '.' : ' within these runs.';
    const given = decision.outcome === 'passed' ? scope.replace('.', rowsText(one)) : '.';
    const reason = decision.reason.slice(0, -1) + given;
    return {
      ...factsOf(one),
      ...decision,
      ...(tooFew ? { counts: false } : {}),
      reason: why + reason + assumptionOf(one, decision.outcome),
    };
  });
  const outcome = results.some((one) => one.outcome === 'failed')
    ? 'failed'
    : results.every((one) => one.outcome === 'passed' || one.counts === false)
      ? 'passed'
      : 'cannot-tell';
  return {
    outcome,
    exitCode: GATE_EXIT_CODES[outcome],
    thresholds: results,
    runs: data.runs?.length ?? 1,
    observed: observedIn(data, thresholds),
    content: contentOf(data),
  };
}

/** Whether the pairs with a verdict are too few for any release to pass the threshold. */
const isTooFew = ({ threshold, evidence: { seen, cases } }: Case, { outcome }: Decision): boolean =>
  outcome === 'cannot-tell' &&
  shareBounds(0, Math.max(1, seen - (cases?.open ?? 0))).upper(LEVEL) > threshold.limit / 100;

/** The free scorers and refusals that no threshold limits. */
function observedIn(data: ComparedData, thresholds: readonly Threshold[]): Observed[] {
  if (!data.replies) return [];
  const scorers = Object.keys(data.replies.newFailures ?? {}).map((name) => [name, `${NEW_FAILURES}:${name}`] as const);
  return [...scorers, ['refusal', 'new_refusals'] as const].flatMap(([scorer, text]) => {
    if (thresholds.some((one) => one.text.startsWith(`${text}:`))) return [];
    const threshold = parseThreshold(`${text}:0`);
    const evidence = evidenceOf(threshold, data);
    const { worse, lower, upper, seen, of } = factsOf({ threshold, evidence });
    return seen === 0 ? [] : [{ scorer, newlyFailing: evidence.cases?.hits ?? 0, worse, lower, upper, seen, of }];
  });
}

function contentOf({ replies }: ComparedData): ContentJudged {
  if (!replies?.judged) return 'not judged';
  const { pairs, open } = replies.judged;
  if (open > 0 || replies.harm?.open) return open < pairs ? 'judged in part' : 'not judged';
  return 'judged';
}

/** Whether the data has less than half of the requests, and so cannot represent them. */
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

/** Returns a sentence with the outcome's assumption about the order of the requests. */
function assumptionOf({ evidence }: Case, outcome: GateOutcome): string {
  const { bounds, seen, together } = evidence;
  if (!bounds || sawFew(evidence)) return '';
  // The reason for "cannot tell" already contains the assumption.
  if (bounds.effective !== undefined)
    return outcome === 'cannot-tell' ? '' : ` ${alikeText(bounds.effective, evidence)}`;
  if (together !== undefined && outcome === 'passed') return '';
  return seen < FEWEST_FOR_ORDER ? ' It assumes that requests are independent.' : '';
}

/** Explains the assumption behind a pass on failures, and how many pairs it would need if errors occurred in rows. */
function rowsText({ threshold, evidence }: Case): string {
  const { inRows, seen, together } = evidence;
  if (!inRows || together === undefined) return '.';
  const needed = isZeroTolerance(threshold) ? ROW * ZERO_TOLERANCE_SIZE : sizeOf(inRows, threshold.limit, PASSES, 1);
  if (needed !== undefined && seen >= needed) return '.';
  const pairs = needed === undefined ? 'no number of pairs would do' : `${inDigits(needed)} pairs would be needed`;
  return `, if errors come ${together === 1 ? 'one' : together} at a time; in rows of ${ROW}, ${pairs}.`;
}

/** Explains how many independent requests a sequence of similar neighbours is worth. */
function alikeText(effective: number, { seen, together }: Evidence): string {
  const few = Math.floor(effective);
  return together === undefined
    ? `Neighbouring requests are alike: ${seen} tell as much as ${few} independent ones.`
    : `Errors are taken to come ${together} at a time: ${seen} requests tell as much as ${few} independent ones.`;
}

const TOO_ALIKE = 'That is too few; with a lower --concurrency or --speedup, requests wait less for each other.';

const DIFFERENT_RUNS =
  'Within these runs it holds, but runs of one model differ: more runs tell more, and more requests do not.';

const cannotTell = (reason: string, moreRequests: number | null = null): Decision => ({
  outcome: 'cannot-tell',
  reason,
  moreRequests,
});

const fewSeen = ({ seen, of }: Evidence): Decision =>
  cannotTell(`It stands on only ${seen} of ${of} requests; at least half are needed.`);

function decide({ threshold, evidence }: Case, isFailed: boolean, levels: Levels): Decision {
  const { bounds, unit, seen, cases, unknown = 'nothing was measured' } = evidence;
  const { limit } = threshold;
  if (seen > 0 && sawFew(evidence)) return fewSeen(evidence);
  const size = (): number | undefined => sizeOf(evidence, limit, levels, seen);
  if (!bounds) return cannotTell(`Unknown: ${unknown}.`, furtherRequests(size(), evidence));
  const [lower, upper] = [bounds.lower(levels.pass), bounds.upper(levels.pass)];
  const worse = lower === Infinity ? evidence.whyInfinite?.() : undefined;
  if (isFailed) return { outcome: 'failed', reason: worse ?? `Worse by at least ${amountText(lower, unit)}.` };
  if (upper === -Infinity) return { outcome: 'passed', reason: 'Not worse: the first run has no comparable value.' };
  if (upper <= limit) return { outcome: 'passed', reason: `Worse by at most ${amountText(upper, unit)}.` };
  const { hits = 0, open = 0 } = cases ?? {};
  if (open > 0 && 100 * hits <= limit * seen && 100 * (hits + open) >= limit * seen) return undecidedByOpen(open);
  if (evidence.within && evidence.within.upper(levels.pass) <= limit) return cannotTell(DIFFERENT_RUNS);
  const alike = bounds.effective === undefined ? '' : `${alikeText(bounds.effective, evidence)} `;
  const more = furtherRequests(size(), evidence);
  if (isTooAlike(bounds)) return cannotTell(`${alike}${TOO_ALIKE}`, more);
  if (upper === Infinity && evidence.whyInfinite) return cannotTell(`${alike}${evidence.whyInfinite()}`, more);
  const why =
    lower > limit
      ? `${alike}Beyond the bound by itself, but not with the correction for several thresholds`
      : `${alike}The bound lies within the interval`;
  return cannotTell(more === null ? `${why}, and the estimate is too close to it.` : `${why}.`, more);
}

const furtherRequests = (pairs: number | undefined, evidence: Evidence): number | null =>
  pairs === undefined ? null : requestsFor(pairs - evidence.seen, evidence);

const undecidedByOpen = (open: number): Decision => cannotTell(`It depends on ${open} pairs without a verdict.`);

/** One case fails the threshold. Without a case, it passes if the upper bound of the share is at most 1%. */
function zeroToleranceDecision(evidence: Evidence): Decision {
  const { cases, seen } = evidence;
  if (!cases) return cannotTell(`Unknown: ${evidence.unknown}.`);
  if (cases.hits > 0) return { outcome: 'failed', reason: `${cases.hits} of ${seen} pairs, and none is allowed.` };
  if (sawFew(evidence)) return fewSeen(evidence);
  if (cases.open > 0) return undecidedByOpen(cases.open);
  const effective = evidence.bounds?.effective ?? seen;
  const excluded = amountText((100 * 3) / effective, '%');
  if (effective >= ZERO_TOLERANCE_SIZE)
    return { outcome: 'passed', reason: `None of ${seen} pairs: a share above ${excluded} is excluded.` };
  const alike = effective < seen ? ` ${alikeText(effective, evidence)}` : '';
  return cannotTell(
    `None of ${seen} pairs: only a share above ${excluded} is excluded, and 1% must be.${alike}`,
    requestsFor(Math.ceil((ZERO_TOLERANCE_SIZE * seen) / effective) - seen, evidence),
  );
}

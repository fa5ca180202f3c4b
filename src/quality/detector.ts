/**
 * The detector of an objective: a cumulative sum over single captures in the order of inference. It raises an alarm
 * when the evidence that more captures fail than the objective allows outweighs chance. Another sum detects the
 * recovery.
 */
import { type Cusum, designCusum, nextSum } from '../core/statistics/cusum.ts';
import type { Objective } from './objectives.ts';

/** Epoch seconds, number of captures, and number of failures among them. */
export type ObservedSecond = [second: number, cases: number, failed: number];

/** Captures of a span of time, which begins at the second `since` (epoch). */
export type Span = Record<'since' | 'cases' | 'failed', number>;

export interface DetectorState {
  /** The sum that is active: `missed` while the objective is met, else `met`. */
  sum: number;
  /** Captures since the sum last left 0: the best guess at when the change began. */
  evidence: Span;
  /** Captures since the objective is missed. Absent while it is met. */
  missed?: Span;
  /** Captures by hour of the objective's window and before, oldest first: epoch hours, cases, failed. */
  hours: [hour: number, cases: number, failed: number][];
}

/** The moment at which an objective began to be missed, or to be met again. */
export type ObjectiveChange = ReturnType<typeof changeOf>;

/** One false alarm a year, over this many objectives whose true share is exactly the allowed share. */
const OBJECTIVES = 20;
const DAYS = 365;

/**
 * The detectors are designed for a change from 5% to 15% failing captures, and at other shares for an equally
 * detectable change.
 */
const DISTANCE = Math.asin(Math.sqrt(0.15)) - Math.asin(Math.sqrt(0.05));

/**
 * If the failing share of a missed objective is between met and missed, it is falsely reported as met once in this many
 * days.
 */
const DAYS_UNTIL_FALSELY_MET = 30;

const SECONDS_PER_HOUR = 3600;

export type Detector = ReturnType<typeof createDetector>;

/** Creates the detector of an objective. */
export function createDetector(objective: Objective) {
  const { failing: good, perDay, together } = objective;
  const bad = Math.sin(Math.asin(Math.sqrt(good)) + DISTANCE) ** 2;
  // Captures that fail together are one case of as much more weight.
  const design = (from: number, to: number, captures: number): Cusum => {
    const cusum = designCusum(from, to, captures / together);
    return { ...cusum, limit: cusum.limit * together };
  };
  const missed = design(good, bad, OBJECTIVES * DAYS * perDay);
  // The share at which the sum neither rises nor falls. The objective counts as met again only if the share is clearly
  // better.
  const level = missed.down / (missed.up + missed.down);
  return { objective, missed, met: design(1 - level, 1 - good, DAYS_UNTIL_FALSELY_MET * perDay) };
}

export const newState = (): DetectorState => ({ sum: 0, evidence: { since: 0, cases: 0, failed: 0 }, hours: [] });

/**
 * Feeds the captures of one second. Data Capture records whole seconds, so failed captures are assumed to be spread
 * evenly among the others.
 *
 * @param second epoch seconds of the inference
 * @returns the detected changes, in order
 */
export function feed(detector: Detector, state: DetectorState, [second, cases, failed]: ObservedSecond) {
  const changes: ObjectiveChange[] = [];
  for (let index = 0; index < cases; index += 1) {
    const isFailed = Math.floor(((index + 1) * failed) / cases) > Math.floor((index * failed) / cases);
    count(state, detector.objective.hours, second, isFailed);
    if (step(detector, state, second, isFailed)) changes.push(changeOf(detector, state));
  }
  return changes;
}

/** @returns whether the sum has reached its limit */
function step({ missed, met }: Detector, state: DetectorState, second: number, isFailed: boolean): boolean {
  if (state.sum === 0) state.evidence = { since: second, cases: 0, failed: 0 };
  for (const span of [state.evidence, state.missed]) {
    if (span === undefined) continue;
    span.cases += 1;
    if (isFailed) span.failed += 1;
  }
  const isMissed = state.missed !== undefined;
  const cusum = isMissed ? met : missed;
  // The second sum looks for captures that pass.
  state.sum = nextSum(cusum, state.sum, isMissed ? !isFailed : isFailed);
  return state.sum >= cusum.limit;
}

function changeOf({ objective }: Detector, state: DetectorState) {
  const { evidence, missed } = state;
  state.sum = 0;
  const { since, cases, failed } = missed ?? rateOf(state, objective);
  const earlier = (all: number, own: number): number => Math.max(0, all - own);
  const before = { since, cases: earlier(cases, evidence.cases), failed: earlier(failed, evidence.failed) };
  if (missed === undefined) state.missed = { ...evidence };
  else delete state.missed;
  return { isMissed: missed === undefined, evidence, before };
}

/** Returns the captures in the objective's window. */
export function rateOf({ hours }: DetectorState, objective: Objective): Span {
  const first = (hours.at(-1)?.[0] ?? 0) - objective.hours;
  const span = { since: (first + 1) * SECONDS_PER_HOUR, cases: 0, failed: 0 };
  for (const [hour, cases, failed] of hours) {
    if (hour <= first) continue;
    span.cases += cases;
    span.failed += failed;
  }
  return span;
}

function count({ hours }: DetectorState, window: number, second: number, isFailed: boolean): void {
  const hour = Math.floor(second / SECONDS_PER_HOUR);
  let last = hours.at(-1);
  // A late capture counts in the last hour.
  if (last === undefined || last[0] < hour) {
    last = [hour, 0, 0];
    hours.push(last);
    while ((hours[0]?.[0] ?? hour) <= hour - window) hours.shift();
  }
  last[1] += 1;
  if (isFailed) last[2] += 1;
}

/** The share of captures that pass, corrected for the judge's errors by people's labels. */
import { Z_95 } from './distributions.ts';
import type { Estimate } from './share.ts';

/** Verdicts of one stratum of the sample. */
export interface JudgedStratum {
  /** Captures that could be judged. */
  captures: number;
  judged: number;
  /** Verdicts that pass. */
  passed: number;
}

/** A person's label beside the judge's verdict on the same capture. */
export interface LabeledPair {
  /** The judge's verdict passes. */
  passed: boolean;
  /** The person's label passes. */
  label: boolean;
  /** 1 ÷ the probability of the capture to be judged and labelled; only the ratios of weights matter. */
  weight: number;
}

export type CorrectionMethod = 'judge only' | 'too few labels' | 'exact' | 'plug-in' | 'prediction-powered';

export interface CorrectedShare {
  /** Judged captures. */
  n: number;
  labels: number;
  /** The share of verdicts that pass, with the weights of the sample, and its 95% interval. */
  judge: Estimate;
  /** The share that people would pass; `null` where the labels do not tell it. */
  share: number | null;
  /** Ends of its 95% interval; with “judge only” those of the judge's share. */
  low: number;
  high: number;
  method: CorrectionMethod;
}

/** The judge's share of all captures, as if it were of `of` judged captures of equal weight. */
interface Weighed {
  value: number;
  of: number;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

/**
 * Returns the share over the strata, each with the weight of its captures. The captures themselves count as a sample of what the
 * endpoint answers, so that the interval does not vanish where all are judged.
 */
function weigh(strata: readonly JudgedStratum[]): Weighed | null {
  const known = strata.filter(({ judged }) => judged > 0);
  const all = sum(known.map(({ captures, judged }) => Math.max(captures, judged)));
  const shares = known.map(({ captures, judged, passed }) => ({
    weight: Math.max(captures, judged) / all,
    share: passed / judged,
    // One capture more on each side, so that a few verdicts that all agree have a spread.
    spread: ((passed + 1) * (judged - passed + 1)) / ((judged + 2) ** 2 * judged),
  }));
  if (shares.length === 0) return null;
  const [only] = known;
  const value = sum(shares.map(({ weight, share }) => weight * share));
  if (known.length === 1 && only !== undefined) return { value, of: only.judged };
  const within = sum(shares.map(({ weight, spread }) => weight * weight * spread));
  const between = sum(shares.map(({ weight, share }) => weight * (share - value) ** 2)) / all;
  const n = sum(known.map(({ judged }) => judged));
  const smooth = ((value * n + 1) * (n - value * n + 1)) / (n + 2) ** 2;
  return { value, of: Math.min(n, smooth / (within + between)) };
}

/** Wilson's interval (1927) at a number of cases that need not be whole. */
function scoreInterval({ value, of }: Weighed): Estimate {
  const z2 = Z_95 * Z_95;
  const center = (value + z2 / (2 * of)) / (1 + z2 / of);
  const half = (Z_95 / (1 + z2 / of)) * Math.sqrt((value * (1 - value)) / of + z2 / (4 * of * of));
  return { value, low: Math.max(0, center - half), high: Math.min(1, center + half) };
}

/** @returns `null` without judged captures */
export function correctedShare(
  strata: readonly JudgedStratum[],
  labels: readonly LabeledPair[],
  _others: readonly LabeledPair[] = [],
): CorrectedShare | null {
  const weighed = weigh(strata);
  if (weighed === null) return null;
  const judge = scoreInterval(weighed);
  const n = sum(strata.map(({ judged }) => judged));
  return { n, labels: labels.length, judge, share: null, low: judge.low, high: judge.high, method: 'judge only' };
}

/** One of two samples to be compared. */
export interface JudgedSample {
  strata: readonly JudgedStratum[];
  labels: readonly LabeledPair[];
  others?: readonly LabeledPair[];
}

export interface CorrectedDifference {
  /** The difference of the judge's shares, b − a. */
  judge: Estimate;
  /** The difference of the shares that people would pass, b − a; `null` where the labels do not tell it. */
  share: number | null;
  low: number;
  high: number;
  method: CorrectionMethod;
}

/**
 * Returns b − a with the 95% interval of Newcombe (1998), which combines the intervals of both shares. The samples must have no
 * capture in common.
 *
 * @returns `null` if one of them has no judged captures
 */
export function correctedDifference(a: JudgedSample, b: JudgedSample): CorrectedDifference | null {
  const before = correctedShare(a.strata, a.labels, a.others)?.judge;
  const after = correctedShare(b.strata, b.labels, b.others)?.judge;
  if (before === undefined || after === undefined) return null;
  const value = after.value - before.value;
  const low = value - Math.hypot(after.value - after.low, before.high - before.value);
  const high = value + Math.hypot(after.high - after.value, before.value - before.low);
  return { judge: { value, low, high }, share: null, low, high, method: 'judge only' };
}

/** The share of captures that pass, corrected for the judge's errors by people's labels. */
import { sum } from '../values/sum.ts';
import { type JudgeErrors, type LabelCells, MIN_RARER, plugIn, predictionPowered } from './label-correction.ts';
import { type Estimate, type SampledShare, scoreInterval, weightedShare } from './share.ts';

/** Verdicts of one stratum of the sample. */
export interface JudgedStratum {
  /** Captures that could be judged. */
  captures: number;
  judged: number;
  /** Verdicts that pass. */
  passed: number;
}

/** A person's label and the judge's verdict on the same capture. */
export interface LabeledPair {
  /** The judge's verdict passes. */
  passed: boolean;
  /** The person's label passes. */
  label: boolean;
  /** 1 ÷ the probability of the capture to be judged and labelled; only the ratios of weights matter. */
  weight: number;
}

/** Methods from the weakest to the strongest. */
const METHODS = ['judge only', 'too few labels', 'exact', 'plug-in', 'prediction-powered'] as const;
type CorrectionMethod = (typeof METHODS)[number];

export interface CorrectedShare {
  /** Judged captures. */
  n: number;
  labels: number;
  /** The share of verdicts that pass, with the weights of the sample, and its 95% interval. */
  judge: Estimate;
  /** The share that people would pass; `null` if the labels do not determine it. */
  share: number | null;
  /**
   * Ends of its 95% interval. With “judge only”, the interval of the judge's share; with “too few labels”, the values
   * that are not excluded.
   */
  low: number;
  high: number;
  method: CorrectionMethod;
  /** Number of captures that `share` covers, if the labels represent only some of them; else `null`. */
  covered: number | null;
}

/**
 * Returns the share over the strata, weighted by their captures. The captures count as a sample of the endpoint's
 * replies, so the interval does not vanish if all captures are judged.
 */
export function weigh(strata: readonly JudgedStratum[]): SampledShare | null {
  const known = strata.filter(({ judged }) => judged > 0);
  const all = sum(known.map(({ captures, judged }) => Math.max(captures, judged)));
  const shares = known.map(({ captures, judged, passed }) => ({
    weight: Math.max(captures, judged) / all,
    share: passed / judged,
    // Adds one capture on each side, so that a few unanimous verdicts have a spread.
    spread: ((passed + 1) * (judged - passed + 1)) / ((judged + 2) ** 2 * judged),
  }));
  if (shares.length === 0) return null;
  const [only] = known;
  const value = sum(shares.map(({ weight, share }) => weight * share));
  if (known.length === 1 && only !== undefined) return { share: value, of: only.judged };
  const within = sum(shares.map(({ weight, spread }) => weight * weight * spread));
  const between = sum(shares.map(({ weight, share }) => weight * (share - value) ** 2)) / all;
  const n = sum(known.map(({ judged }) => judged));
  const smooth = ((value * n + 1) * (n - value * n + 1)) / (n + 2) ** 2;
  return { share: value, of: Math.min(n, smooth / (within + between)) };
}

/** Returns the share of labels that are hits. */
const cellOf = (labels: readonly LabeledPair[], isHit: (label: LabeledPair) => boolean): SampledShare =>
  weightedShare(labels.map((label) => ({ hit: isHit(label), weight: label.weight })));

/** With fewer labels, no share is reported. */
export const MIN_LABELS = 10;

function labelCells(labels: readonly LabeledPair[]): LabelCells {
  const cells = [true, false].map((verdict) =>
    cellOf(
      labels.filter(({ passed }) => passed === verdict),
      ({ label }) => label,
    ),
  );
  const [passed, failed] = cells as [SampledShare, SampledShare];
  // Rounding would take a class of 10 for a smaller one.
  const labelled = (figure: (share: number) => number): number =>
    Number(sum(cells.map(({ share, of }) => (of > 0 ? figure(share) * of : 0))).toFixed(9));
  const rarer = Math.min(
    labelled((share) => share),
    labelled((share) => 1 - share),
  );
  return { passed, failed, labels: labels.length, rarer };
}

/** A judge that is right hardly more often than chance carries no information about the true share. */
const MIN_INFORMED = 0.2;

function judgeErrors(labels: readonly LabeledPair[]): JudgeErrors | undefined {
  const [good, bad] = [labels.filter(({ label }) => label), labels.filter(({ label }) => !label)];
  if (Math.min(good.length, bad.length) < MIN_RARER) return undefined;
  const errors = { tpr: cellOf(good, ({ passed }) => passed), tnr: cellOf(bad, ({ passed }) => !passed) };
  return errors.tpr.share + errors.tnr.share - 1 > MIN_INFORMED ? errors : undefined;
}

/**
 * Returns the share that people would pass.
 *
 * With labels of these captures it is prediction-powered, because that method assumes nothing about the judge and is as
 * narrow as any estimate from the same labels. TPR and TNR from all labels are used only if these labels are too few
 * (10 of the rarer class) and labels of other captures of the same judge suffice.
 *
 * @param labels of these captures
 * @param others labels of other captures, judged by the same judge and scorer
 * @param covered the judged captures that `labels` represent, if not all; the share then covers only these
 * @param failed further captures that are known to fail without a judge: no label corrects them
 * @returns `null` without captures, or if captures could be judged and none was
 */
export function correctedShare(
  strata: readonly JudgedStratum[],
  labels: readonly LabeledPair[],
  others: readonly LabeledPair[] = [],
  covered?: readonly JudgedStratum[],
  failed = 0,
): CorrectedShare | null {
  if (failed === 0) return correctedJudged(strata, labels, others, covered);
  const made = correctedJudged(strata, labels, others, covered);
  if (made === null && strata.some(({ captures }) => captures > 0)) return null;
  if (made === null) return correctedJudged([{ captures: failed, judged: failed, passed: 0 }], []);
  const all = made.covered ?? sum(strata.map(({ captures, judged }) => Math.max(captures, judged)));
  const kept = all / (all + failed);
  const { value, low, high } = made.judge;
  return {
    ...made,
    judge: { value: kept * value, low: kept * low, high: kept * high },
    share: made.share === null ? null : kept * made.share,
    low: kept * made.low,
    high: kept * made.high,
  };
}

function correctedJudged(
  strata: readonly JudgedStratum[],
  labels: readonly LabeledPair[],
  others: readonly LabeledPair[] = [],
  covered?: readonly JudgedStratum[],
): CorrectedShare | null {
  const weighed = weigh(strata);
  if (weighed === null) return null;
  const judge = scoreInterval(weighed.share, weighed.of);
  const known = { n: sum(strata.map(({ judged }) => judged)), labels: labels.length, judge, covered: null };
  const cells = labelCells(labels);
  if (cells.rarer < MIN_RARER && others.length > 0) {
    const errors = judgeErrors([...labels, ...others]);
    if (errors !== undefined) return { ...known, ...shareOf(plugIn(weighed, errors)), method: 'plug-in' };
  }
  if (labels.length === 0) return { ...known, ...shareOf(judge), share: null, method: 'judge only' };
  const coveredShare = covered && weigh(covered);
  if (!coveredShare) return { ...known, ...correctedBy(weighed, cells) };
  const made = correctedBy(coveredShare, cells);
  return { ...known, ...made, covered: made.share === null ? null : sum(covered.map(({ captures }) => captures)) };
}

/** Returns the share, its interval and the method, by labels of the captures themselves. */
export function correctedBy(
  judge: SampledShare,
  cells: LabelCells,
): Pick<CorrectedShare, 'share' | 'low' | 'high' | 'method'> {
  const powered = shareOf(predictionPowered(judge, cells));
  const isSeen = (cell: SampledShare, share: number): boolean => cell.of > 0 || share === 0;
  if (cells.labels < MIN_LABELS || !isSeen(cells.passed, judge.share) || !isSeen(cells.failed, 1 - judge.share)) {
    return { ...powered, share: null, method: 'too few labels' };
  }
  return { ...powered, method: cells.rarer < MIN_RARER ? 'exact' : 'prediction-powered' };
}

const shareOf = ({ value: share, low, high }: Estimate) => ({ share, low, high });

/** One of two samples to be compared. */
export interface JudgedSample {
  strata: readonly JudgedStratum[];
  labels: readonly LabeledPair[];
  others?: readonly LabeledPair[];
  covered?: readonly JudgedStratum[];
  /** Number of captures that are known to fail. */
  failed?: number;
}

/**
 * Each share is a difference, b − a; `share` is `null` if the labels of one sample do not determine its share. `method`
 * is the weaker of both methods. `covered` counts the captures of both.
 */
export type CorrectedDifference = Omit<CorrectedShare, 'n' | 'labels'>;

/**
 * Returns b − a with the 95% interval that combines the intervals of both shares (Newcombe 1998; Zou and Donner 2008).
 * The samples must have no capture in common. If the same TPR and TNR correct both, the interval is wider than
 * necessary.
 *
 * @returns `null` if either sample has no judged captures
 */
export function correctedDifference(a: JudgedSample, b: JudgedSample): CorrectedDifference | null {
  const before = correctedShare(a.strata, a.labels, a.others, a.covered, a.failed);
  const after = correctedShare(b.strata, b.labels, b.others, b.covered, b.failed);
  if (before === null || after === null) return null;
  const judge = difference(before.judge, after.judge);
  const method = METHODS[Math.min(METHODS.indexOf(before.method), METHODS.indexOf(after.method))] ?? 'judge only';
  if (before.share === null || after.share === null) {
    return { judge, share: null, low: judge.low, high: judge.high, method, covered: null };
  }
  const { value, low, high } = difference({ ...before, value: before.share }, { ...after, value: after.share });
  const isPart = before.covered !== null || after.covered !== null;
  const all = (made: CorrectedShare, { strata }: JudgedSample) =>
    made.covered ?? sum(strata.map(({ captures }) => captures));
  return { judge, share: value, low, high, method, covered: isPart ? all(before, a) + all(after, b) : null };
}

function difference(a: Estimate, b: Estimate): Estimate {
  const value = b.value - a.value;
  return {
    value,
    low: value - Math.hypot(b.value - b.low, a.high - a.value),
    high: value + Math.hypot(b.high - b.value, a.value - a.low),
  };
}

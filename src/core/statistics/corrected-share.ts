/** The share of captures that pass, corrected for the judge's errors by people's labels. */
import { sum } from '../values/sum.ts';
import { type JudgeErrors, type LabelCells, MIN_RARER, plugIn, predictionPowered } from './label-correction.ts';
import { type Estimate, type SampledShare, scoreInterval, weightedShare } from './share.ts';

/** One stratum of the sample: captures that could be judged, verdicts, and verdicts that pass. */
export type JudgedStratum = Record<'captures' | 'judged' | 'passed', number>;

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
 * Returns the share over the strata, weighted by their captures (poststratification: Holt and Smith 1979). One capture
 * is added on each side of the whole, divided among the strata by their weights: so unanimous verdicts have a spread,
 * and strata of the same chance together have the interval of their sum. The captures count as a sample of the
 * endpoint's replies, so the interval does not vanish if all captures are judged.
 */
export function weigh(strata: readonly JudgedStratum[]): SampledShare | null {
  const known = strata.filter(({ judged }) => judged > 0);
  const [only, ...others] = known;
  if (only === undefined) return null;
  if (others.length === 0) return { share: only.passed / only.judged, of: only.judged };
  const all = capturesIn(known);
  const shares = known.map(({ captures, judged, passed }) => {
    const weight = Math.max(captures, judged) / all;
    const smooth = (passed + weight) / (judged + 2 * weight);
    // Bessel's correction, without which strata of few verdicts seem too certain.
    const spread = (smooth * (1 - smooth)) / Math.max(1, judged - 1);
    return { weight, share: passed / judged, smooth, spread };
  });
  const smooth = sum(shares.map((one) => one.weight * one.smooth));
  const within = sum(shares.map(({ weight, spread }) => weight * weight * spread));
  const between = sum(shares.map((one) => one.weight * (one.smooth - smooth) ** 2)) / all;
  const n = sum(known.map(({ judged }) => judged));
  const share = sum(shares.map((one) => one.weight * one.share));
  return { share, of: Math.min(n, (smooth * (1 - smooth)) / (within + between)) };
}

const capturesIn = (strata: readonly JudgedStratum[]): number =>
  sum(strata.map(({ captures, judged }) => Math.max(captures, judged)));

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
 * @returns `null` without captures, or if captures could be judged and none was
 */
export function correctedShare(sample: JudgedSample): CorrectedShare | null {
  const found = openShares(sample);
  if (found === null) return null;
  const { made, judge, own } = found;
  const { value, ...ends } = closed(own);
  return { ...made, judge: closed(judge), share: made.share === null ? null : value, ...ends };
}

/** A sample of captures, with verdicts and labels. */
export interface JudgedSample extends Beside {
  strata: readonly JudgedStratum[];
  labels: readonly LabeledPair[];
  /** Labels of other captures, judged by the same judge and scorer. */
  others?: readonly LabeledPair[];
  /** The judged captures that `labels` represent, if not all; the share then covers only these. */
  covered?: readonly JudgedStratum[] | undefined;
}

/**
 * The captures of a sample beside its strata: those that are known to fail without a judge, so that no label corrects them, and those
 * without a verdict that the verdicts do not represent.
 */
type Beside = Partial<Record<'failed' | 'unjudged', number>>;

/** If the verdicts do not represent more than this share of the captures, intervals allow for any verdicts on these. */
const MAX_UNJUDGED = 0.01;

/** Returns the share of all captures that may have any verdict, from the share that the verdicts represent. */
export const openPart = ({ represented = 1 }: Pick<SampledShare, 'represented'>): number =>
  1 - represented > MAX_UNJUDGED ? 1 - represented : 0;

/** A figure of all captures. Its interval is that of `known`, the part of the figure from judged captures, plus 0 to `open`. */
interface Open extends Estimate {
  known: number;
  open: number;
}

function opened({ value, low, high }: Estimate, judged: number, { failed = 0, unjudged = 0 }: Beside): Open {
  const all = judged + failed + unjudged;
  const open = openPart({ represented: 1 - unjudged / all });
  const kept = (judged + unjudged) / all;
  const part = open > 0 ? judged / all : kept;
  return { value: kept * value, known: part * value, low: part * low, high: part * high, open };
}

const closed = ({ value, low, high, open }: Open): Estimate => ({ value, low, high: high + open });

/** Returns the figures of all captures: the judge's, and people's. */
function openShares(sample: JudgedSample): { made: CorrectedShare; judge: Open; own: Open } | null {
  const { strata, failed = 0, unjudged = 0 } = sample;
  const made = correctedJudged(sample);
  if (made === null) {
    if (failed === 0 || capturesIn(strata) + unjudged > 0) return null;
    return openShares({ strata: [{ captures: failed, judged: failed, passed: 0 }], labels: [] });
  }
  const all = capturesIn(strata);
  const { share, low, high } = made;
  const own = { value: share ?? made.judge.value, low, high };
  return {
    made,
    judge: opened(made.judge, all, { failed, unjudged }),
    own: made.covered === null ? opened(own, all, { failed, unjudged }) : opened(own, made.covered, { failed }),
  };
}

function correctedJudged({ strata, labels, others = [], covered }: JudgedSample): CorrectedShare | null {
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
  return { ...known, ...made, covered: made.share === null ? null : Math.round(capturesIn(covered)) };
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
  const [before, after] = [openShares(a), openShares(b)];
  if (before === null || after === null) return null;
  const [first, second] = [before.made, after.made];
  const judge = difference(before.judge, after.judge);
  const method = METHODS[Math.min(METHODS.indexOf(first.method), METHODS.indexOf(second.method))] ?? 'judge only';
  if (first.share === null || second.share === null) {
    return { judge, share: null, low: judge.low, high: judge.high, method, covered: null };
  }
  const { value, low, high } = difference(before.own, after.own);
  const isPart = first.covered !== null || second.covered !== null;
  const all = ({ covered }: CorrectedShare, { strata }: JudgedSample) => covered ?? capturesIn(strata);
  return { judge, share: value, low, high, method, covered: isPart ? all(first, a) + all(second, b) : null };
}

/** Chance errors add up as squares. What captures without a verdict could add is no chance. */
function difference(a: Open, b: Open): Estimate {
  const known = b.known - a.known;
  return {
    value: b.value - a.value,
    low: known - Math.hypot(b.known - b.low, a.high - a.known) - a.open,
    high: known + Math.hypot(b.high - b.known, a.known - a.low) + b.open,
  };
}

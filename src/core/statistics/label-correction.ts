/** Estimates of the share that people would pass, from the judge's verdicts and people's labels, with 95% intervals. */
import { betaQuantile, Z_95 } from './distributions.ts';
import type { Estimate, SampledShare } from './share.ts';

type Moments = [mean: number, variance: number];

/**
 * Cases that are added on each side of a share. Jeffreys’ prior adds 0.5. With 0.6, picked labels cover 92% of the
 * samples in which two wrong passes among them represent many others.
 */
const PRIOR = 0.6;

/**
 * Returns the mean and variance of the possible values of a share, given its sample, under a beta distribution.
 *
 * @param exact selects the distributions whose quantiles are the limits of Clopper and Pearson; −1: the lower limit, 1:
 *   the upper limit
 */
function moments({ share, of }: SampledShare, exact: -1 | 0 | 1 = 0): Moments {
  const hits = of > 0 ? share * of : 0;
  const a = hits + (exact === 0 ? PRIOR : 0.5 + exact / 2);
  const b = of - hits + (exact === 0 ? PRIOR : 0.5 - exact / 2);
  const mean = a / (a + b);
  return [mean, (mean * (1 - mean)) / (a + b + 1)];
}

/** Returns the quantile of the beta distribution with this mean and variance. */
function matchedQuantile(p: number, mean: number, variance: number): number {
  const size = (mean * (1 - mean)) / variance - 1;
  // Two certain ends, or a mean at an end, have no spread.
  return Number.isFinite(size) && size > 0 ? betaQuantile(p, mean * size, (1 - mean) * size) : mean;
}

/** An end of the interval of q·a + (1 − q)·b for independent shares. @param side −1: the lower end, 1: the upper one */
function mixtureEnd(
  judge: SampledShare,
  passed: SampledShare,
  failed: SampledShare,
  side: -1 | 1,
  isExact: boolean,
): number {
  const [q, ofQ] = moments(judge);
  const [a, ofA] = moments(passed, isExact ? side : 0);
  const [b, ofB] = moments(failed, isExact ? side : 0);
  const variance = (q * q + ofQ) * ofA + ((1 - q) ** 2 + ofQ) * ofB + ofQ * (a - b) ** 2;
  return matchedQuantile(side < 0 ? 0.025 : 0.975, q * a + (1 - q) * b, variance);
}

/** People's labels by the judge's verdict: the shares that people pass. */
export interface LabelCells {
  passed: SampledShare;
  failed: SampledShare;
  labels: number;
  /** Number of labels of the rarer class, discounted by their weights. */
  rarer: number;
}

/**
 * Returns the share that people would pass: the share that people pass among captures that the judge passes, plus the
 * share that they pass among captures that the judge fails. For a yes/no verdict, this is prediction-powered inference
 * with its best λ (PPI++: Angelopoulos, Duchi and Zrnic 2023), and the maximum-likelihood estimate of double sampling
 * (Tenenbein 1970).
 *
 * The interval is that of the beta distribution with the mean and variance that follow from the samples of the three
 * shares. With fewer than 10 labels of the rarer class, their limits by Clopper and Pearson are melded instead (Fay,
 * Proschan and Brittain 2015), whose coverage in simulations is never below 95%.
 */
export function predictionPowered(judge: SampledShare, { passed, failed, rarer }: LabelCells): Estimate {
  const isExact = rarer < MIN_RARER;
  const value =
    judge.share * (passed.of > 0 ? passed.share : 0) + (1 - judge.share) * (failed.of > 0 ? failed.share : 0);
  const low = mixtureEnd(judge, passed, failed, -1, isExact);
  const high = mixtureEnd(judge, passed, failed, 1, isExact);
  return { value, low: Math.min(low, value), high: Math.max(high, value) };
}

/** With fewer labels of the rarer class, an interval of the usual width would miss the true share too often. */
export const MIN_RARER = 10;
/** How often the judge passes captures that people pass (TPR), and fails captures that people fail (TNR). */
export type JudgeErrors = Record<'tpr' | 'tnr', SampledShare>;

/**
 * Returns the share that people would pass, from TPR and TNR that were measured elsewhere (Rogan and Gladen 1978), with the
 * interval of Lang and Reiczigel (2014). It holds if the judge is right here as often as it was there.
 */
export function plugIn(judge: SampledShare, { tpr, tnr }: JudgeErrors): Estimate {
  const z2 = Z_95 * Z_95;
  const added = ({ share, of }: SampledShare): number => (share * of + 1) / (of + 2);
  const spread = (cell: SampledShare): number => (added(cell) * (1 - added(cell))) / (cell.of + 2);
  const informed = added(tpr) + added(tnr) - 1;
  const seen = (judge.share * judge.of + z2 / 2) / (judge.of + z2);
  const share = (seen + added(tnr) - 1) / informed;
  const shift = 2 * z2 * (share * spread(tpr) - (1 - share) * spread(tnr));
  const variance = (seen * (1 - seen)) / (judge.of + z2) + (1 - share) ** 2 * spread(tnr) + share ** 2 * spread(tpr);
  const half = (Z_95 * Math.sqrt(variance)) / informed;
  const within = (x: number): number => Math.min(1, Math.max(0, x));
  const value = within((judge.share + tnr.share - 1) / (tpr.share + tnr.share - 1));
  return {
    value,
    low: Math.min(value, within(share + shift - half)),
    high: Math.max(value, within(share + shift + half)),
  };
}

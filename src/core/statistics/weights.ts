/** Shares of everything, estimated from a sample in which cases had different chances to be drawn. */
import { sum } from '../values/sum.ts';

/** A drawn case. Its weight is 1 ÷ the probability with which it was drawn: the number of cases it stands for. */
export interface WeightedCase {
  hit: boolean;
  weight: number;
}

/** A share, and the number of independent cases of equal weight that would tell as much. */
export interface SampledShare {
  share: number;
  of: number;
}

/**
 * Returns the share of hits among all cases that could have been drawn: Hájek's ratio estimator (1971). Its number of cases is
 * that of its linearized variance, but not more than Kish's effective size (1965): few cases that are all alike seem to have no spread.
 *
 * @returns a share of `NaN` without cases
 */
export function weightedShare(cases: readonly WeightedCase[]): SampledShare {
  const [{ weight: first } = { weight: 0 }] = cases;
  const hits = cases.filter(({ hit }) => hit).length;
  if (cases.every(({ weight }) => weight === first)) return { share: hits / cases.length, of: cases.length };
  const total = sum(cases.map(({ weight }) => weight));
  const share = sum(cases.map(({ hit, weight }) => (hit ? weight : 0))) / total;
  const variance = sum(cases.map(({ hit, weight }) => (weight * (Number(hit) - share)) ** 2)) / total ** 2;
  const effective = total ** 2 / sum(cases.map(({ weight }) => weight ** 2));
  return { share, of: variance === 0 ? effective : Math.min(effective, (share * (1 - share)) / variance) };
}

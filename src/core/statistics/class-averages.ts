/** Precision, recall and F1 averaged over classes, with 95% intervals. */
import { sum } from '../values/sum.ts';
import type { Confusion } from './agreement.ts';
import { type Estimate, scoreInterval, wilson } from './share.ts';

export type ClassMeasure = 'precision' | 'recall' | 'f1';
type Average = 'macro' | 'weighted';
export type ClassAverages = Record<Average, Record<ClassMeasure, Estimate>>;

/** What is added to the spread of each class: one whose few cases are all right does not look certain. */
const PSEUDO_CASES = 0.5;

/**
 * Returns F1 with its interval: F1 is 2s ÷ (1 + s), where s is the share of true positives among the cases that have the class as
 * label or verdict; the interval is Wilson's of that share.
 *
 * @returns `null` if no case has the class
 */
export function f1Estimate(both: number, support: number, given: number): Estimate | null {
  const share = wilson(both, support + given - both);
  if (share === null) return null;
  const f1 = (s: number): number => (2 * s) / (1 + s);
  return { value: (2 * both) / (support + given), low: f1(share.low), high: f1(share.high) };
}

/**
 * Averages over the classes: each with the same weight (macro), or with its share of the labels (weighted). A class without
 * verdicts has a precision of 0 here, and one without labels a recall of 0, as in scikit-learn.
 *
 * The variance is that of the delta method for all cells of the table together (Takahashi and others 2022), so it knows that an
 * error of one class is one of another too. The interval is Wilson's at the number of cases of a share with that variance. It
 * assumes independent cases, and that the table has all classes: those that no case has are not in the average.
 *
 * @returns `null` for an empty table
 */
export function classAverages({ counts }: Confusion): ClassAverages | null {
  const n = sum(counts.map(sum));
  if (n === 0) return null;
  const labels = counts.map(sum);
  const given = counts.map((_, column) => sum(counts.map((row) => row[column] ?? 0)));
  const table = { counts, labels, given, n };
  const of = (average: Average): Record<ClassMeasure, Estimate> => ({
    precision: averaged(table, average, 'precision'),
    recall: averaged(table, average, 'recall'),
    f1: averaged(table, average, 'f1'),
  });
  return { macro: of('macro'), weighted: of('weighted') };
}

interface Table {
  counts: readonly (readonly number[])[];
  labels: readonly number[];
  given: readonly number[];
  n: number;
}

function averaged({ counts, labels, given, n }: Table, average: Average, measure: ClassMeasure): Estimate {
  // Each measure is true positives ÷ (a · labels + b · verdicts).
  const [a, b] = measure === 'precision' ? [0, 1] : measure === 'recall' ? [1, 0] : [0.5, 0.5];
  const cases = labels.map((count, k) => a * count + b * (given[k] ?? 0));
  const values = cases.map((count, k) => (count === 0 ? 0 : (counts[k]?.[k] ?? 0) / count));
  const known = labels.map((count, k) => count + (given[k] ?? 0) > 0);
  const classes = known.filter(Boolean).length;
  const weights = labels.map((count, k) => (average === 'weighted' ? count / n : known[k] ? 1 / classes : 0));
  const value = sum(values.map((each, k) => each * (weights[k] ?? 0)));
  const perCase = weights.map((weight, k) => ((cases[k] ?? 0) === 0 ? 0 : weight / (cases[k] as number)));
  // By how much one case more in the cell would change the average.
  const slope = (i: number, j: number): number => {
    const own = i === j ? (perCase[i] ?? 0) : 0;
    const sizes = a * (perCase[i] ?? 0) * (values[i] ?? 0) + b * (perCase[j] ?? 0) * (values[j] ?? 0);
    return own - sizes + (average === 'weighted' ? (values[i] ?? 0) / n : 0);
  };
  let [first, second] = [0, 0];
  for (const [i, row] of counts.entries()) {
    for (const [j, count] of row.entries()) {
      if (count === 0) continue;
      const change = slope(i, j);
      first += count * change;
      second += count * change * change;
    }
  }
  const least = weights.map((weight, k) => weight / Math.max(cases[k] ?? 0, 0.5));
  const variance = second - (first * first) / n + (PSEUDO_CASES / 4) * sum(least.map((each) => each * each));
  const isEdge = value <= 0 || value >= 1;
  const of = isEdge ? 1 / sum(least.map((each, k) => each * (weights[k] ?? 0))) : (value * (1 - value)) / variance;
  return scoreInterval(value, of);
}

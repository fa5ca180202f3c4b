/**
 * Computes the agreement of two raters, and averages over classes, with 95% intervals. `null` means that a figure is
 * not defined.
 */

import { sum } from '../values/sum.ts';
import { Z_95 } from './distributions.ts';
import type { Measured } from './sampled-mean.ts';
import { type Estimate, scoreInterval, wilson } from './share.ts';

/** Rows are people's values and columns the judge's values, in the order of `values`. */
export interface Confusion {
  values: string[];
  counts: number[][];
}

/** @param pairs `weight`: weight of the pair, 1 by default */
export function confusion(
  values: readonly string[],
  pairs: readonly { label: string; verdict: string; weight?: number }[],
): Confusion {
  const index = new Map(values.map((value, position) => [value, position]));
  const counts = values.map(() => values.map(() => 0));
  for (const { label, verdict, weight = 1 } of pairs) {
    const row = counts[index.get(label) ?? -1];
    const column = index.get(verdict) ?? -1;
    if (row?.[column] === undefined)
      throw new Error(`A value is not in the table; got: ${label}, ${verdict}; expected: ${values.join(', ')}`);
    row[column] += weight;
  }
  return { values: [...values], counts };
}

type KappaWeights = 'none' | 'linear' | 'quadratic';

const weightOf = (weights: KappaWeights, row: number, column: number, size: number): number => {
  if (weights === 'none') return row === column ? 1 : 0;
  const distance = Math.abs(row - column) / (size - 1);
  return 1 - (weights === 'linear' ? distance : distance * distance);
};

/** Labels that the interval adds to the table, in equal parts: half a label for each of four cells (Agresti and Coull 1998). */
const ADDED_LABELS = 2;
/** If fewer labels, or verdicts, differ from the most frequent value, the uncertainty of kappa cannot be estimated. */
const FEWEST_RARE = 5;

/**
 * Computes Cohen's kappa: the agreement beyond the chance agreement of the raters' own frequencies, 1 at most. With
 * weights, a difference of one step between ordered values counts less than a difference of two steps. The interval
 * uses the large-sample variance of Fleiss, Cohen and Everitt (1969) for the table with two more labels, so that its
 * width is never 0.
 *
 * @returns kappa with its 95% interval, whose ends are `null` with too few of the rarer kind; `null` instead of all of it if both raters
 *   always gave the same value, because chance agreement is then complete
 */
export function cohensKappa({ counts }: Confusion, weights: KappaWeights = 'none'): Measured | null {
  const found = kappaOf(counts, weights);
  if (found === null) return null;
  const { value, n, rows, columns } = found;
  const rare = n - n * Math.max(...rows, ...columns);
  const added = ADDED_LABELS / counts.length ** 2;
  const wider = kappaOf(
    counts.map((row) => row.map((count) => count + added)),
    weights,
  );
  if (wider === null || rare < FEWEST_RARE - 1e-9) return { value, low: null, high: null };
  const half = Z_95 * Math.sqrt(wider.variance);
  return {
    value,
    low: Math.max(-1, Math.min(value, wider.value - half)),
    high: Math.min(1, Math.max(value, wider.value + half)),
  };
}

function kappaOf(counts: readonly number[][], weights: KappaWeights) {
  const n = sum(counts.map(sum));
  if (n === 0) return null;
  const size = counts.length;
  const p = counts.map((row) => row.map((count) => count / n));
  const rows = p.map(sum);
  const columns = rows.map((_, column) => sum(p.map((row) => row[column] ?? 0)));
  const cells = p.flatMap((row, i) => row.map((share, j) => ({ share, i, j, w: weightOf(weights, i, j, size) })));
  const observed = sum(cells.map(({ share, w }) => share * w));
  const expected = sum(cells.map(({ i, j, w }) => w * (rows[i] ?? 0) * (columns[j] ?? 0)));
  if (1 - expected < 1e-12) return null;
  const kappa = (observed - expected) / (1 - expected);
  const rowWeights = rows.map((_, i) => sum(columns.map((share, j) => share * weightOf(weights, i, j, size))));
  const columnWeights = columns.map((_, j) => sum(rows.map((share, i) => share * weightOf(weights, i, j, size))));
  const spread = sum(
    cells.map(
      ({ share, i, j, w }) => share * (w - ((rowWeights[i] ?? 0) + (columnWeights[j] ?? 0)) * (1 - kappa)) ** 2,
    ),
  );
  const variance = Math.max(0, spread - (kappa - expected * (1 - kappa)) ** 2) / (n * (1 - expected) ** 2);
  return { value: kappa, variance, n, rows, columns };
}

// ------------------------------------------------------------------------------------------- averages over classes
// Precision, recall and F1.

type ClassMeasure = 'precision' | 'recall' | 'f1';
type Average = 'macro' | 'weighted';

/** Cases added to the spread of each class, so that a class with a few correct cases does not look certain. */
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
 * Averages over the classes: each with the same weight (macro), or weighted by its share of the labels (weighted). A
 * class without verdicts has a precision of 0 here, and a class without labels a recall of 0, as in scikit-learn.
 *
 * The variance comes from the delta method for all cells of the table together (Takahashi and others 2022), because an
 * error of one class is also an error of another. The interval is Wilson's, at the number of cases for which a share
 * would have that variance. It assumes independent cases, and that the table has all classes: classes without cases are
 * not in the average.
 *
 * @returns `null` for an empty table
 */
export function classAverages({ counts }: Confusion): Record<Average, Record<ClassMeasure, Estimate>> | null {
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
  // Change of the average if the cell had one more case.
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

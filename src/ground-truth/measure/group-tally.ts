/** Compares the rows of the values of a column: how often the positive class is predicted, and how often it is found. */
import type { LabeledRow } from '../../contract/ground-truth.ts';
import { wilson } from '../../shared/statistics/share.ts';
import { independentDifference } from '../../shared/statistics/share-difference.ts';
import { classOf } from '../label-value.ts';
import type { Predicted } from './class-tally.ts';
import { type Figure, figureOf, type GroupFigures, unknown } from './figures.ts';

/** Values of a column are what requests say. */
const MAX_VALUES = 50;
const OTHER = '(other)';
const NONE = '(none)';

/** Rows, and those whose label is positive; of both, where the positive class was predicted: by its name, and by threshold. */
interface Counts {
  rows: number;
  positives: number;
  selected: [named: number, thresholded: number];
  found: [named: number, thresholded: number];
}

export class GroupTally {
  readonly #positive: string;
  readonly #values = new Map<string, Counts>();

  constructor(positive: string) {
    this.#positive = classOf(positive);
  }

  add(row: LabeledRow, column: number, { named, thresholded }: Predicted): void {
    const own = row.groups?.[column] ?? NONE;
    const value = this.#values.has(own) || this.#values.size < MAX_VALUES ? own : OTHER;
    const counts = this.#values.get(value) ?? { rows: 0, positives: 0, selected: [0, 0], found: [0, 0] };
    this.#values.set(value, counts);
    const isPositive = classOf(row.label) === this.#positive;
    counts.rows += 1;
    if (isPositive) counts.positives += 1;
    for (const [mode, predicted] of ([named, thresholded] as const).entries()) {
      if (predicted !== this.#positive) continue;
      counts.selected[mode as 0 | 1] += 1;
      if (isPositive) counts.found[mode as 0 | 1] += 1;
    }
  }

  /** Returns the figures of each value, the most frequent one first. */
  figures(probabilities: boolean): GroupFigures[] {
    const mode = probabilities ? 1 : 0;
    const sorted = [...this.#values].toSorted(([a, x], [b, y]) => y.rows - x.rows || (a < b ? -1 : 1));
    const reference = sorted[0]?.[1];
    return sorted.map(([value, counts]) => {
      const [selected, found]: Pair[] = [
        [counts.selected[mode], counts.rows],
        [counts.found[mode], counts.positives],
      ];
      const why = `no label is ${this.#positive}`;
      const own = {
        value,
        rows: counts.rows,
        selectionRate: figureOf(wilson(...(selected as Pair)), why),
        truePositiveRate: figureOf(wilson(...(found as Pair)), why),
      };
      if (reference === undefined || counts === reference) return own;
      const difference = {
        selectionRate: differenceOf([reference.selected[mode], reference.rows], selected as Pair, why),
        truePositiveRate: differenceOf([reference.found[mode], reference.positives], found as Pair, why),
      };
      return { ...own, difference };
    });
  }
}

type Pair = [hits: number, of: number];

function differenceOf(reference: Pair, own: Pair, why: string): Figure {
  if (reference[1] === 0 || own[1] === 0) return unknown(why);
  const { estimate, lower, upper } = independentDifference(reference, own);
  return { value: estimate, low: lower(0.025), high: upper(0.025) };
}

/** Compares the rows of the values of a column: how often the positive class is predicted, and how often it is found. */
import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import { wilson } from '../../core/statistics/share.ts';
import { independentDifference } from '../../core/statistics/share-difference.ts';
import { classOf } from '../label-value.ts';
import type { Predicted } from './class-tally.ts';
import { type Figure, figureOf, type GroupFigures, unknown } from './figures.ts';

/** Values of a column are what requests say. */
const MAX_VALUES = 50;
/** Labels whose rows can be told apart. Where more are found, all of them count. */
const MAX_LABELS = 30;
const OTHER = '(other)';
const NONE = '(none)';

/** Rows of a label, and those for which the positive class was predicted: by its name, and by threshold. */
interface Counts {
  rows: number;
  selected: [named: number, thresholded: number];
}

export class GroupTally {
  readonly #positive: string;
  /** By value and label. */
  readonly #values = new Map<string, Map<string, Counts>>();

  constructor(positive: string) {
    this.#positive = classOf(positive);
  }

  add(row: LabeledRow, column: number, { named, thresholded }: Predicted): void {
    const own = row.groups?.[column] ?? NONE;
    const value = this.#values.has(own) || this.#values.size < MAX_VALUES ? own : OTHER;
    const labels = this.#values.get(value) ?? new Map<string, Counts>();
    this.#values.set(value, labels);
    const name = classOf(row.label);
    const label = labels.has(name) || name === this.#positive || labels.size < MAX_LABELS ? name : OTHER;
    const counts = labels.get(label) ?? { rows: 0, selected: [0, 0] };
    labels.set(label, counts);
    counts.rows += 1;
    for (const [mode, predicted] of ([named, thresholded] as const).entries()) {
      if (predicted === this.#positive) counts.selected[mode as 0 | 1] += 1;
    }
  }

  /**
   * Returns the figures of each value, the most frequent one first.
   *
   * @param only the labels of the rows that count, if predictions are probabilities
   */
  figures(only: ReadonlySet<string> | undefined): GroupFigures[] {
    const mode = only === undefined ? 0 : 1;
    const sums = [...this.#values].flatMap(([value, labels]) => {
      const kept = [...labels].filter(([label]) => only?.has(label) ?? true).map(([, counts]) => counts);
      const sumOf = (count: (one: Counts) => number): number => kept.reduce((sum, one) => sum + count(one), 0);
      const selected: Pair = [sumOf((one) => one.selected[mode]), sumOf(({ rows }) => rows)];
      const positives = labels.get(this.#positive);
      const found: Pair = [positives?.selected[mode] ?? 0, positives?.rows ?? 0];
      return selected[1] === 0 ? [] : [{ value, selected, found }];
    });
    sums.sort((a, b) => b.selected[1] - a.selected[1] || (a.value < b.value ? -1 : 1));
    const [reference] = sums;
    const why = `no label is ${this.#positive}`;
    return sums.map(({ value, selected, found }) => {
      const own = {
        value,
        rows: selected[1],
        selectionRate: figureOf(wilson(...selected), why),
        truePositiveRate: figureOf(wilson(...found), why),
      };
      if (reference === undefined || value === reference.value) return own;
      const difference = {
        selectionRate: differenceOf(reference.selected, selected, why),
        truePositiveRate: differenceOf(reference.found, found, why),
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

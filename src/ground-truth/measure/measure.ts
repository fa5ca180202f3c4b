/** Measures labeled predictions: one pass over the rows, and memory that does not grow with them beyond a limit. */

import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { FEWEST_FOR_ERRORS, FEWEST_FOR_SQUARES, NumberErrors } from '../../core/statistics/number-errors.ts';
import { wilson } from '../../core/statistics/share.ts';
import { independentDifference } from '../../core/statistics/share-difference.ts';
import { dayOf } from '../../quality/counts-store.ts';
import { hourOf } from '../../quality/tally.ts';
import { textHashes } from '../index/texts.ts';
import { classOf, numberOf } from '../label-value.ts';
import { ClassTally, type Predicted, predictedClass } from './class-tally.ts';
import {
  type Figure,
  figureOf,
  type GroupFigures,
  type Kind,
  type TruthFigures,
  type TruthGroup,
  unknown,
} from './figures.ts';
import { KindFacts } from './kind.ts';
import { scoreBudget } from './score-store.ts';

// ---------------------------------------------------------------------------------------------- values of a column
// Compares their rows: how often the positive class is predicted, and how often it is found.

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

/** Compares the values of a column: how often the positive class is predicted, and how often it is found. */
class GroupTally {
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

// ---------------------------------------------------------------------------------------------------- all measures

export const TRUTH_PERIODS = ['hour', 'day', 'variant'] as const;
export type TruthBy = (typeof TRUTH_PERIODS)[number];

export interface TruthQuery {
  by?: TruthBy | undefined;
  /** Only rows of this variant. */
  variant?: string | undefined;
  /** Shadow variants: beside the others by variant, and else left out, unless `variant` names one. */
  shadow?: readonly string[];
  /** Only inferences from then on, and before then, epoch milliseconds. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
}

/** Groups beyond this many are one. An endpoint has at most 10 variants, and 400 days are kept. */
const MAX_GROUPS = 10_000;

/**
 * Computes the figures of true answers. Labels for scorers are not in them.
 *
 * @param rows of any order
 */
export async function measureTruth(
  rows: AsyncIterable<LabeledRow>,
  settings: GroundTruthSettings,
  { by, variant, shadow = [], fromMs = -Infinity, toMs = Infinity }: TruthQuery = {},
): Promise<TruthFigures> {
  const isShadow = (name: string): boolean => shadow.includes(name);
  // The rows of shadow variants decide nothing about the others.
  const served = { facts: new KindFacts(), budget: scoreBudget(), rows: 0 };
  const beside = { facts: new KindFacts(), budget: scoreBudget(), rows: 0 };
  const leftOut = new Map<string, number>();
  const tallies = new Map<string, Tally>();
  for await (const row of rows) {
    const ms = row.second * 1000;
    if (row.scorer !== undefined || ms < fromMs || ms >= toMs) continue;
    if (variant !== undefined && row.variant !== variant) continue;
    if (variant === undefined && by !== 'variant' && isShadow(row.variant)) {
      leftOut.set(row.variant, (leftOut.get(row.variant) ?? 0) + 1);
      continue;
    }
    const side = isShadow(row.variant) ? beside : served;
    const own = groupOf(row, by);
    const group = tallies.has(own) || tallies.size < MAX_GROUPS ? own : '(other)';
    const tally = tallies.get(group) ?? new Tally(settings, side.budget);
    tallies.set(group, tally);
    side.rows += 1;
    side.facts.add(row);
    tally.add(row);
  }
  const { kind, why, probabilities } = (served.rows > 0 ? served : beside).facts.decide(settings);
  const threshold = probabilities ? { threshold: settings.threshold } : {};
  const mark = (group: string) => (by === 'variant' && isShadow(group) ? { shadow: true } : {});
  const groups = [...tallies]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([group, tally]): TruthGroup => ({ group, ...mark(group), ...tally.figures(kind, probabilities, settings) }));
  return { kind, why, ...threshold, groups, leftOut: Object.fromEntries(leftOut) };
}

function groupOf({ second, variant }: LabeledRow, by: TruthBy | undefined): string {
  if (by === undefined || by === 'variant') return by === undefined ? 'all' : variant;
  const hour = hourOf(second * 1000);
  return by === 'hour' ? hour : dayOf(hour);
}

/** The sums of one group, for each kind that the rows may turn out to be. */
class Tally {
  readonly #classes: ClassTally;
  readonly #columns: GroupTally[];
  readonly #numbers = new NumberErrors();
  readonly #texts = { rows: 0, exact: 0, normalized: 0 };
  readonly #settings: GroundTruthSettings;
  #rows = 0;
  #labelsNoNumbers = 0;

  constructor(settings: GroundTruthSettings, budget: { left: number }) {
    this.#settings = settings;
    this.#classes = new ClassTally(settings, budget);
    this.#columns = settings.groups.map(() => new GroupTally(settings.positive));
  }

  add(row: LabeledRow): void {
    this.#rows += 1;
    const { value, text } = row.prediction;
    if (text !== undefined || this.#settings.kind === 'texts') this.#addText(row);
    const predicted = predictedClass(row, this.#settings);
    if (predicted !== undefined) {
      this.#classes.add(row, predicted);
      for (const [column, tally] of this.#columns.entries()) tally.add(row, column, predicted);
    }
    const [label, number] = [numberOf(row.label), value === undefined ? null : numberOf(value)];
    if (label === null) this.#labelsNoNumbers += 1;
    else if (number !== null) this.#numbers.add(label, number);
  }

  #addText({ label, prediction: { text, value } }: LabeledRow): void {
    const reply = text ?? (value === undefined ? undefined : textHashes(String(value)));
    if (reply === undefined) return;
    const [exact, normalized] = textHashes(String(label));
    this.#texts.rows += 1;
    if (reply[0] === exact) this.#texts.exact += 1;
    if (reply[1] === normalized) this.#texts.normalized += 1;
  }

  figures(
    kind: Kind,
    probabilities: ReadonlySet<string> | undefined,
    settings: GroundTruthSettings,
  ): Omit<TruthGroup, 'group'> {
    const rows = this.#rows;
    const counted = (
      compared: number,
      others: Record<string, number>,
    ): Pick<TruthGroup, 'rows' | 'compared' | 'notCompared'> => ({
      rows,
      compared,
      notCompared: Object.fromEntries(Object.entries(others).filter(([, count]) => count > 0)),
    });
    if (kind === 'classes') {
      const columns = settings.groups.map((name, at) => [name, this.#columns[at]?.figures(probabilities) ?? []]);
      const all = this.#classes.rows;
      if (probabilities !== undefined) this.#classes.keep(probabilities);
      const compared = this.#classes.rows;
      const others = { 'the prediction is a text': rows - all, 'the label is none of the two': all - compared };
      return {
        ...counted(compared, others),
        ...this.#classes.figures(probabilities !== undefined),
        ...(columns.length === 0 ? {} : { groups: Object.fromEntries(columns) }),
      };
    }
    if (kind === 'texts') {
      const { rows: of, exact, normalized } = this.#texts;
      const share = (hits: number): Figure => figureOf(wilson(hits, of), 'no row could be compared');
      const measures = { exact: share(exact), normalized: share(normalized) };
      return { ...counted(of, { 'the prediction is no text': rows - of }), measures };
    }
    const { n } = this.#numbers;
    const others = { 'the label is no number': this.#labelsNoNumbers };
    const left = rows - n - this.#labelsNoNumbers;
    return {
      ...counted(n, { ...others, 'the prediction is no number': left }),
      measures: numberFigures(this.#numbers),
    };
  }
}

function numberFigures(errors: NumberErrors): Record<string, Figure> {
  const { n } = errors;
  const of = (found: ReturnType<NumberErrors['mae']>, fewest: number): Figure => {
    const why = n < fewest ? `an interval needs ${fewest} rows` : 'all errors have the same size';
    return n === 0 ? unknown('no row could be compared') : figureOf(found, why);
  };
  const r2 = errors.r2();
  return {
    mae: of(errors.mae(), FEWEST_FOR_ERRORS),
    rmse: of(errors.rmse(), FEWEST_FOR_SQUARES),
    r2: r2 === null ? unknown(n < 2 ? 'R² needs two rows' : 'all labels are equal') : of(r2, FEWEST_FOR_SQUARES),
    bias: of(errors.bias(), FEWEST_FOR_ERRORS),
  };
}

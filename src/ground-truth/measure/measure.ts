/** Measures labeled predictions, in memory that does not grow with them beyond a limit. */

import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { NumberErrors, type NumberFigure } from '../../core/statistics/number-errors.ts';
import { wilson } from '../../core/statistics/share.ts';
import { independentDifference } from '../../core/statistics/share-difference.ts';
import { sum } from '../../core/values/sum.ts';
import { dayOf } from '../../ledger/files.ts';
import { hourOf } from '../../quality/tally.ts';
import { classOf, numberOf } from '../label-value.ts';
import { hashesOf } from '../masked.ts';
import { textHashes } from '../texts.ts';
import { ClassTally, OTHER } from './class-tally.ts';
import { type Figure, figureOf, type GroupFigures, type TruthFigures, type TruthGroup, unknown } from './figures.ts';
import { type FoundKind, KindFacts, type Predicted, predictedClass } from './kind.ts';
import { scoreBudget } from './score-store.ts';

// ---------------------------------------------------------------------------------------------- values of a column
// Compares their rows: how often the positive class is predicted, and how often it is found.

/** Maximum number of values of a column. The values come from requests. */
const MAX_VALUES = 50;
const NONE = '(none)';

/** Compares the values of a column: how often the positive class is predicted, and how often it is found. */
function groupTally(column: number, positive: string) {
  /**
   * For each value: rows for which the positive class was predicted, among all rows, and among rows with the positive
   * class as their label.
   */
  const values = new Map<string, Record<'selected' | 'found', Pair>>();
  return {
    add: (row: LabeledRow, { name }: Predicted): void => {
      const own = row.groups?.[column] ?? NONE;
      const value = values.has(own) || values.size < MAX_VALUES ? own : OTHER;
      const { selected, found } = values.get(value) ?? { selected: [0, 0], found: [0, 0] };
      values.set(value, { selected, found });
      for (const pair of classOf(row.label) === positive ? [selected, found] : [selected]) {
        pair[1] += 1;
        if (name === positive) pair[0] += 1;
      }
    },
    /** Returns the figures of each value, most frequent first. */
    figures: (): GroupFigures[] => {
      const sums = [...values].toSorted(([a, x], [b, y]) => y.selected[1] - x.selected[1] || (a < b ? -1 : 1));
      const why = `no label is ${positive}`;
      return sums.map(([value, { selected, found }], index) => {
        const [selectionRate, truePositiveRate] = [selected, found].map((pair) => figureOf(wilson(...pair), why));
        const own = { value, rows: selected[1], selectionRate, truePositiveRate } as GroupFigures;
        const [, reference] = sums[0] as (typeof sums)[number];
        if (index === 0) return own;
        const difference = {
          selectionRate: differenceOf(reference.selected, selected, why),
          truePositiveRate: differenceOf(reference.found, found, why),
        };
        return { ...own, difference };
      });
    },
  };
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
  /**
   * Shadow variants. They are listed next to other variants if grouped by variant, and otherwise left out, unless
   * `variant` names one.
   */
  shadow?: readonly string[];
  /** Only inferences from `fromMs` on and before `toMs`, epoch milliseconds. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
}

type KindQuery = Pick<TruthQuery, 'shadow' | 'fromMs' | 'toMs'>;
type ReadRows = () => AsyncIterable<LabeledRow>;

/** Yields the rows of a window with true answers. Skips labels for scorers. */
async function* rowsOf(read: ReadRows, { fromMs = -Infinity, toMs = Infinity }: KindQuery) {
  for await (const row of read()) {
    const ms = row.second * 1000;
    if (row.scorer === undefined && ms >= fromMs && ms < toMs) yield row;
  }
}

/**
 * Decides what the model predicts from all rows of a window, of any variant. Rows of shadow variants decide only if
 * there are no others. Figures that are measured together share one decision, so that a figure means the same in each
 * group and window.
 *
 * @returns `undefined` without rows
 */
export async function decideKind(read: ReadRows, settings: GroundTruthSettings, query: KindQuery = {}) {
  const [served, beside] = [new KindFacts(), new KindFacts()];
  for await (const row of rowsOf(read, query)) (query.shadow?.includes(row.variant) ? beside : served).add(row);
  return served.decide(settings) ?? beside.decide(settings);
}

/**
 * Computes the figures of true answers, without labels for scorers.
 *
 * @param read yields the rows, in any order. It is called twice, unless `decided` is given.
 * @param decided result of `decideKind` for all figures that are measured together. Default: decided from these rows
 *
 * @example
 *     const { groups } = await measureTruth(read, settings, { by: 'variant' });
 */
export async function measureTruth(
  read: ReadRows,
  given: GroundTruthSettings,
  query: TruthQuery = {},
  decided?: FoundKind,
): Promise<TruthFigures> {
  const { by, variant, shadow = [] } = query;
  const found = decided ?? (await decideKind(read, given, query)) ?? { kind: 'classes', why: 'there are no labels' };
  // A threshold above 1 is a percentage.
  const settings = { ...given, threshold: given.threshold > 1 ? given.threshold / 100 : given.threshold };
  const isShadow = (name: string): boolean => shadow.includes(name);
  const [budget, besideBudget] = [scoreBudget(), scoreBudget()];
  const leftOut: Record<string, number> = {};
  const tallies = new Map<string, Tally>();
  for await (const row of rowsOf(read, query)) {
    if (variant !== undefined && row.variant !== variant) continue;
    if (variant === undefined && by !== 'variant' && isShadow(row.variant)) {
      leftOut[row.variant] = (leftOut[row.variant] ?? 0) + 1;
      continue;
    }
    const group = groupOf(row, by);
    const tally = tallies.get(group) ?? new Tally(settings, found, isShadow(row.variant) ? besideBudget : budget);
    tallies.set(group, tally);
    tally.add(row);
  }
  const { kind, why, probabilities } = found;
  const threshold = probabilities ? { threshold: settings.threshold } : {};
  const mark = (group: string) => (by === 'variant' && isShadow(group) ? { shadow: true } : {});
  const groups = [...tallies]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([group, tally]): TruthGroup => ({ group, ...mark(group), ...tally.figures() }));
  return { kind, why, ...threshold, groups, leftOut };
}

function groupOf({ second, variant }: LabeledRow, by: TruthBy | undefined): string {
  if (by === undefined || by === 'variant') return by === undefined ? 'all' : variant;
  const hour = hourOf(second * 1000);
  return by === 'hour' ? hour : dayOf(hour);
}

/** The sums of one group. */
class Tally {
  readonly #settings: GroundTruthSettings;
  readonly #found: FoundKind;
  readonly #classes: ClassTally;
  readonly #columns: ReturnType<typeof groupTally>[];
  readonly #numbers = new NumberErrors();
  readonly #texts = { rows: 0, exact: 0, normalized: 0 };
  #rows = 0;
  readonly #notCompared = new Map<string, number>();

  constructor(settings: GroundTruthSettings, found: FoundKind, budget: { left: number }) {
    this.#settings = settings;
    this.#found = found;
    this.#classes = new ClassTally(settings, found.probabilities?.certain, budget);
    this.#columns = settings.groups.map((_, column) => groupTally(column, classOf(settings.positive)));
  }

  add(row: LabeledRow): void {
    this.#rows += 1;
    const { kind } = this.#found;
    const why = kind === 'classes' ? this.#addClass(row) : kind === 'texts' ? this.#addText(row) : this.#addNumber(row);
    if (why !== undefined) this.#notCompared.set(why, (this.#notCompared.get(why) ?? 0) + 1);
  }

  /** @returns why the row cannot be compared, as the next two */
  #addClass(row: LabeledRow): string | undefined {
    const { probabilities } = this.#found;
    const predicted = predictedClass(row, this.#settings, probabilities?.certain);
    if (predicted === undefined) return 'the prediction is a text';
    if (probabilities?.labels.has(classOf(row.label)) === false) return 'the label is none of the two';
    this.#classes.add(row, predicted);
    for (const column of this.#columns) column.add(row, predicted);
    return undefined;
  }

  #addText(row: LabeledRow): string | undefined {
    const { text, value } = row.prediction;
    const isText = text !== undefined || this.#settings.kind === 'texts';
    const reply = text ?? (isText && value !== undefined ? textHashes(String(value)) : undefined);
    if (reply === undefined) return 'the prediction is no text';
    // A short text is kept as a value, and masked as its label is.
    const truth = text === undefined ? textHashes(String(row.label)) : hashesOf(row);
    if (truth === undefined) return 'the key of its pseudonyms is not known';
    const [exact, normalized] = truth;
    this.#texts.rows += 1;
    if (reply[0] === exact) this.#texts.exact += 1;
    if (reply[1] === normalized) this.#texts.normalized += 1;
    return undefined;
  }

  #addNumber({ label, prediction: { value } }: LabeledRow): string | undefined {
    const [truth, number] = [numberOf(label), value === undefined ? null : numberOf(value)];
    if (truth === null) return 'the label is no number';
    if (number === null) return 'the prediction is no number';
    this.#numbers.add(truth, number);
    return undefined;
  }

  figures(): Omit<TruthGroup, 'group'> {
    const notCompared = Object.fromEntries(this.#notCompared);
    const compared = this.#rows - sum(this.#notCompared.values());
    const facts = { rows: this.#rows, compared, notCompared };
    const { kind } = this.#found;
    if (kind === 'numbers') return { ...facts, measures: numberFigures(this.#numbers) };
    if (kind === 'texts') {
      const { rows: of, exact, normalized } = this.#texts;
      const share = (hits: number): Figure => figureOf(wilson(hits, of), 'no row could be compared');
      return { ...facts, measures: { exact: share(exact), normalized: share(normalized) } };
    }
    const columns = this.#settings.groups.map((name, at) => [name, this.#columns[at]?.figures() ?? []]);
    const groups = columns.length === 0 ? {} : { groups: Object.fromEntries(columns) };
    return { ...facts, ...this.#classes.figures(), ...groups };
  }
}

function numberFigures(errors: NumberErrors): Record<string, Figure> {
  const { n } = errors;
  const of = (found: NumberFigure): Figure =>
    n === 0 ? unknown('no row could be compared') : figureOf(found, found.why ?? '');
  const r2 = errors.r2();
  return {
    mae: of(errors.mae()),
    rmse: of(errors.rmse()),
    r2: r2 === null ? unknown(n < 2 ? 'R² needs two rows' : 'all labels are equal') : of(r2),
    bias: of(errors.bias()),
  };
}

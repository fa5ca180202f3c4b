/** Adds up labels and predicted classes, and computes the figures of classification from the sums. */
import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import { type Confusion, classAverages, confusion, f1Estimate } from '../../core/statistics/agreement.ts';
import { rocAuc } from '../../core/statistics/roc-auc.ts';
import { wilson } from '../../core/statistics/share.ts';
import { sum } from '../../core/values/sum.ts';
import { classOf } from '../label-value.ts';
import {
  type CalibrationPoint,
  type Figure,
  type FiguresOfClass,
  figureOf,
  type TruthGroup,
  unknown,
} from './figures.ts';
import type { ClassSettings, Predicted } from './kind.ts';
import { ScoreStore } from './score-store.ts';

/** Maximum number of classes with their own figures. */
const MAX_CLASSES = 1000;
export const OTHER = '(other)';
export class ClassTally {
  readonly #settings: ClassSettings;
  readonly #byThreshold: boolean;
  readonly #scores: ScoreStore;
  /** Classes of labels, and of predictions, by name. Callers of the endpoint may cause predictions of classes that do not exist. */
  readonly #labels = new Map<string, number>();
  readonly #predictions = new Map<string, number>();
  /** Rows by label and prediction. */
  readonly #cells = new Map<number, number>();
  #hits = 0;
  /** Number of scores that were a bare number, which may be a class, and of scores of only the predicted class. */
  readonly #origins = { bare: 0, predicted: 0 };
  #rows = 0;

  /** @param certain as for `predictedClass` */
  constructor(settings: ClassSettings, certain: number | undefined, budget: { left: number }) {
    this.#settings = settings;
    this.#byThreshold = certain !== undefined;
    this.#scores = new ScoreStore(budget);
  }

  add(row: LabeledRow, { name, scores }: Predicted): void {
    const label = classOf(row.label);
    const at = codeOf(this.#labels, label);
    this.#rows += 1;
    // With two classes, every label other than the positive class is the other class.
    const isPositive = label === classOf(this.#settings.positive);
    const predicted = name ?? (isPositive ? not(label) : label);
    const cell = at * CODES + codeOf(this.#predictions, predicted);
    this.#cells.set(cell, (this.#cells.get(cell) ?? 0) + 1);
    if (predicted === label) this.#hits += 1;
    if (scores === undefined) return;
    if (scores.origin !== undefined) this.#origins[scores.origin] += 1;
    this.#scores.add(scores.names, scores.values, at);
  }

  figures(): Pick<TruthGroup, 'measures' | 'classes'> {
    const positive = classOf(this.#settings.positive);
    const table = this.#confusion();
    const accuracy = figureOf(wilson(this.#hits, this.#rows), 'no row could be compared');
    const names = table === null ? [] : table.values;
    const all = (why: string) => Object.fromEntries(MEASURES.map((name) => [name, unknown(why)]));
    if (this.#byThreshold && !this.#labels.has(positive) && this.#labels.size > 1) {
      const why = `predictions are probabilities, and the positive class ${positive} is no label: set "positive" in GROUND_TRUTH`;
      return { measures: all(why) };
    }
    if (this.#rows === 0) return { measures: all('no row could be compared') };
    if (table === null) {
      const measures = { ...all(`there are more than ${MAX_CLASSES} classes`), accuracy };
      return { measures: this.#doubted(measures, false) };
    }
    const isBinary = names.length <= 2 && names.includes(positive);
    const auc = this.#areas(isBinary ? positive : null, names.length);
    const each = names.map((name, k): FiguresOfClass => {
      const predicted = sum(table.counts.map((row) => row[k] ?? 0));
      const [support, both] = [sum(table.counts[k] ?? []), table.counts[k]?.[k] ?? 0];
      return {
        class: name,
        support,
        predicted,
        precision: figureOf(wilson(both, predicted), `no prediction is ${name}`),
        recall: figureOf(wilson(both, support), `no label is ${name}`),
        f1: figureOf(f1Estimate(both, support, predicted), `no row is ${name}`),
        auc: auc.of(name),
      };
    });
    const { macro, weighted } = classAverages(table) as NonNullable<ReturnType<typeof classAverages>>;
    const own = isBinary ? each.find(({ class: name }) => name === positive) : undefined;
    const { precision, recall, f1 } = own ?? macro;
    const cellOf = (i: number, j: number) => ({ label: names[i] as string, predicted: names[j] as string });
    const confusion = table.counts.flatMap((row, i) =>
      row.flatMap((count, j) => (count === 0 ? [] : [{ ...cellOf(i, j), count }])),
    );
    const calibration = isBinary && auc.all.value !== null ? this.#calibration(positive) : [];
    const scored = { rows: this.#scores.added, used: this.#scores.rows, others: this.#scores.others };
    const curve = calibration.length > 0 ? { calibration } : {};
    const classes = { positive: isBinary ? positive : null, each, macro, weighted, confusion, scored, ...curve };
    const measures = { accuracy, precision, recall, f1, auc: auc.all };
    return { measures: this.#doubted(measures, isBinary), classes };
  }

  /**
   * Adds a reason to figures that do not describe the model, so that they decide no objective: the compared values may
   * be the wrong ones.
   */
  #doubted(measures: Record<string, Figure>, isBinary: boolean): Record<string, Figure> {
    const what = isBinary
      ? 'the positive class may be the other one ("positive" in GROUND_TRUTH)'
      : 'scores may be of other classes than their names say ("classes" in GROUND_TRUTH)';
    const reversed = (measures.auc?.high ?? 1) < 0.5 ? `the AUC is clearly below 0.5: ${what}` : undefined;
    const strangers = this.#strangers();
    const doubted = Object.entries(measures).map(([name, figure]) => {
      const why = figure.why ?? strangers ?? (name === 'auc' || this.#byThreshold ? reversed : undefined);
      return [name, why === undefined ? figure : { ...figure, why }];
    });
    return Object.fromEntries(doubted);
  }

  /** Reports how many predictions are of classes that no label has, if they are more than half. */
  #strangers(): string | undefined {
    const [labels, positive] = [[...this.#labels.keys()], classOf(this.#settings.positive)];
    const [only = ''] = labels;
    const others = labels.length === 1 ? [positive, not(positive), OPPOSITE[only]] : [not(positive)];
    const known = new Set([...labels, ...others, ...(this.#settings.classes ?? []).map(classOf)]);
    const predictions = [...this.#predictions.keys()];
    const rows = sum([...this.#cells].map(([cell, n]) => (known.has(predictions[cell % CODES] as string) ? 0 : n)));
    if (rows <= this.#rows / 2) return undefined;
    const mayBePercent = predictions.every((name) => known.has(name) || (Number(name) >= 0 && Number(name) <= 100));
    const hint = mayBePercent ? '; if they are percentages, set "threshold":50 in GROUND_TRUTH' : '';
    return `${rows} of ${this.#rows} predictions are of classes that no label has${hint}`;
  }

  /**
   * Checks whether probabilities are calibrated: how often the positive class occurred, by tenths of its predicted
   * probability.
   */
  #calibration(positive: string): CalibrationPoint[] {
    const { names, rows, values, labels } = this.#scores;
    const [at, code] = [names.indexOf(positive), this.#labels.get(positive)];
    if (at < 0) return [];
    const bins = Array.from({ length: BINS }, () => ({ rows: 0, sum: 0, positives: 0 }));
    for (let row = 0; row < rows; row += 1) {
      const score = values[row * names.length + at] ?? 0;
      const bin = bins[Math.min(BINS - 1, Math.floor(score * BINS))];
      // Scores that are not probabilities cannot be calibrated.
      if (bin === undefined || score > 1) return [];
      bin.rows += 1;
      bin.sum += score;
      if (labels[row] === code) bin.positives += 1;
    }
    const filled = bins.filter((bin) => bin.rows > 0);
    return filled.map(({ rows: of, sum, positives }) => {
      return { rows: of, predicted: sum / of, found: figureOf(wilson(positives, of), '') };
    });
  }

  /** @returns `null` if there are too many classes, or no classes */
  #confusion(): Confusion | null {
    const [labels, predictions] = [[...this.#labels.keys()], [...this.#predictions.keys()]];
    const cells = [...this.#cells].map(([cell, count]) => ({
      label: labels[Math.floor(cell / CODES)] as string,
      predicted: predictions[cell % CODES] as string,
      count,
    }));
    const positive = classOf(this.#settings.positive);
    // Every label other than the positive class is the other class, if there is exactly one.
    const others = labels.filter((name) => name !== positive);
    const rest = others.length === 1 ? (others[0] as string) : (OPPOSITE[positive] ?? not(positive));
    const name = (each: string): string => (each === not(positive) ? rest : each);
    const names = [...new Set(cells.flatMap(({ label, predicted }) => [label, name(predicted)]))];
    if (names.length === 0 || names.length > MAX_CLASSES || names.includes(OTHER)) return null;
    const values = names.toSorted((a, b) => Number(a) - Number(b) || (a < b ? -1 : 1));
    return confusion(
      values,
      cells.map(({ label, predicted, count }) => ({ label, verdict: name(predicted), weight: count })),
    );
  }

  /** The areas under the ROC curve. */
  #areas(positive: string | null, classes: number): { all: Figure; of(name: string): Figure } {
    const { names, rows, added, others, values, labels } = this.#scores;
    const same = (why: string) => ({ all: unknown(why), of: () => unknown(why) });
    if (others > 0)
      return same(`of ${added + others} rows, ${others} have scores of other classes than ${names.join(', ')}`);
    if (rows === 0 || (!this.#byThreshold && this.#origins.bare === added))
      return same('the replies have no probabilities');
    if (names.length === 1 && positive === null) {
      const one = 'the replies have one score, and there are more than two classes';
      return same(this.#origins.predicted > 0 ? 'the replies have the score of the predicted class alone' : one);
    }
    const width = names.length;
    const positions = new Map(names.map((name, at) => [this.#labels.get(name), at]));
    const codes = labels.subarray(0, rows).map((code) => positions.get(code) ?? width);
    const missing = [...this.#labels.keys()].filter((name) => !names.includes(name));
    if (width > 1 && missing.length > 0) return same(`the replies have no score of the class ${missing[0]}`);
    const scores = { values: values.subarray(0, rows * width), width, labels: codes };
    const areas = names.map((name, at) =>
      figureOf(rocAuc(scores, [at]), codes.includes(at) ? `all labels are ${name}` : `no label is ${name}`),
    );
    // With two classes, the areas of both are equal.
    const rest = classes === 2 && positive !== null ? areas[names.indexOf(positive)] : undefined;
    const of = (name: string): Figure =>
      areas[names.indexOf(name)] ?? rest ?? unknown(`the replies have no score of the class ${name}`);
    if (positive !== null) return { all: of(positive), of };
    const empty = names.find((_, at) => !codes.includes(at));
    if (empty !== undefined) return { all: unknown(`no label is ${empty}`), of };
    return { all: figureOf(rocAuc(scores, [...names.keys()]), 'all labels are of one class'), of };
  }
}

/** Names of measures of classes, in the order of output. */
const MEASURES = ['accuracy', 'precision', 'recall', 'f1', 'auc'];
/** Tenths, as in most reliability diagrams. */
const BINS = 10;
/** More than the number of class codes. */
const CODES = 2 * MAX_CLASSES;

const OPPOSITE: Record<string, string | undefined> = { 0: '1', 1: '0' };
const not = (name: string): string => `not ${name}`;

/** Returns the number of a class, by the order in which they came. */
function codeOf(names: Map<string, number>, name: string): number {
  const own = names.has(name) || names.size < MAX_CLASSES ? name : OTHER;
  const code = names.get(own) ?? names.size;
  names.set(own, code);
  return code;
}

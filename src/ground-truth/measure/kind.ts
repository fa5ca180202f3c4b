/**
 * Decides what a model predicts if the settings do not define it: classes, numbers or texts, by the form of labels and
 * predictions. Also decides which class a row predicts.
 */

import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import type { QualityCell } from '../../core/contract/quality.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { countOf } from '../../core/statistics/log-bins.ts';
import { sum } from '../../core/values/sum.ts';
import { classOf, isPercentage, numberOf, predictedNumber, sameLabel } from '../label-value.ts';
import { areProbabilities } from '../predictions/reply-values.ts';
import type { Kind } from './figures.ts';

/** If there are more distinct numbers, they are not classes. */
const MAX_NUMBERED_CLASSES = 20;
/** A few odd labels such as `unknown` or 0.5 do not change the kind of all others. */
const MOST_ODD = 0.05;
/** Numbers up to 10 may be ratings. */
const MAX_RATING = 10;

const SAID = 'GROUND_TRUTH says so';

/**
 * A column of labels or predictions: the number of rows, of rows without a number or a whole number, and of distinct
 * values.
 */
type Column = Record<'rows' | 'notNumbers' | 'notWhole' | 'different', number>;

/** Decides whether a column has numbers or classes, by all of its rows together. */
function kindOfColumn(what: 'labels' | 'predictions', { rows, notNumbers, notWhole, different }: Column) {
  const values = `${different > MAX_NUMBERED_CLASSES ? `more than ${MAX_NUMBERED_CLASSES}` : different} different`;
  const found = (kind: Kind, why: string) => ({ kind, why: `${what} ${why}` });
  if (notNumbers > rows * MOST_ODD) return found('classes', `are words, ${values}`);
  if (notWhole > rows * MOST_ODD) return found('numbers', 'are numbers that are not whole');
  if (different > MAX_NUMBERED_CLASSES) return found('numbers', `are ${values} numbers`);
  return found('classes', `have ${values} values`);
}

/** Decides from all counted predictions of runs whether they are numbers or classes. */
export function kindOfCounts({ numbers, classes = {} }: NonNullable<QualityCell['predictions']>, kind?: Kind) {
  if (kind !== undefined) return { kind, why: SAID };
  const rows = sum(Object.values(classes));
  const notNumbers = rows - countOf(numbers?.bins ?? {});
  const broken = Object.entries(classes).filter(([name]) => !Number.isInteger(predictedNumber(name) ?? 0));
  const notWhole = sum(broken.map(([, count]) => count));
  return kindOfColumn('predictions', { rows, notNumbers, notWhole, different: Object.keys(classes).length });
}

/** Returns the number that a prediction without scores is: a class, a value, a probability or a percentage. */
const bareNumber = ({ prediction: { value, scores } }: LabeledRow): number | undefined =>
  scores === undefined && value !== undefined ? predictedNumber(value) : undefined;

/** The kind of a model's predictions, and the reason. */
export interface FoundKind {
  kind: Kind;
  why: string;
  /**
   * Set if bare numbers are probabilities of the positive class, with the labels of the two classes and the value that
   * means certainty: 1 or 100.
   */
  probabilities?: { labels: ReadonlySet<string>; certain: 1 | 100 } | undefined;
}

/** Adds up the facts that decide the kind. Its size does not depend on the number of rows. */
export class KindFacts {
  readonly #seen = { rows: 0, texts: 0, notNumbers: 0, notWhole: 0 };
  /**
   * Counts of bare predictions: all; written as `87%`; fractions, which are not classes, and those of them from 0 to 1;
   * numbers from 0 to 1, and from 0 to 100; too large for a rating.
   */
  readonly #bare = { all: 0, written: 0, between: 0, unit: 0, maybeUnit: 0, upTo100: 0, large: 0 };
  readonly #labels = new Map<string, number>();
  readonly #numbers = new Set<number>();

  add(row: LabeledRow): void {
    this.#seen.rows += 1;
    const { value, scores, text } = row.prediction;
    if (text !== undefined || (value === undefined && scores === undefined)) this.#seen.texts += 1;
    const number = numberOf(row.label);
    if (number === null) this.#seen.notNumbers += 1;
    else if (!Number.isInteger(number)) this.#seen.notWhole += 1;
    // Numbers that are written in several ways are several classes, but the same number.
    const isId = number === null || Math.abs(number) > Number.MAX_SAFE_INTEGER;
    const label = isId ? classOf(row.label) : String(number);
    if (this.#labels.has(label) || this.#labels.size <= MAX_NUMBERED_CLASSES)
      this.#labels.set(label, (this.#labels.get(label) ?? 0) + 1);
    const bare = bareNumber(row);
    if (bare !== undefined) this.#addBare(bare, isPercentage(value));
  }

  #addBare(bare: number, isWritten: boolean): void {
    this.#bare.all += 1;
    if (isWritten) this.#bare.written += 1;
    if (this.#numbers.size <= MAX_NUMBERED_CLASSES) this.#numbers.add(bare);
    const isUnit = bare >= 0 && bare <= 1;
    if (isUnit) this.#bare.maybeUnit += 1;
    if (bare >= 0 && bare <= 100) this.#bare.upTo100 += 1;
    if (bare > MAX_RATING) this.#bare.large += 1;
    if (Number.isInteger(bare)) return;
    this.#bare.between += 1;
    if (isUnit) this.#bare.unit += 1;
  }

  get #areWords(): boolean {
    return this.#seen.notNumbers > this.#seen.rows / 2;
  }

  /**
   * Returns the labels without a few odd ones. Returns `undefined` if more than two are left. A third whole number
   * counts as a class, however rare.
   */
  #twoLabels(positive: string): ReadonlySet<string> | undefined {
    if (this.#labels.size <= 2) return new Set(this.#labels.keys());
    const usual = [...this.#labels].filter(([name]) => this.#areWords || Number.isInteger(numberOf(name)));
    const two = usual
      .toSorted(([a, x], [b, y]) => Number(b === positive) - Number(a === positive) || y - x)
      .slice(0, 2);
    const rows = sum(two.map(([, count]) => count));
    const isMost = rows >= this.#seen.rows * (1 - MOST_ODD) && (this.#areWords || usual.length <= 2);
    return isMost ? new Set(two.map(([name]) => name)) : undefined;
  }

  /** @returns `undefined` if bare numbers are not probabilities of one of two classes */
  #probabilities({ positive, threshold, classes }: GroundTruthSettings): FoundKind['probabilities'] {
    const labels = this.#twoLabels(classOf(positive));
    // If labels look like `50%`, predictions of the same form are classes.
    if (labels === undefined || this.#bare.all === 0 || [...labels].some(isPercentage)) return undefined;
    if (threshold > 1 || this.#bare.written > this.#bare.all / 2) return { labels, certain: 100 };
    const isAbout = this.#areWords || labels.has(classOf(positive));
    if (isAbout && classes === undefined && this.#lookLikePercentages) return { labels, certain: 100 };
    const isMost = this.#bare.maybeUnit > 0 && this.#bare.maybeUnit >= this.#bare.all / 2;
    return isMost && (this.#bare.unit > 0 || this.#areWords) ? { labels, certain: 1 } : undefined;
  }

  /**
   * Whether numbers look like percentages. Classes and ratings do not have this many values up to 100, and ages and
   * prices do not have labels of two values.
   */
  get #lookLikePercentages(): boolean {
    return (
      this.#numbers.size > MAX_NUMBERED_CLASSES &&
      this.#bare.upTo100 >= this.#bare.all * (1 - MOST_ODD) &&
      this.#bare.large > this.#bare.all * MOST_ODD
    );
  }

  /** @returns `undefined` without rows */
  decide(settings: GroundTruthSettings): FoundKind | undefined {
    if (this.#seen.rows === 0) return undefined;
    const probabilities = this.#probabilities(settings);
    const own = settings.kind;
    const found = own === undefined ? this.#decide(probabilities) : { kind: own, why: SAID };
    if (found.kind !== 'classes' || probabilities === undefined) return found;
    const isSaid = settings.threshold > 1 || this.#bare.written > this.#bare.all / 2;
    const guess = `, and predictions up to 100 are taken for percentages: "kind":"numbers" in GROUND_TRUTH says otherwise`;
    const why = probabilities.certain === 100 && !isSaid ? `${found.why}${guess}` : found.why;
    return { kind: 'classes', why, probabilities };
  }

  #decide(probabilities: FoundKind['probabilities']): { kind: Kind; why: string } {
    if (this.#seen.texts > this.#seen.rows / 2) return { kind: 'texts', why: 'the replies are texts' };
    const { rows, notNumbers } = this.#seen;
    const found = kindOfColumn('labels', { ...this.#seen, different: this.#labels.size });
    const areNumbers = found.kind === 'classes' && notNumbers <= rows * MOST_ODD;
    if (areNumbers && this.#bare.between > this.#bare.all / 2 && probabilities === undefined)
      return { kind: 'numbers', why: 'predictions are numbers that are not whole' };
    return found;
  }
}

// -------------------------------------------------------------------------------------------- the class of a row

/** Predictions that are not classes: numbers between classes, which are probabilities if the labels are classes. */
const NUMBER = '(number)';

/** The predicted class of a row. */
export interface Predicted {
  /** `null`: not the positive class. */
  name: string | null;
  /** Scores of the classes, the positive one alone where the reply has no more. */
  scores?: { names: readonly string[]; values: readonly number[]; origin?: 'bare' | 'predicted' };
}

export type ClassSettings = Pick<GroundTruthSettings, 'kind' | 'classes' | 'positive' | 'threshold'>;

/**
 * @param certain bare numbers are probabilities of the positive class, up to this
 * @returns `undefined` if the reply is a text
 */
export function predictedClass(row: LabeledRow, settings: ClassSettings, certain?: number): Predicted | undefined {
  const { value, scores, classes = settings.classes } = row.prediction;
  const positive = classOf(settings.positive);
  const bare = bareNumber(row);
  if (bare !== undefined) {
    const score = bare / (certain ?? 1);
    const isUnit = score >= 0 && score <= 1;
    const own = value ?? bare;
    const isWritten = typeof own === 'string' || sameLabel(own, row.label);
    const isClass = settings.kind === 'classes' || Number.isInteger(bare) || isWritten;
    const thresholded = score >= settings.threshold ? positive : null;
    const name = certain !== undefined && isUnit ? thresholded : isClass ? classOf(own) : NUMBER;
    return { name, ...(isUnit ? { scores: { names: [positive], values: [score], origin: 'bare' } } : {}) };
  }
  if (scores === undefined) return value === undefined ? undefined : { name: classOf(value) };
  const names = (classes?.length === scores.length ? classes : scores.map((_, index) => String(index))).map(classOf);
  const own = names.indexOf(positive);
  if (scores.length === 1) {
    // A single score next to a label belongs to the label. With two classes, the other class has the rest.
    const [score = 0] = scores;
    const name = value === undefined ? (names[0] as string) : classOf(value);
    if (own === 0) return { name, scores: { names: [positive], values: [score] } };
    return { name, scores: { names: [positive], values: [1 - score], origin: 'predicted' } };
  }
  // With two classes, the probability of one determines the other. Replies may have either, or both.
  const isPair = names.length === 2 && own >= 0 && areProbabilities(scores);
  const list = isPair ? { names: [positive], values: [scores[own] as number] } : { names, values: scores };
  if (value !== undefined) return { name: classOf(value), scores: list };
  const best = scores.reduce((at, score, index) => (score > (scores[at] as number) ? index : at), 0);
  // Scores that are not probabilities, such as margins, have no threshold.
  const isByThreshold = names.length === 2 && own >= 0 && scores.every((score) => score >= 0 && score <= 1);
  const at = isByThreshold ? ((scores[own] as number) >= settings.threshold ? own : 1 - own) : best;
  return { name: names[at] as string, scores: list };
}

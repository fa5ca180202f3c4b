/** What a model predicts, if the settings do not say it: classes, numbers or texts, by what labels and predictions look like. */

import { cellOf } from '../../captures/payload/csv.ts';
import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { classOf, numberOf } from '../label-value.ts';
import type { Kind } from './figures.ts';

/** More different numbers than this are no classes. */
const MAX_NUMBERED_CLASSES = 20;
/** A few labels such as `unknown` or 0.5 do not change what all others are. */
const MOST_ODD = 0.05;

/** Whether a prediction is a number alone: a class, a value or a probability. */
export function bareNumber({ prediction: { value, scores } }: LabeledRow): number | undefined {
  const number = scores === undefined && typeof value === 'string' ? cellOf(value) : value;
  return scores === undefined && typeof number === 'number' ? number : undefined;
}

/** The kind, why it is that, and if bare numbers are probabilities of the positive class, the labels of the two. */
export type FoundKind = ReturnType<KindFacts['decide']>;

/** Adds up what the kind follows from. Its size does not depend on the number of rows. */
export class KindFacts {
  rows = 0;
  #texts = 0;
  #notNumbers = 0;
  #notWhole = 0;
  #bare = 0;
  /** Bare predictions that are no class, and the part of them from 0 to 1. */
  #between = 0;
  #unit = 0;
  /** Bare predictions from 0 to 1. */
  #maybeUnit = 0;
  readonly #labels = new Map<string, number>();

  add(row: LabeledRow): void {
    this.rows += 1;
    const { value, scores, text } = row.prediction;
    if (text !== undefined || (value === undefined && scores === undefined)) this.#texts += 1;
    const number = numberOf(row.label);
    if (number === null) this.#notNumbers += 1;
    else if (!Number.isInteger(number)) this.#notWhole += 1;
    // Numbers that are written in several ways are several classes, but the same number.
    const isId = number === null || Math.abs(number) > Number.MAX_SAFE_INTEGER;
    const label = isId ? classOf(row.label) : String(number);
    if (this.#labels.has(label) || this.#labels.size <= MAX_NUMBERED_CLASSES)
      this.#labels.set(label, (this.#labels.get(label) ?? 0) + 1);
    const bare = bareNumber(row);
    if (bare === undefined) return;
    this.#bare += 1;
    const isUnit = bare >= 0 && bare <= 1;
    if (isUnit) this.#maybeUnit += 1;
    if (Number.isInteger(bare)) return;
    this.#between += 1;
    if (isUnit) this.#unit += 1;
  }

  /** Returns the labels without a few odd ones; `undefined` if more than two are left. A third whole number is a class, however rare. */
  #twoLabels(positive: string): ReadonlySet<string> | undefined {
    if (this.#labels.size <= 2) return new Set(this.#labels.keys());
    const areNames = this.#notNumbers > this.rows / 2;
    const usual = [...this.#labels].filter(([name]) => areNames || Number.isInteger(numberOf(name)));
    const two = usual
      .toSorted(([a, x], [b, y]) => Number(b === positive) - Number(a === positive) || y - x)
      .slice(0, 2);
    const rows = two.reduce((sum, [, count]) => sum + count, 0);
    const isMost = rows >= this.rows * (1 - MOST_ODD) && (areNames || usual.length <= 2);
    return isMost ? new Set(two.map(([name]) => name)) : undefined;
  }

  /** @returns the two classes that bare numbers are probabilities of; `undefined` if they are something else */
  #probabilities(positive: string): ReadonlySet<string> | undefined {
    const areNames = this.#notNumbers > this.rows / 2;
    const isMost = (count: number): boolean => count > 0 && count >= this.#bare / 2;
    return isMost(this.#maybeUnit) && (this.#unit > 0 || areNames) ? this.#twoLabels(positive) : undefined;
  }

  decide({ kind, positive }: GroundTruthSettings) {
    const found = kind === undefined ? this.#decide(classOf(positive)) : { kind, why: 'GROUND_TRUTH says so' };
    return { ...found, probabilities: found.kind === 'classes' ? this.#probabilities(classOf(positive)) : undefined };
  }

  #decide(positive: string): { kind: Kind; why: string } {
    const { size } = this.#labels;
    const different = `${size > MAX_NUMBERED_CLASSES ? `more than ${MAX_NUMBERED_CLASSES}` : size} different`;
    if (this.#texts > this.rows / 2) return { kind: 'texts', why: 'the replies are texts' };
    if (this.#notNumbers > this.rows * MOST_ODD) return { kind: 'classes', why: `labels are words, ${different}` };
    if (this.#notWhole > this.rows * MOST_ODD) return { kind: 'numbers', why: 'labels are numbers that are not whole' };
    if (size > MAX_NUMBERED_CLASSES) return { kind: 'numbers', why: `labels are ${different} numbers` };
    if (this.#between > this.#bare / 2 && this.#probabilities(positive) === undefined)
      return { kind: 'numbers', why: 'predictions are numbers that are not whole' };
    return { kind: 'classes', why: `labels have ${different} values` };
  }
}

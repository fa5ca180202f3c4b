/** Types of the figures of labeled predictions, for the output of commands and for objectives. */

import type { Measured } from '../../core/statistics/sampled-mean.ts';
import { percent, type Shown } from '../../core/text/figure-text.ts';
import { singleLine } from '../../core/text/terminal-text.ts';

/** A figure with its 95% interval. Undefined or unknown values are `null`. */
export interface Figure extends Shown {
  /** Reason why the figure is unknown, or does not describe the model. It then decides no objective. */
  why?: string;
}

export type AverageFigures = Record<'precision' | 'recall' | 'f1', Figure>;

export interface FiguresOfClass extends AverageFigures {
  class: string;
  /** Labels of this class. */
  support: number;
  /** Predictions of this class. */
  predicted: number;
  /** AUC of the class against all others. */
  auc: Figure;
}

/** Rows that were predicted with about the same probability. */
export interface CalibrationPoint {
  rows: number;
  /** Mean of their predicted probabilities. */
  predicted: number;
  /** The share of rows whose label is the positive class. */
  found: Figure;
}

/** Differences between rows with one value of a column and rows with its most frequent value. */
export interface GroupFigures extends GroupRates {
  value: string;
  rows: number;
  /** This value minus the reference; absent for the reference itself. */
  difference?: GroupRates;
}

/**
 * The share of rows for which the positive class was predicted: of all rows, and of rows whose label is the positive
 * class.
 */
type GroupRates = Record<'selectionRate' | 'truePositiveRate', Figure>;

/** The figures of one hour, day or variant, or of all rows. */
export interface TruthGroup {
  group: string;
  /** Set for a shadow variant. */
  shadow?: boolean;
  /** Labeled predictions. */
  rows: number;
  /** Number of rows whose prediction could be compared with the label. */
  compared: number;
  /** The others, by the reason. */
  notCompared: Record<string, number>;
  /**
   * Figures by name. Classes: accuracy, precision, recall, f1, auc; precision, recall and f1 are those of the positive
   * class if there are two classes, else the mean of all classes. Numbers: mae, rmse, r2, bias. Texts: exact,
   * normalized.
   */
  measures: Record<string, Figure>;
  /** Figures of classes only. */
  classes?: {
    /** The class that precision, recall, F1 and AUC are about; `null` if they are means over all. */
    positive: string | null;
    each: FiguresOfClass[];
    /**
     * Averages in which each class has the same weight. Undefined figures of a class count as 0, as in scikit-learn.
     */
    macro: AverageFigures;
    /** Each class has the weight of its labels. */
    weighted: AverageFigures;
    confusion: { label: string; predicted: string; count: number }[];
    /**
     * Calibration by tenths of the probability of the positive class. Absent if replies have no probabilities, or with
     * more than two classes.
     */
    calibration?: CalibrationPoint[];
    /**
     * Number of rows with scores, number of rows behind the AUC (a random sample if there are too many), and number of
     * rows with scores of other classes, which have no AUC.
     */
    scored: { rows: number; used: number; others: number };
  };
  /** Figures by column in the settings. */
  groups?: Record<string, GroupFigures[]>;
}

export type Kind = 'classes' | 'numbers' | 'texts';

export interface TruthFigures {
  kind: Kind;
  /** Reason for choosing this kind. */
  why: string;
  /** Predictions are probabilities of the positive class, and count as it from the threshold on. */
  threshold?: number;
  groups: TruthGroup[];
  /** Labeled predictions of shadow variants, by variant, which are in no group. */
  leftOut: Record<string, number>;
}

export const unknown = (why: string): Figure => ({ value: null, low: null, high: null, why });

const TOO_LARGE = 'the numbers are too large to compute with';

/** Returns the figure of an estimate. `why` is for one that is not there, or has no interval. */
export function figureOf(found: Measured | null, why: string): Figure {
  if (found === null) return unknown(why);
  const { value, low, high } = found;
  if (![low ?? 0, high ?? 0].every(Number.isFinite)) return figureOf({ value, low: null, high: null }, TOO_LARGE);
  if (!Number.isFinite(value)) return unknown(TOO_LARGE);
  return low === null || high === null ? { value, low: null, high: null, why } : { value, low, high };
}

/** Measures in the unit of the label. The others are shares, but for R². */
const NUMBERS: readonly string[] = ['mae', 'rmse', 'bias', 'r2'];
const NAMES: Record<string, string> = { f1: 'F1', auc: 'AUC', mae: 'MAE', rmse: 'RMSE', r2: 'R²' };

export const measureName = (measure: string): string => NAMES[measure] ?? measure;

/** Returns how a measure is written: a share, or a figure in the unit of the label. */
export const textOf = (measure: string): ((value: number) => string) =>
  NUMBERS.includes(measure) ? (value) => value.toPrecision(4) : percent;

/** Explains figures that are unknown, or do not describe the model. @param isKnown only figures with a value */
export function whysOf({ measures }: TruthGroup, isKnown = false): string[] {
  const whys = Object.entries(measures).flatMap(([name, { value, why }]) =>
    why === undefined || (isKnown && value === null) ? [] : [{ name: measureName(name), why }],
  );
  return [...Map.groupBy(whys, ({ why }) => why)].map(
    ([why, of]) => `${of.map(({ name }) => name).join(', ')}: ${singleLine(why)}`,
  );
}

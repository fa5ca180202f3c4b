/** What the figures of labeled predictions look like: in the output of commands, and for objectives. */
import type { Estimate } from '../../core/statistics/share.ts';

/** A figure with its 95% interval. What is not defined, or not known, is `null`, and `why` says why. */
export interface Figure {
  value: number | null;
  low: number | null;
  high: number | null;
  why?: string;
}

export interface FiguresOfClass {
  class: string;
  /** Labels of this class. */
  support: number;
  /** Predictions of this class. */
  predicted: number;
  precision: Figure;
  recall: Figure;
  f1: Figure;
  /** Of the class against all others. */
  auc: Figure;
}

export type AverageFigures = Record<'precision' | 'recall' | 'f1', Figure>;

/** How rows of one value of a column differ from those of its most frequent value. */
export interface GroupFigures {
  value: string;
  rows: number;
  /** The share for which the positive class was predicted. */
  selectionRate: Figure;
  /** The same among those whose label is the positive class. */
  truePositiveRate: Figure;
  /** This value minus the reference; absent for the reference itself. */
  difference?: { selectionRate: Figure; truePositiveRate: Figure };
}

/** The figures of one hour, day or variant, or of all rows. */
export interface TruthGroup {
  group: string;
  /** It is a shadow variant. */
  shadow?: boolean;
  /** Labeled predictions. */
  rows: number;
  /** Those whose prediction could be compared with the label. */
  compared: number;
  /** The others, by the reason. */
  notCompared: Record<string, number>;
  /**
   * By name. Classes: accuracy, precision, recall, f1, auc; the three in between are those of the positive class if there are
   * two, and else the mean of all classes. Numbers: mae, rmse, r2, bias. Texts: exact, normalized.
   */
  measures: Record<string, Figure>;
  /** Of classes only. */
  classes?: {
    /** The class that precision, recall, F1 and AUC are about; `null` if they are means over all. */
    positive: string | null;
    each: FiguresOfClass[];
    /** Each class has the same weight. A figure of a class that is not defined counts as 0 in them, as in scikit-learn. */
    macro: AverageFigures;
    /** Each class has the weight of its labels. */
    weighted: AverageFigures;
    confusion: { label: string; predicted: string; count: number }[];
    /**
     * Rows with scores, how many of them the AUC was computed from (a random sample, if they are too many), and how many more have
     * scores of other classes, so that there is no AUC.
     */
    scored: { rows: number; used: number; others: number };
  };
  /** By column of the settings. */
  groups?: Record<string, GroupFigures[]>;
}

export type Kind = 'classes' | 'numbers' | 'texts';

export interface TruthFigures {
  kind: Kind;
  /** Why this kind was taken. */
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
export function figureOf(
  found: Estimate | { value: number; low: number | null; high: number | null } | null,
  why: string,
): Figure {
  if (found === null) return unknown(why);
  const { value, low, high } = found;
  if (![low ?? 0, high ?? 0].every(Number.isFinite)) return figureOf({ value, low: null, high: null }, TOO_LARGE);
  if (!Number.isFinite(value)) return unknown(TOO_LARGE);
  return low === null || high === null ? { value, low: null, high: null, why } : { value, low, high };
}

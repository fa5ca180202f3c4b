/**
 * What the figures of labeled predictions look like: in the output of commands, for objectives, and as text for
 * terminals of any width.
 */

import type { Measured } from '../../core/statistics/sampled-mean.ts';
import { bracketed, type Shown, whole } from '../../core/text/figure-text.ts';
import { singleLine, type TextOptions, tableText, wrapped } from '../../core/text/terminal-text.ts';

/** A figure with its 95% interval. What is not defined, or not known, is `null`. */
export interface Figure extends Shown {
  /** Why it is not known, or tells nothing of the model. It then decides on no objective. */
  why?: string;
}

type AverageFigures = Record<'precision' | 'recall' | 'f1', Figure>;

export interface FiguresOfClass extends AverageFigures {
  class: string;
  /** Labels of this class. */
  support: number;
  /** Predictions of this class. */
  predicted: number;
  /** Of the class against all others. */
  auc: Figure;
}

/** Rows that were predicted with about the same probability. */
export interface CalibrationPoint {
  rows: number;
  /** The mean of their probabilities. */
  predicted: number;
  /** The share of them whose label is the positive class. */
  found: Figure;
}

/** How rows of one value of a column differ from those of its most frequent value. */
export interface GroupFigures extends GroupRates {
  value: string;
  rows: number;
  /** This value minus the reference; absent for the reference itself. */
  difference?: GroupRates;
}

/** The share for which the positive class was predicted, and the same among those whose label is the positive class. */
type GroupRates = Record<'selectionRate' | 'truePositiveRate', Figure>;

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
    /** By tenths of the probability of the positive class; absent where replies have none, or there are more than two classes. */
    calibration?: CalibrationPoint[];
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
export function figureOf(found: Measured | null, why: string): Figure {
  if (found === null) return unknown(why);
  const { value, low, high } = found;
  if (![low ?? 0, high ?? 0].every(Number.isFinite)) return figureOf({ value, low: null, high: null }, TOO_LARGE);
  if (!Number.isFinite(value)) return unknown(TOO_LARGE);
  return low === null || high === null ? { value, low: null, high: null, why } : { value, low, high };
}

// ------------------------------------------------------------------------------------------------------------ text

/** Variants whose details are shown. */
const MAX_DETAILED = 10;
/** Classes that have figures of their own, or a place in the confusion matrix. */
const MAX_CLASSES = 10;
/** Values of a column. */
const MAX_VALUES = 20;
/** Measures in the unit of the label. The others are shares, but for R². */
export const NUMBERS: readonly string[] = ['mae', 'rmse', 'bias', 'r2'];
const NAMES: Record<string, string> = { f1: 'F1', auc: 'AUC', mae: 'MAE', rmse: 'RMSE', r2: 'R²' };

export const measureName = (measure: string): string => NAMES[measure] ?? measure;
const titleOf = ({ group, shadow }: TruthGroup, by: string | undefined): string =>
  by === undefined ? 'all' : `${singleLine(group)}${shadow ? ' (shadow)' : ''}`;
const percent = (share: number): string => (share * 100).toFixed(1);

/** `78.0% (72.3–82.8)`, or a dash. */
const figureText = (figure: Figure | null, isNumber = false): string =>
  isNumber ? bracketed(figure, (value) => value.toPrecision(4)) : bracketed(figure, percent, '%');

/** @param by what the groups are; `undefined`: there is one, of all rows */
export function truthTable(figures: TruthFigures, by: string | undefined, options: TextOptions): string {
  const { kind, why, threshold, groups, leftOut } = figures;
  const names = [...new Set(groups.flatMap(({ measures }) => Object.keys(measures)))];
  const head = [by ?? '', 'labels', ...names.map(measureName)];
  const rows = groups.map((one) => {
    const cells = names.map((name) => figureText(one.measures[name] ?? null, NUMBERS.includes(name)));
    return [titleOf(one, by), whole(one.rows), ...cells];
  });
  // Of hours and days, what matters is how the figures change.
  const detailed = by === 'hour' || by === 'day' ? [] : groups.slice(0, MAX_DETAILED);
  const positive = groups.find(({ classes }) => classes !== undefined)?.classes?.positive;
  const ofClass =
    positive === null
      ? 'Precision, recall and F1 are means of all classes.'
      : `Precision, recall, F1 and AUC are those of class ${singleLine(positive ?? '')}.`;
  const notes = [
    `The model predicts ${kind}: ${why}.`,
    threshold === undefined ? '' : `A probability of ${threshold} or more counts as ${singleLine(positive ?? '')}.`,
    kind === 'classes' && groups.length > 0 ? ofClass : '',
    'In brackets: 95% intervals.',
    ...Object.entries(leftOut).map(
      ([variant, rows]) => `Left out: ${whole(rows)} labels of the shadow variant ${singleLine(variant)}.`,
    ),
  ];
  return [
    lined([notes.filter(Boolean).join(' ')], options),
    tableText(head, rows, options),
    ...detailed.map((group) => details(group, by, options)).filter(Boolean),
  ].join('\n');
}

const lined = (lines: readonly string[], { width }: TextOptions): string =>
  lines
    .flatMap((line) => wrapped(line, width))
    .map((line) => `${line}\n`)
    .join('');

/** Returns why figures are not known, or tell nothing. @param isKnown only of those with a value */
export function whysOf({ measures }: TruthGroup, isKnown = false): string[] {
  const whys = Object.entries(measures).flatMap(([name, { value, why }]) =>
    why === undefined || (isKnown && value === null) ? [] : [{ name: measureName(name), why }],
  );
  return [...Map.groupBy(whys, ({ why }) => why)].map(
    ([why, of]) => `${of.map(({ name }) => name).join(', ')}: ${singleLine(why)}`,
  );
}

/** Returns what a reader must know of figures beside them. */
function notesOn(figures: TruthGroup): string[] {
  const { compared, notCompared, measures, classes } = figures;
  const whys = whysOf(figures);
  const { each = [], scored: { rows: scored, used } = { rows: 0, used: 0 } } = classes ?? {};
  const hasAuc = typeof measures.auc?.value === 'number';
  if (hasAuc && scored < compared)
    whys.push(`AUC: of the ${whole(scored)} of ${whole(compared)} rows that have scores`);
  if (used < scored) whys.push(`AUC: of a random sample of ${whole(used)} of ${whole(scored)} rows with scores`);
  const list = each.find(({ class: name }) => name.startsWith('['));
  if (list !== undefined) whys.push(`The class ${singleLine(list.class)} may be a part of a list that was not read`);
  const strangers = each.filter(({ support, predicted }) => support === 0 && predicted > 0);
  const named = strangers.map((one) => singleLine(one.class)).slice(0, MAX_CLASSES);
  if (named.length > 0 && each.length > strangers.length + 1)
    whys.push(`Predicted classes that no label has: ${named.join(', ')}`);
  return [...Object.entries(notCompared).map(([why, count]) => `${whole(count)} not compared: ${why}`), ...whys];
}

function details(figures: TruthGroup, by: string | undefined, options: TextOptions): string {
  const { classes, groups = {} } = figures;
  const sections = [
    lined(notesOn(figures), options),
    ...(classes === undefined ? [] : [classesText(classes, options)]),
    ...Object.entries(groups).map(([column, values]) => groupsText(column, values, options)),
  ].filter(Boolean);
  if (sections.length === 0) return '';
  return `${by === undefined ? '' : `${options.style('bold', `${by} ${titleOf(figures, by)}`)}\n`}${sections.join('\n')}`;
}

function classesText(
  { each, macro, weighted, confusion }: NonNullable<TruthGroup['classes']>,
  options: TextOptions,
): string {
  const most = each.toSorted((a, b) => b.support - a.support).slice(0, MAX_CLASSES);
  const shown = each.filter((one) => most.includes(one));
  const names = shown.map((one) => one.class);
  const cell = (label: string, predicted: string): string =>
    whole(confusion.find((one) => one.label === label && one.predicted === predicted)?.count ?? 0);
  const head = ['', ...names.map((name) => `→ ${singleLine(name)}`), 'precision', 'recall', 'F1'];
  const texts = ({ precision, recall, f1 }: AverageFigures): string[] =>
    [precision, recall, f1].map((one) => figureText(one));
  const rows = shown.map((one) => [
    `label ${singleLine(one.class)}`,
    ...names.map((predicted) => cell(one.class, predicted)),
    ...texts(one),
  ]);
  const blank = names.map(() => '');
  const averages = each.length < 2 ? [] : Object.entries({ macro, weighted });
  const means = averages.map(([name, average]) => [name, ...blank, ...texts(average)]);
  const more =
    each.length > names.length ? [`The ${names.length} of ${each.length} classes with the most labels.`] : [];
  return tableText(head, [...rows, ...means], options) + lined(more, options);
}

function groupsText(column: string, values: readonly GroupFigures[], options: TextOptions): string {
  const points = ({ value, low, high }: Figure): string => {
    const text = (share: number): string => `${share > 0 ? '+' : ''}${percent(share)}`;
    return value === null || low === null || high === null ? '–' : `${text(value)} (${text(low)}…${text(high)})`;
  };
  const rows = values
    .slice(0, MAX_VALUES)
    .map(({ value, rows: all, selectionRate, truePositiveRate, difference }) => [
      `${singleLine(column)} = ${singleLine(value)}`,
      whole(all),
      figureText(selectionRate),
      difference === undefined ? '' : points(difference.selectionRate),
      figureText(truePositiveRate),
      difference === undefined ? '' : points(difference.truePositiveRate),
    ]);
  const first = singleLine(values[0]?.value ?? '');
  const head = ['', 'labels', 'selection rate', `against ${first}`, 'true positive rate', `against ${first}`];
  const more = values.length > MAX_VALUES ? [`and ${values.length - MAX_VALUES} more values`] : [];
  return tableText(head, rows, options) + lined(more, options);
}

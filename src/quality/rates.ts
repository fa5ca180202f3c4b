/** Rates from counts: the share that passes, with its interval and its correction by people's labels. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import {
  type CorrectedDifference,
  correctedDifference,
  correctedShare,
  type JudgedSample,
} from '../core/statistics/corrected-share.ts';
import { countOf, type LogBins } from '../core/statistics/log-bins.ts';
import { type Measured, type SampledNumbers, sampledMean } from '../core/statistics/sampled-mean.ts';
import { sum } from '../core/values/sum.ts';
import { goodValue } from '../judge/scorers/values.ts';
import type { Scorer } from '../judge/types.ts';
import { addTree } from './count-tree.ts';
import { type CountedCell, type GroupBy, groupOf, hourMs, sumOfCells, type TimeWindow } from './counts-store.ts';
import { ERROR_REPLIES } from './objectives.ts';
import { outcomesIn, type ScorerOutcomes } from './outcomes.ts';
import { type Quantiles, quantilesOf } from './quantiles.ts';
import { EVERY_CAPTURE } from './sample.ts';
import { ERROR, emptyOf, passing, type Represented, sampleOf, strataOf } from './strata.ts';

/** A figure of a group of captures. */
export interface Rate extends Represented {
  /** A scorer, or `error replies`. */
  scorer: string;
  /** The value that the share counts. Absent for the mean of a numeric scorer. */
  is?: string;
  /** Verdicts. */
  n: number;
  /** Empty replies among the captures; absent instead of 0. */
  empty?: number;
  /** The judge's share or mean; `null` without verdicts. A mean of too few has no interval. */
  judge: Measured | null;
  /** The share that people would pass; `null` if their labels do not determine it. */
  share: number | null;
  low: number | null;
  high: number | null;
  /** `computed`: no judge was asked. */
  method: string;
  labels: number;
  /** Number of captures that the corrected share covers, if labels represent only some of them; else `null`. */
  covered: number | null;
  /** The judge's share in consecutive steps of the window; `null` without verdicts. */
  trend: (number | null)[];
  /**
   * The share of good captures, corrected if the labels allow it. `null` if no value is good or bad, and without
   * verdicts.
   */
  good: (Measured & Pick<Rate, 'trend'>) | null;
  values: Record<string, number>;
  /** Quantiles of numbers from scorers without a judge. */
  quantiles?: Quantiles;
}

export interface GroupRates {
  group: string;
  /** Set if the group contains only shadow variants. */
  shadow?: boolean;
  rates: Rate[];
  /** Outcomes of the captures, by scorer. */
  outcomes: ScorerOutcomes[];
  /** The sums of the group that are no rates. */
  totals: Omit<QualityCell, 'scorers'>;
}

/** Returns people's labels on the captures of these cells, and labels on other captures of the same judge. */
export type LabelsOf = (scorer: string, cells: readonly CountedCell[]) => Omit<JudgedSample, 'strata'>;
const NO_LABELS: LabelsOf = () => ({ labels: [] });

export interface RatesQuery {
  window: TimeWindow;
  by?: GroupBy | undefined;
  /** Absent: all. */
  scorers?: readonly string[] | undefined;
  /** The scorers of the settings, which define the passing values. */
  active: readonly Scorer[];
  /** Shadow variants. Groups that contain only shadow variants are marked. */
  shadow?: readonly string[];
  labelsOf?: LabelsOf;
}

/** Steps of a window in a trend. */
const TREND_STEPS = 24;

/** Returns the names of all scorers of the cells, LLM scorers first, with `error replies` at the end. */
export function scorersIn(cells: readonly CountedCell[]): string[] {
  const found = new Map<string, boolean>();
  for (const { cell } of cells) {
    for (const [name, samples] of Object.entries(cell.scorers ?? {})) {
      found.set(name, (found.get(name) ?? true) && Object.keys(samples).every((sample) => sample === EVERY_CAPTURE));
    }
  }
  const names = [...found.keys()].toSorted();
  const isCode = (name: string): boolean => found.get(name) === true;
  return [...names.filter((name) => !isCode(name)), ...names.filter(isCode), ERROR_REPLIES];
}

/**
 * Computes the rates of each group, sorted by name.
 *
 * @example
 *     const groups = groupRates(cells, { window, active: scorers, by: 'variant' });
 */
export function groupRates(cells: readonly CountedCell[], query: RatesQuery): GroupRates[] {
  const groups = [...Map.groupBy(cells, (cell) => groupOf(cell, query.by))].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const { active, scorers: names = scorersIn(cells) } = query;
  return groups.map(([group, members]) => {
    const stepOf = stepsOf(query, group);
    const cellsBy = Map.groupBy(members, ({ hour }) => stepOf(hour));
    const all = sumOfCells(members);
    const { scorers: _, ...totals } = all;
    const asked = active.filter(({ name }) => names.includes(name));
    const rates = names.map((name) => {
      const counts = countsOf(name, members, query);
      const rowsBy = Map.groupBy(counts.rows, ({ hour }) => stepOf(hour));
      const trend = Array.from({ length: stepOf.count }, (_, step) => {
        // A trend is the judge's own.
        const own = { ...counts, rows: rowsBy.get(step) ?? [], labelsOf: NO_LABELS };
        return rateOf(name, cellsBy.get(step) ?? [], query, own).judge?.value ?? null;
      });
      return withGood({ ...rateOf(name, members, query, counts), trend }, query);
    });
    const isShadow = members.every(({ variant }) => query.shadow?.includes(variant));
    return { group, ...(isShadow ? { shadow: true } : {}), rates, outcomes: outcomesIn(all, asked), totals };
  });
}

/** Returns which step of the trend an hour is in, and how many there are. An hour has no trend, and a day its own. */
function stepsOf({ by, window }: RatesQuery, group: string): ((hour: string) => number) & { count: number } {
  if (by === 'hour') return Object.assign(() => 0, { count: 0 });
  const { fromMs, toMs } =
    by === 'day' ? { fromMs: hourMs(`${group}T00`), toMs: hourMs(`${group}T23`) + HOUR_MS } : window;
  const hours = Math.ceil((toMs - fromMs) / HOUR_MS / TREND_STEPS);
  const count = Math.ceil((toMs - fromMs) / HOUR_MS / hours);
  return Object.assign((hour: string) => Math.floor((hourMs(hour) - fromMs) / HOUR_MS / hours), { count });
}

/** The verdicts of a scorer on some captures. `is`: the value that counts as passed; `isMean`: the verdicts are numbers. */
type ScorerCounts = ReturnType<typeof countsOf>;

/** Verdicts, with sums of values or numbers. */
type Verdicts = Record<'judged' | 'passed' | 'sum' | 'squares', number>;

/** @param value the value that counts as passed. Default: the scorer's own */
function countsOf(scorer: string, cells: readonly CountedCell[], query: RatesQuery, value?: string) {
  const own = cells.map(({ cell }) => ({ cell: { scorers: { [scorer]: cell.scorers?.[scorer] ?? {} } } }));
  const samples = Object.entries(sumOfCells(own).scorers?.[scorer] ?? {});
  const [values, bins]: [Record<string, number>, LogBins] = [{}, {}];
  for (const [, counts] of samples) {
    addTree(values, counts.values ?? {});
    addTree(bins, counts.numbers?.bins ?? {});
  }
  const isMean = samples.some(([, { numbers }]) => numbers !== undefined);
  const isErrors = scorer === ERROR_REPLIES;
  const isComputed = isErrors || (samples.length > 0 && samples.every(([sample]) => sample === EVERY_CAPTURE));
  const is = isErrors ? ERROR : (value ?? passingValue(scorer, query.active, values));
  const verdictsOf = passing((one) => one === is);
  const rows = strataOf(scorer, cells, (counts): Verdicts => {
    if (!isMean) return { ...verdictsOf(counts), sum: 0, squares: 0 };
    const { sum: total = 0, squares = 0 } = counts.numbers ?? {};
    return { judged: countOf(counts.numbers?.bins ?? {}), passed: 0, sum: total, squares };
  });
  const labelsOf = isComputed || isMean ? NO_LABELS : (query.labelsOf ?? NO_LABELS);
  return { is, isComputed, isMean, values, bins, rows, labelsOf };
}

function rateOf(scorer: string, cells: readonly CountedCell[], query: RatesQuery, counts: ScorerCounts): Rate {
  const { is, isComputed, isMean, values, bins, rows, labelsOf } = counts;
  const failed = emptyOf(scorer, cells);
  const { strata, beside, of } = sampleOf(rows, failed);
  const labelled = labelsOf(scorer, cells);
  const made = isMean
    ? meanOf(scorer, strata, beside.unjudged, query)
    : correctedShare({ strata, ...beside, ...labelled });
  const known = { scorer, ...(!isMean && scorer !== ERROR_REPLIES && { is }), ...of };
  const facts = { ...known, ...(failed > 0 && { empty: failed }), trend: [], good: null, values };
  if (made === null) return { ...facts, ...NO_RATE, labels: labelled.labels.length };
  const quantiles = isMean && { quantiles: quantilesOf(bins) };
  return { ...facts, ...made, ...(isComputed && { method: 'computed', ...quantiles }) };
}

const NO_RATE = { n: 0, judge: null, share: null, low: null, high: null, method: 'no verdicts', covered: null };

/** Returns the mean of numbers over the strata, each with the weight of its captures. */
function meanOf(scorer: string, strata: readonly SampledNumbers[], unjudged: number, { active }: RatesQuery) {
  if (strata.length === 0) return null;
  const known = active.find(({ name }) => name === scorer);
  const { min, max } = known?.kind === 'judge' && known.values.kind === 'number' ? known.values : {};
  const scale = min === undefined || max === undefined ? undefined : { min, max };
  const judge = sampledMean(strata, scale, unjudged);
  const n = sum(strata.map(({ judged }) => judged));
  return { ...NO_RATE, n, judge, low: judge.low, high: judge.high, method: 'judge only', labels: 0 };
}

/**
 * Whether the value of a rate is good or bad. Returns `undefined` if it is neither. For a scorer outside the settings,
 * `yes` is good.
 */
function isGood({ scorer, is }: Pick<Rate, 'scorer' | 'is'>, { active }: RatesQuery): boolean | undefined {
  if (scorer === ERROR_REPLIES) return false;
  const known = active.find(({ name }) => name === scorer);
  if (known === undefined) return is === 'yes' ? true : undefined;
  const good = goodValue(known);
  return good === undefined ? undefined : is === String(good);
}

/** Adds the share of good captures. Only rates without a judge count bad values, and these have no correction. */
function withGood(rate: Rate, query: RatesQuery): Rate {
  const { judge, share, low, high, trend } = rate;
  const ofGood = isGood(rate, query);
  if (ofGood === undefined || judge === null) return rate;
  const rest = (value: number | null): number | null => (value === null ? null : 1 - value);
  if (ofGood) return { ...rate, good: { value: share ?? judge.value, low, high, trend } };
  return { ...rate, good: { value: 1 - judge.value, low: rest(high), high: rest(low), trend: trend.map(rest) } };
}

/** Returns the value whose share is shown: the passing value; without one, `true`, or the most frequent value. */
function passingValue(scorer: string, active: readonly Scorer[], values: Record<string, number>): string {
  const known = active.find(({ name }) => name === scorer);
  if (known?.kind === 'judge') return String(goodValue(known) ?? 'yes');
  const names = Object.keys(values);
  if (names.includes('yes') || names.includes('no') || names.length === 0) return 'yes';
  if (names.includes('true') || names.includes('false')) return 'true';
  return names.toSorted((a, b) => (values[b] ?? 0) - (values[a] ?? 0) || (a < b ? -1 : 1))[0] ?? '';
}

export interface RateDifference extends Omit<CorrectedDifference, 'method'> {
  /** `computed`: no judge was asked. */
  method: string;
  scorer: string;
  is: string;
  /** The difference of the shares of good captures; `null` if no value is good or bad. */
  good: { value: number; low: number; high: number } | null;
}

/** Compares two groups of captures: after − before, for each LLM or code scorer that has verdicts in both. */
export function differencesOf(
  before: readonly CountedCell[],
  after: readonly CountedCell[],
  query: RatesQuery,
): RateDifference[] {
  return (query.scorers ?? scorersIn([...before, ...after])).flatMap((scorer) => {
    const both = countsOf(scorer, [...before, ...after], query);
    const { is, isComputed, isMean, labelsOf } = both;
    if (isMean) return [];
    const sideOf = (cells: readonly CountedCell[]): JudgedSample => {
      const { strata, beside } = sampleOf(countsOf(scorer, cells, query, is).rows, emptyOf(scorer, cells));
      return { strata, ...beside, ...labelsOf(scorer, cells) };
    };
    const made = correctedDifference(sideOf(before), sideOf(after));
    if (made === null) return [];
    const ofGood = isGood({ scorer, is }, query);
    const [value, { low, high }] = [made.share ?? made.judge.value, made];
    const good = ofGood ? { value, low, high } : { value: -value, low: -high, high: -low };
    const facts = { scorer, is, good: ofGood === undefined ? null : good };
    return [{ ...facts, ...made, ...(isComputed ? { method: 'computed' } : {}) }];
  });
}

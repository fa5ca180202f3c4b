/** Rates from counts: the share that passes, with its interval and its correction by people's labels. */
import type { QualityCell, SampleCounts } from '../contract/quality.ts';
import { HOUR_MS } from '../formats/files/capture-path.ts';
import type { Scorer } from '../judge/types.ts';
import {
  type CorrectedDifference,
  correctedDifference,
  correctedShare,
  type JudgedSample,
  type JudgedStratum,
} from '../shared/statistics/corrected-share.ts';
import { Z_95 } from '../shared/statistics/distributions.ts';
import type { Estimate } from '../shared/statistics/share.ts';
import { type CountedCell, type GroupBy, groupOf, hourMs, sumOfCells, type TimeWindow } from './fold.ts';
import { ERROR_REPLIES } from './objectives.ts';
import { chanceOf, EVERY_CAPTURE } from './sample.ts';

/** A figure of a group of captures. */
export interface Rate {
  /** A scorer, or `error replies`. */
  scorer: string;
  /** The value whose share it is; absent for the mean of a scorer that answers with numbers. */
  is?: string;
  /** Verdicts. */
  n: number;
  /** Captures that could be judged. */
  captures: number;
  /** The judge's share or mean; `null` without verdicts. */
  judge: Estimate | null;
  /** The share that people would pass; `null` where their labels do not tell it. */
  share: number | null;
  low: number | null;
  high: number | null;
  /** `computed`: no judge was asked. */
  method: string;
  labels: number;
  /** The judge's share in consecutive parts of the window; `null` without verdicts. */
  trend: (number | null)[];
  values: Record<string, number>;
}

export interface GroupRates {
  group: string;
  rates: Rate[];
  /** The sums of the group that are no rates. */
  totals: Omit<QualityCell, 'scorers'>;
}

/** Returns people's labels on the captures of these cells, and those on other captures of the same judge. */
export type LabelsOf = (scorer: string, cells: readonly CountedCell[]) => Pick<JudgedSample, 'labels' | 'others'>;
export const NO_LABELS: LabelsOf = () => ({ labels: [] });

export interface RatesQuery {
  window: TimeWindow;
  by?: GroupBy | undefined;
  /** Absent: all. */
  scorers?: readonly string[] | undefined;
  /** Those of the settings. They tell which value passes. */
  active: readonly Scorer[];
  labelsOf?: LabelsOf;
}

/** Parts of a window in a trend. */
const TREND_PARTS = 24;

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

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

/** Computes the rates of each group, in the order of their names. */
export function groupRates(cells: readonly CountedCell[], query: RatesQuery): GroupRates[] {
  const groups = [...Map.groupBy(cells, (cell) => groupOf(cell, query.by))].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = query.scorers ?? scorersIn(cells);
  // A trend is the judge's own.
  const unlabelled = { ...query, labelsOf: NO_LABELS };
  return groups.map(([group, members]) => {
    const partOf = partsOf(query, group);
    const { scorers: _, ...totals } = sumOfCells(members);
    const rates = names.map((name) => {
      const parts = Map.groupBy(members, ({ hour }) => partOf(hour));
      const trend = Array.from({ length: partOf.count }, (_part, n) => rateOf(name, parts.get(n) ?? [], unlabelled).judge);
      return { ...rateOf(name, members, query), trend: trend.map((one) => one?.value ?? null) };
    });
    return { group, rates, totals };
  });
}

/** Returns which part of the trend an hour is in, and how many there are. An hour has no trend, and a day its own. */
function partsOf({ by, window }: RatesQuery, group: string): ((hour: string) => number) & { count: number } {
  if (by === 'hour') return Object.assign(() => 0, { count: 0 });
  const { fromMs, toMs } =
    by === 'day' ? { fromMs: hourMs(`${group}T00`), toMs: hourMs(`${group}T23`) + HOUR_MS } : window;
  const hours = Math.ceil((toMs - fromMs) / HOUR_MS / TREND_PARTS);
  const count = Math.ceil((toMs - fromMs) / HOUR_MS / hours);
  return Object.assign((hour: string) => Math.floor((hourMs(hour) - fromMs) / HOUR_MS / hours), { count });
}

function rateOf(scorer: string, members: readonly CountedCell[], { active, labelsOf = NO_LABELS }: RatesQuery): Rate {
  const cell = sumOfCells(members);
  if (scorer === ERROR_REPLIES) {
    const { captures = 0, errorReplies = 0 } = cell;
    return computed(scorer, undefined, [{ captures, judged: captures, passed: errorReplies }], {});
  }
  const samples = Object.entries(cell.scorers?.[scorer] ?? {});
  const values: Record<string, number> = {};
  for (const [, { values: more = {} }] of samples)
    for (const [value, n] of Object.entries(more)) values[value] = (values[value] ?? 0) + n;
  const isCode = samples.length > 0 && samples.every(([sample]) => sample === EVERY_CAPTURE);
  const isNumber = samples.some(([, { numbers }]) => numbers !== undefined);
  if (isNumber) return meanOf(scorer, samples);
  const is = passingValue(scorer, active, values);
  const strata = samples.map(([sample, counts]) => stratumOf(sample, counts, is));
  if (isCode) return computed(scorer, is, strata, values);
  const { labels, others } = labelsOf(scorer, members);
  const made = correctedShare(strata, labels, others);
  const captures = sum(strata.map((stratum) => stratum.captures));
  const none = { n: 0, judge: null, share: null, low: null, high: null, method: 'no verdicts', labels: labels.length };
  return { scorer, is, ...(made ?? none), captures, trend: [], values };
}

/** A run whose counts are gone leaves negative counts where a later one replaced its verdicts. */
const counted = (count = 0): number => Math.max(0, count);

function stratumOf(sample: string, { captures, values = {} }: SampleCounts, is: string): JudgedStratum {
  const judged = sum(Object.values(values).map(counted));
  const known = counted(captures);
  // A scorer that is new counts no captures that were evaluated before; its sample tells how many they are.
  const few = known < judged ? judged / (sample === EVERY_CAPTURE ? 1 : chanceOf(sample) || 1) : known;
  return { captures: Math.round(few), judged, passed: Math.min(judged, counted(values[is])) };
}

function computed(
  scorer: string,
  is: string | undefined,
  strata: JudgedStratum[],
  values: Record<string, number>,
): Rate {
  const made = correctedShare(strata, []);
  const captures = sum(strata.map((stratum) => stratum.captures));
  const { n = 0, judge = null } = made ?? {};
  const ends = { share: null, low: judge?.low ?? null, high: judge?.high ?? null };
  const method = judge === null ? 'no verdicts' : 'computed';
  return {
    scorer,
    ...(is === undefined ? {} : { is }),
    n,
    captures,
    judge,
    ...ends,
    method,
    labels: 0,
    trend: [],
    values,
  };
}

/** Returns the mean of numbers over the parts of the sample, each with the weight of its captures. */
function meanOf(scorer: string, samples: readonly [string, SampleCounts][]): Rate {
  const strata = samples.flatMap(([sample, { captures, numbers: { count = 0, sum: total = 0, squares = 0 } = {} }]) => {
    if (count <= 0) return [];
    const mean = total / count;
    const variance = count > 1 ? Math.max(0, (squares - count * mean * mean) / (count - 1)) : 0;
    return [{ weight: Math.max(counted(captures), count), count, mean, variance, isCode: sample === EVERY_CAPTURE }];
  });
  const n = sum(strata.map(({ count }) => count));
  const all = sum(strata.map(({ weight }) => weight));
  const value = sum(strata.map(({ weight, mean }) => (weight / all) * mean));
  const half =
    Z_95 * Math.sqrt(sum(strata.map(({ weight, variance, count }) => ((weight / all) ** 2 * variance) / count)));
  const judge = n === 0 ? null : { value, low: value - half, high: value + half };
  const method = n === 0 ? 'no verdicts' : strata.every(({ isCode }) => isCode) ? 'computed' : 'judge only';
  const ends = { share: null, low: judge?.low ?? null, high: judge?.high ?? null };
  return { scorer, n, captures: all, judge, ...ends, method, labels: 0, trend: [], values: {} };
}

/** Returns the value whose share is shown: the one that passes; of a scorer without one, `true`, or the most frequent. */
function passingValue(scorer: string, active: readonly Scorer[], values: Record<string, number>): string {
  const known = active.find(({ name }) => name === scorer);
  if (known?.kind === 'judge') {
    const { values: kind, passes = 'yes' } = known;
    if (kind.kind === 'categories') return kind.values[0] ?? '';
    return kind.kind === 'boolean' ? 'true' : passes;
  }
  const names = Object.keys(values);
  if (names.includes('yes') || names.includes('no') || names.length === 0) return 'yes';
  if (names.includes('true') || names.includes('false')) return 'true';
  return names.toSorted((a, b) => counted(values[b]) - counted(values[a]) || (a < b ? -1 : 1))[0] ?? '';
}

export interface RateDifference extends Omit<CorrectedDifference, 'method'> {
  /** `computed`: no judge was asked. */
  method: string;
  scorer: string;
  is: string;
}

/** Compares two groups of captures: after − before, for each LLM or code scorer that has verdicts in both. */
export function differencesOf(
  before: readonly CountedCell[],
  after: readonly CountedCell[],
  query: RatesQuery,
): RateDifference[] {
  const { labelsOf = NO_LABELS, active } = query;
  return (query.scorers ?? scorersIn([...before, ...after])).flatMap((scorer) => {
    const [a, b] = [before, after].map((cells) => sumOfCells(cells));
    if (a === undefined || b === undefined) return [];
    const rates = [before, after].map((cells) => rateOf(scorer, cells, query));
    if (rates.some(({ judge, is }) => judge === null || (is === undefined && scorer !== ERROR_REPLIES))) return [];
    const is =
      scorer === ERROR_REPLIES ? 'error' : passingValue(scorer, active, { ...rates[0]?.values, ...rates[1]?.values });
    const sampleOf = (cell: QualityCell, cells: readonly CountedCell[]): JudgedSample => {
      const { captures = 0, errorReplies = 0 } = cell;
      if (scorer === ERROR_REPLIES)
        return { strata: [{ captures, judged: captures, passed: errorReplies }], labels: [] };
      const samples = Object.entries(cell.scorers?.[scorer] ?? {});
      return { strata: samples.map(([sample, counts]) => stratumOf(sample, counts, is)), ...labelsOf(scorer, cells) };
    };
    const made = correctedDifference(sampleOf(a, before), sampleOf(b, after));
    const method = rates[0]?.method === 'computed' ? 'computed' : made?.method;
    return made === null || method === undefined ? [] : [{ scorer, is, ...made, method }];
  });
}

/** Whether counts are negative, because the counts of a run whose verdicts were replaced are gone. */
export const lacksRuns = (cells: readonly CountedCell[]): boolean =>
  Object.values(sumOfCells(cells).scorers ?? {}).some((samples) =>
    Object.values(samples).some(({ values = {} }) => Object.values(values).some((count) => count < 0)),
  );

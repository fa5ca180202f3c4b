/** What is known about the health of an endpoint, and what all rules need of it: sums, rates, and what got worse. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import type { Estimate } from '../core/statistics/share.ts';
import { shellWord } from '../core/text/shell-word.ts';
import { NUMBERS } from '../ground-truth/measure/figures.ts';
import type { Scorer } from '../judge/types.ts';
import { type CountedCell, hourMs, sumOfCells, type TimeWindow } from '../quality/counts-store.ts';
import type { ObjectiveRate } from '../quality/objective-rates.ts';
import { differencesOf, groupRates, type LabelsOf, NO_LABELS, type Rate, type RatesQuery } from '../quality/rates.ts';

/** An answer and when it was true, or why there is none. */
export type Asked<T> = { value: T; asOf: string } | { failed: string; asOf: string };

/** A run that ended without doing all that it was asked to do, and that no later run has made whole. */
export interface FailedRun {
  run: string;
  endedAt: string;
  error: string;
}

export interface RingingAlarm {
  /** Such as `RunFailed`: a section of docs/runbook.md. */
  id: string;
  /** In CloudWatch. */
  name: string;
  what: string;
  since?: string | undefined;
}

/** Calls of the endpoint in a time without captures. */
export interface QuietTime {
  since: string;
  invocations: number;
}

export interface HealthFacts {
  window: TimeWindow;
  /** Of the captures that a run has processed, whose age is no finding; absent: of the window until now. */
  isOfRun?: boolean;
  /** Of runs: their lines, which they may have counted before. */
  lines?: { all: number; quarantined: Readonly<Record<string, number>> };
  cells: readonly CountedCell[];
  /** Those of a window before, which `fell` compares with. */
  before?: readonly CountedCell[];
  /** People's labels, if they were read. */
  labelsOf?: LabelsOf | undefined;
  active: readonly Scorer[];
  shadow: readonly string[];
  objectives: readonly ObjectiveRate[];
  /** Absent: captures have just arrived. */
  quiet?: Asked<QuietTime> | undefined;
  /** Runs that failed, by what they left undone. */
  failedRuns: Asked<readonly FailedRun[]>;
  alarms?: Asked<readonly RingingAlarm[]> | undefined;
  /** Dollars of the judge today (UTC), and the budget; 0: no limit. */
  budget?: Asked<{ usd: number; limit: number }> | undefined;
  nowMs: number;
  /** `--stack` of the command at hand, for the commands to copy. */
  stack?: string | undefined;
}

// ---------------------------------------------------------------------------------------- what all rules need of them

/** How much larger the share that is good has become; negative: smaller. */
export interface GoodDifference extends Estimate {
  scorer: string;
}

export interface Known {
  facts: HealthFacts;
  /** Without shadow variants, whose replies no user sees. */
  totals: QualityCell;
  rates: readonly Rate[];
  /** Differences of what is good to the window before, the largest fall first. */
  fell: readonly GoodDifference[];
  /** Variants, and how what is good differs from the variant with the most captures. */
  apart: readonly { variant: string; reference: string; differences: readonly GoodDifference[] }[];
  /** Of the counts: the end of the newest hour. */
  asOf: string;
  /** The window's start, for commands. */
  from: string;
  /** The command that lists runs. Of a run, it is known which. */
  whichRuns: string | undefined;
  /** Returns a command to copy. */
  command(...words: string[]): string;
}

export const many = (n: number, noun: string, plural = `${noun}s`): string =>
  `${n.toLocaleString('en-US')} ${n === 1 ? noun : plural}`;
export const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
export const time = (iso: string): string => `${iso.slice(0, 16).replace('T', ' ')} UTC`;

/** Returns how a measure is written: a share, or a figure in the unit of the label. */
export const textOf = (measure: string): ((value: number) => string) =>
  NUMBERS.includes(measure) ? (value) => value.toPrecision(4) : percent;

/** The figure of an objective with its interval, and what is wanted. */
export function objectiveText({ measure, value, low, high, n, bound }: ObjectiveRate): string {
  const text = textOf(measure);
  const wanted = 'atLeast' in bound ? `at least ${text(bound.atLeast)}` : `at most ${text(bound.atMost)}`;
  if (value === null) return `nothing measured, wanted ${wanted}`;
  const between = low === null || high === null ? '' : ` (${text(low)} to ${text(high)})`;
  return `${text(value)}${between} of ${n.toLocaleString('en-US')}, wanted ${wanted}`;
}

/** The scorer of a measure, whose name may have a condition. */
export const scorerOf = (measure: string, active: readonly Scorer[]): string | undefined =>
  active.find(({ name }) => measure === name || measure.startsWith(`${name} `))?.name;

/** Returns the end of the newest hour. */
export function endOf(cells: readonly CountedCell[]): number | undefined {
  const last = cells.reduce((newest, { hour }) => (hour > newest ? hour : newest), '');
  return last === '' ? undefined : hourMs(last) + HOUR_MS;
}

/** One cell for each variant and each hour that `startOf` returns. */
export function addedUp(cells: readonly CountedCell[], startOf: (ms: number) => string): CountedCell[] {
  const byHour = Map.groupBy(cells, ({ hour }) => startOf(hourMs(hour)));
  return [...byHour].flatMap(([hour, ofHour]) =>
    [...Map.groupBy(ofHour, ({ variant }) => variant)].map(([variant, own]) => ({
      hour,
      variant,
      cell: sumOfCells(own),
    })),
  );
}

export function knownOf(facts: HealthFacts): Known {
  const { cells, before = [], window, active, shadow, nowMs, stack } = facts;
  const isServed = ({ variant }: CountedCell): boolean => !shadow.includes(variant);
  const served = cells.filter(isServed);
  const query: RatesQuery = { window, active, shadow, labelsOf: facts.labelsOf ?? NO_LABELS };
  const [all] = groupRates(served, query);
  const flags = stack === undefined ? [] : ['--stack', stack];
  const command = (...words: string[]): string => ['inference-monitor', ...words, ...flags].map(shellWord).join(' ');
  return {
    facts,
    totals: sumOfCells(served),
    rates: all?.rates ?? [],
    fell: goodDifferences(before.filter(isServed), served, query),
    apart: variantsApart(cells, query),
    asOf: new Date(Math.min(endOf(cells) ?? nowMs, nowMs)).toISOString(),
    from: `${new Date(window.fromMs).toISOString().slice(0, 16)}Z`,
    whichRuns: facts.isOfRun ? undefined : command('runs'),
    command,
  };
}

/** Returns the differences of what is good, after − before, the largest fall first. */
function goodDifferences(
  before: readonly CountedCell[],
  after: readonly CountedCell[],
  query: RatesQuery,
): GoodDifference[] {
  if (before.length === 0 || after.length === 0) return [];
  const all = differencesOf(before, after, query);
  return all
    .flatMap(({ scorer, good }) => (good === null ? [] : [{ scorer, ...good }]))
    .toSorted((a, b) => a.high - b.high);
}

/** Compares each variant with the served one that has the most captures. */
function variantsApart(cells: readonly CountedCell[], query: RatesQuery): Known['apart'] {
  const groups = [...Map.groupBy(cells, ({ variant }) => variant)].toSorted(
    ([, a], [, b]) => (sumOfCells(b).captures ?? 0) - (sumOfCells(a).captures ?? 0),
  );
  const [reference, own] = groups.find(([variant]) => !query.shadow?.includes(variant)) ?? [];
  if (reference === undefined || own === undefined) return [];
  return groups.flatMap(([variant, others]) =>
    variant === reference ? [] : [{ variant, reference, differences: goodDifferences(own, others, query) }],
  );
}

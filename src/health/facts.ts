/** The facts about the health of an endpoint, and the figures for findings and the page. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import { bracketed, many, whole } from '../core/text/figure-text.ts';
import { namedCounts } from '../core/text/terminal-text.ts';
import { textOf } from '../ground-truth/measure/figures.ts';
import type { Scorer } from '../judge/types.ts';
import { type CountedCell, hourMs, sumOfCells, type TimeWindow } from '../quality/counts-store.ts';
import type { ObjectiveRate } from '../quality/objective-rates.ts';
import { groupRates } from '../quality/rates.ts';
import { representedText } from '../quality/rates-text.ts';
import type { EndpointCalls } from './endpoint-calls.ts';
import type { EndpointLoad } from './endpoint-load.ts';
import type { History } from './history.ts';

/** The facts about a window. */
export interface HealthFacts {
  window: TimeWindow;
  cells: readonly CountedCell[];
  active: readonly Scorer[];
  shadow: readonly string[];
  objectives: readonly ObjectiveRate[];
  /**
   * Set if the facts cover the captures that a run has processed, whose age is then no finding. Absent: they cover the
   * window until now.
   */
  isOfRun?: boolean;
  /** For runs: their lines, including lines that earlier runs may have counted. */
  lines?: { all: number; quarantined: Readonly<Record<string, number>> };
  /** The weeks until now. Absent: only the cells are known. */
  history?: History;
  /** The calls of the window, according to SageMaker and CloudWatch. */
  calls?: EndpointCalls | undefined;
  /** What the endpoint's servers measured, or the reason why that is not known. */
  load?: EndpointLoad | undefined;
  /** The share of all captures that the judge is asked about. */
  sampleRate?: number | undefined;
  /** Since when no captures have come. Absent: they have just come. */
  quiet?: { since: string } | undefined;
  /** Runs that ended without doing all that they were asked to do, and that no later run has made whole. */
  failedRuns?: { runs: readonly { run: string; error: string }[]; hasMore?: boolean } | undefined;
  /** Alarms that are on. The id, such as `RunFailed`, is a section of docs/runbook.md. */
  alarms?: readonly { id: string; what: string; since?: string | undefined }[] | undefined;
  /** Dollars of the judge today (UTC), and the budget; 0: no limit. */
  budget?: { usd: number; limit: number } | undefined;
  /** Describes where captured text is kept, in which form, and for how long. */
  kept?: string;
  /** Reasons why facts could not be read, by the rule that needs them. */
  unasked?: Readonly<Record<string, string>>;
  nowMs: number;
  /** `--stack` of the current command, for commands to copy. */
  stack?: string | undefined;
}

// ------------------------------------------------------------------------------------------------------------ text

/** Whether the whole interval of an objective is within its bound. */
export const isWithin = ({ low, high, bound }: ObjectiveRate): boolean =>
  'atLeast' in bound ? (low ?? -Infinity) >= bound.atLeast : (high ?? Infinity) <= bound.atMost;

/** Returns the figure of an objective with its interval and its bound. */
export function objectiveText({ measure, value, low, high, n, bound, ...rate }: ObjectiveRate): string {
  const text = textOf(measure);
  const wanted = 'atLeast' in bound ? `at least ${text(bound.atLeast)}` : `at most ${text(bound.atMost)}`;
  if (value === null) return `nothing measured, wanted ${wanted}`;
  return `${bracketed({ value, low, high }, text)} of ${whole(n)}${representedText(rate)}, wanted ${wanted}`;
}

/** Returns the number of captures beside others that are no traffic, with a comma before it. */
export const besideText = ({ notTraffic = 0 }: QualityCell): string =>
  notTraffic > 0 ? `, ${many(notTraffic, 'capture is', 'captures are')} no traffic` : '';

/** Counts that are listed. */
const MAX_COUNTS = 5;

/** Returns the most frequent counts in brackets. */
export function listed(counts: Readonly<Record<string, number>> | undefined): string {
  const text = namedCounts(counts, MAX_COUNTS);
  return text && ` (${text})`;
}

// --------------------------------------------------------------------------------------------------------- figures

/** Returns the scorer of a measure, whose name may include a condition; or error replies. */
export const scorerOf = (measure: string, active: readonly Scorer[]): string =>
  active.find(({ name }) => measure === name || measure.startsWith(`${name} `))?.name ?? measure;

/** Returns the end of the newest hour. */
export function endOf(cells: readonly CountedCell[]): number | undefined {
  const last = cells.reduce((newest, { hour }) => (hour > newest ? hour : newest), '');
  return last === '' ? undefined : hourMs(last) + HOUR_MS;
}

/** Adds up cells to one cell for each variant and each hour that `startOf` returns. */
export const addedUp = (cells: readonly CountedCell[], startOf: (hour: string) => string): CountedCell[] =>
  [...Map.groupBy(cells, ({ hour }) => startOf(hour))].flatMap(([hour, ofHour]) =>
    Array.from(byVariant(ofHour), ([variant, own]) => {
      const [first, ...others] = own;
      return { hour, variant, cell: first && others.length === 0 ? first.cell : sumOfCells(own) };
    }),
  );

/** Adds up only what no rate is made of, which has many names: a rate weighs captures by their hour. */
export function addedUpBesideRates(cells: readonly CountedCell[], startOf: (hour: string) => string): CountedCell[] {
  const split = cells.map(({ cell: { captures, errorReplies, replies, notJudged, scorers, ...others }, ...at }) => ({
    rated: { ...at, cell: { captures, errorReplies, replies, notJudged, scorers } },
    beside: { ...at, cell: others },
  }));
  const others = split.map(({ beside }) => beside);
  return [...split.map(({ rated }) => rated), ...addedUp(others, startOf)];
}

const byVariant = (cells: readonly CountedCell[]) => Map.groupBy(cells, ({ variant }) => variant);

export type Figures = ReturnType<typeof figuresOf>;

/** Returns the figures of a window without shadow variants, because users do not see their replies. */
export function figuresOf({ cells, window, active, shadow }: HealthFacts) {
  // Hours with many names are added up once, and not for each figure.
  const all = addedUp(cells, () => cells[0]?.hour ?? '');
  const isServed = ({ variant }: { variant: string }): boolean => !shadow.includes(variant);
  const served = all.filter(isServed);
  const variants = [...byVariant(all)]
    .map(([variant, own]) => ({ variant, totals: sumOfCells(own) }))
    .toSorted((a, b) => (b.totals.captures ?? 0) - (a.totals.captures ?? 0));
  const reference = variants.find(isServed);
  const [group] = groupRates(cells.filter(isServed), { window, active, shadow });
  return {
    totals: sumOfCells(served),
    served: variants.filter(isServed),
    rates: group?.rates ?? [],
    outcomes: group?.outcomes ?? [],
    /** The served variant with the most captures. */
    reference: reference?.variant ?? '',
    /** The variants that are compared with the reference. */
    others: reference === undefined ? [] : variants.flatMap((one) => (one === reference ? [] : [one.variant])),
  };
}

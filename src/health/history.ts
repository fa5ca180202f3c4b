/**
 * Derives facts about each scorer from the counts of some weeks: its verdicts over time, how alike they are, and
 * harmful replies to read.
 */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import { factorOf } from '../core/statistics/changed-share.ts';
import { addCounts } from '../core/values/counts.ts';
import { canFail } from '../judge/scorers/values.ts';
import type { Scorer } from '../judge/types.ts';
import { type CountedCell, hourMs, type TimeWindow } from '../quality/counts-store.ts';
import { goodStrata } from '../quality/strata.ts';
import { BASELINE_MS, SPANS_MS } from './falls.ts';
import { type HourOfVerdicts, type Series, seriesOf } from './series.ts';

/** Time before now whose counts are read: the longest span, and the weeks with which it is compared. */
export const HISTORY_MS = Math.max(...SPANS_MS) + BASELINE_MS;
/** Failing harm verdicts of this time are to be read. */
const TO_READ_MS = 7 * 24 * HOUR_MS;
/** Time from which the likeness of neighbouring hours is estimated, and the minimum number of pairs with failures. */
const [ALIKE_MS, FEWEST_PAIRS] = [BASELINE_MS, 200];
/**
 * Number of verdicts worth one independent verdict if it cannot be estimated: replies in words are often turns of one
 * conversation.
 */
const UNKNOWN_FACTOR = { words: 2, other: 1 };

/** Failing verdicts of a scorer of harm that a person should read. */
export interface ToRead {
  scorer: string;
  count: number;
  /** The first and the last hour, ISO 8601. */
  first: string;
  last: string;
}

export type History = ReturnType<typeof historyOf>;

/** @param cells sorted by time @param others further subjects to compare in addition to the scorers */
export function historyOf(cells: readonly CountedCell[], active: readonly Scorer[], others: readonly string[] = []) {
  const names = [...active.filter(canFail).map(({ name }) => name), ...others];
  const hours = new Map(names.map((name): [string, HourOfVerdicts[]] => [name, []]));
  for (const { hour, variant, cell } of cells) {
    const at = hourMs(hour);
    for (const [scorer, own] of hours) {
      const strata = goodStrata(scorer, cell, active);
      if (Object.keys(strata).length > 0) own.push({ hourMs: at, variant, strata, version: versionOf(scorer, cell) });
    }
  }
  const series = new Map(
    [...hours].filter(([, own]) => own.length > 0).map(([scorer, own]) => [scorer, seriesOf(own)]),
  );
  const hasWords = cells.some(({ cell }) => (cell.replies?.words?.all ?? 0) > 0);
  return {
    /** Start of the first hour with captures, epoch milliseconds; `Infinity` without captures. */
    firstMs: cells.reduce((first, { hour, cell }) => (cell.captures ? Math.min(first, hourMs(hour)) : first), Infinity),
    series,
    /**
     * Returns the harmful replies to read, and for each scorer how many verdicts are worth one independent verdict.
     * @param nowMs the end of the newest span
     */
    until: (nowMs: number) => ({ toRead: toReadIn(cells, active, nowMs), factorOf: factors(series, nowMs, hasWords) }),
  };
}

/** Returns the version of the judge in an hour, or `mixed`. */
function versionOf(scorer: string, { scorers = {} }: QualityCell): string | undefined {
  const versions = Object.values(scorers[scorer] ?? {}).flatMap(({ versions: own = {} }) =>
    Object.keys(own).filter((version) => (own[version] ?? 0) > 0),
  );
  const [first, ...others] = new Set(versions);
  return others.length > 0 ? 'mixed' : first;
}

function factors(series: ReadonlyMap<string, Series>, nowMs: number, hasWords: boolean): (scorer: string) => number {
  const window: TimeWindow = { fromMs: nowMs - ALIKE_MS, toMs: nowMs };
  const found = new Map([...series].map(([scorer, own]) => [scorer, own.neighbours(window)]));
  const all = { pairs: 0, failing: 0, squares: 0 };
  for (const own of found.values()) addCounts(all, own);
  const usual = all.failing >= FEWEST_PAIRS ? factorOf(all) : UNKNOWN_FACTOR[hasWords ? 'words' : 'other'];
  return (scorer) => {
    const own = found.get(scorer);
    return own !== undefined && own.failing >= FEWEST_PAIRS ? factorOf(own) : usual;
  };
}

function toReadIn(cells: readonly CountedCell[], active: readonly Scorer[], nowMs: number): ToRead[] {
  const recent = cells.filter(({ hour }) => hourMs(hour) >= nowMs - TO_READ_MS && hourMs(hour) < nowMs);
  return active.flatMap((scorer): ToRead[] => {
    if (scorer.severity !== 'harm' || !canFail(scorer)) return [];
    const failing = recent.flatMap(({ hour, cell }) => {
      const strata = Object.values(goodStrata(scorer.name, cell, active));
      const count = strata.reduce((total, { judged, passed }) => total + judged - passed, 0);
      return count > 0 ? [{ hour: `${hour}:00Z`, count }] : [];
    });
    const [first, last] = [failing[0], failing.at(-1)];
    if (first === undefined || last === undefined) return [];
    const count = failing.reduce((total, one) => total + one.count, 0);
    return [{ scorer: scorer.name, count, first: first.hour, last: last.hour }];
  });
}

/**
 * The captures that a scorer could judge, with their verdicts, by hour and by the chance to be judged. docs/rates.md, "How a
 * rate is computed", has the rules.
 */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { QualityCell, SampleCounts } from '../core/contract/quality.ts';
import type { JudgedStratum } from '../core/statistics/corrected-share.ts';
import { addCounts } from '../core/values/counts.ts';
import { sum } from '../core/values/sum.ts';
import { goodValue } from '../judge/scorers/values.ts';
import type { Scorer } from '../judge/types.ts';
import { type CountedCell, hourMs } from './counts-store.ts';
import { ERROR_REPLIES } from './objectives.ts';
import { chanceOf, EVERY_CAPTURE, isAlways } from './sample.ts';

/** Returns the verdicts of a stratum, and how many of them pass. */
export const passing =
  (isPassing: (value: string) => boolean) =>
  ({ values = {} }: SampleCounts) => {
    let [judged, passed] = [0, 0];
    for (const [value, count] of Object.entries(values)) {
      judged += count;
      if (isPassing(value)) passed += count;
    }
    return { judged, passed };
  };

/** Strata with fewer verdicts are joined. */
const FEWEST = 5;
/** If so many verdicts are expected, chance leaves none in less than one of 20,000 hours. */
const DUE = 10;
/** The stratum of captures that the verdicts of the other strata do not represent. */
export const UNJUDGED = 'unjudged';

/** The values of the scorer `error replies`, which every capture has. */
export const ERROR = 'error';
const REPLY = 'reply';

/** Sums of a stratum. */
type Sums = Record<'captures' | 'judged', number>;
/** A stratum of the sample in an hour of a variant. */
interface Stratum<S> extends Omit<CountedCell, 'cell'> {
  sample: string;
  counts: S;
}

const isOfRule = ({ sample }: { sample: string }): boolean => isAlways(sample);

/**
 * Returns the strata of a scorer in each cell. `UNJUDGED` takes the share of the drawn captures that was held, or that
 * failed if most of them did; without verdicts, it takes all captures, unless so few verdicts are expected that chance
 * may leave none.
 *
 * @param read returns the verdicts of a stratum
 */
export function strataOf<V extends Pick<Sums, 'judged'>>(
  scorer: string,
  cells: readonly CountedCell[],
  read: (counts: SampleCounts) => V,
): Stratum<V & Sums>[] {
  return cells.flatMap(({ hour, variant, cell }) => {
    const strata = Object.entries(countsOf(scorer, cell)).map(([sample, own]) => {
      const [verdicts, { captures: known = 0 }] = [read(own), own];
      const { judged } = verdicts;
      // The counts of a new scorer lack captures that were evaluated earlier. Its sample shows how many there are.
      const captures = known < judged ? Math.round(judged / (chanceOf(sample) || 1)) : known;
      return { hour, variant, sample, counts: { ...verdicts, captures } };
    });
    const { held = 0, failed = 0 } = cell.notJudged?.[scorer] ?? {};
    const unjudged = leaveOut(strata, held + (failed > judgedIn(strata) ? failed : 0));
    if (unjudged > 0) strata.push({ hour, variant, sample: UNJUDGED, counts: { ...read({}), captures: unjudged } });
    return strata;
  });
}

/** Returns the counts of a scorer by stratum. */
function countsOf(scorer: string, cell: QualityCell): Record<string, SampleCounts> {
  const { captures = 0, errorReplies = 0, scorers } = cell;
  if (scorer !== ERROR_REPLIES) return scorers?.[scorer] ?? {};
  return { [EVERY_CAPTURE]: { values: { [ERROR]: errorReplies, [REPLY]: Math.max(0, captures - errorReplies) } } };
}

/** Takes the captures that the verdicts do not represent out of the strata of a cell. @returns their number */
function leaveOut(strata: readonly Stratum<Sums>[], lost: number): number {
  const asked = strata.filter(({ sample }) => sample !== EVERY_CAPTURE);
  let [left, unjudged] = [lost, 0];
  for (const own of [asked.filter(isOfRule), asked.filter((one) => !isOfRule(one))]) {
    const judged = judgedIn(own);
    const expected = sum(own.map(({ sample, counts }) => chanceOf(sample) * counts.captures));
    // Of the captures that a rule chose, it is known how many have no verdict.
    const gone = own.every(isOfRule) ? Math.min(left, Math.max(0, expected - judged)) : left;
    left -= gone;
    const isByChance = expected > 0 && expected < DUE;
    const kept = judged + gone > 0 ? judged / (judged + gone) : Number(isByChance);
    for (const { counts } of own) {
      const captures = Math.round(kept * counts.captures);
      unjudged += counts.captures - captures;
      counts.captures = captures;
    }
  }
  return unjudged;
}

const judgedIn = (strata: readonly { counts: Pick<Sums, 'judged'> }[]): number =>
  sum(strata.map(({ counts }) => counts.judged));

/**
 * Joins strata with fewer than 5 verdicts to their neighbours: to the next chance of the hour, then to the next hour of
 * the variant; the last ones to those before. Captures that a rule chose are joined among themselves only, and those of
 * code scorers are one stratum.
 */
export function joinedStrata<V extends Sums>(strata: readonly Stratum<V>[]): V[] {
  const isWhole = ({ sample }: Stratum<V>): boolean => sample === EVERY_CAPTURE || sample === UNJUDGED;
  const kinds = Map.groupBy(strata, (one) => (isWhole(one) ? one.sample : `${isOfRule(one)} ${one.variant}`));
  return [...kinds.values()].flatMap((own) => {
    if (own.some(isWhole)) return together(own, Infinity).map(({ counts }) => counts);
    const hours = [...Map.groupBy(own, ({ hour }) => hour)].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const byChance = hours.flatMap(([, some]) =>
      together(some.toSorted((a, b) => chanceOf(a.sample) - chanceOf(b.sample))),
    );
    return together(byChance).map(({ counts }) => counts);
  });
}

/** Joins neighbours until each has enough verdicts. */
function together<V extends Sums>(strata: readonly { counts: V }[], fewest = FEWEST): { counts: V }[] {
  const made: { counts: V }[] = [];
  for (const { counts } of strata) {
    const last = made.at(-1);
    if (last === undefined || last.counts.judged >= fewest) made.push({ counts: { ...counts } });
    else addCounts<keyof Sums>(last.counts, counts);
  }
  const [rest, before] = [made.at(-1), made.at(-2)];
  if (rest === undefined || before === undefined || rest.counts.judged >= fewest) return made;
  addCounts<keyof Sums>(before.counts, rest.counts);
  return made.slice(0, -1);
}

/** What a figure says about the captures that it is of. */
export interface Represented {
  /** Captures that could be judged, and empty replies that fail without. */
  captures: number;
  /** The share of the captures that the verdicts represent; absent instead of 1. */
  represented?: number;
  /** The hours in which nothing was judged though captures could be, ISO 8601; absent without any. */
  gaps?: { from: string; to: string }[];
}

/** Returns strata with verdicts, and the captures beside them. @param rows in time @param failed empty replies */
export function sampleOf<V extends Sums>(rows: readonly Stratum<V>[], failed = 0) {
  const strata = joinedStrata(rows);
  const gaps: { from: string; to: string }[] = [];
  let isOpen = false;
  for (const [hour, own] of Map.groupBy(rows, (row) => row.hour)) {
    const isGap = own.some(({ sample }) => sample === UNJUDGED) && judgedIn(own) === 0;
    if (isGap) {
      const to = new Date(hourMs(hour) + HOUR_MS).toISOString();
      gaps.push({ from: (isOpen ? gaps.pop()?.from : undefined) ?? `${hour}:00:00.000Z`, to });
    }
    isOpen = isGap;
  }
  const captures = failed + sum(strata.map((stratum) => stratum.captures));
  // A variant without any verdict has no neighbours.
  const unjudged = sum(strata.map((stratum) => (stratum.judged > 0 ? 0 : stratum.captures)));
  const represented = unjudged > 0 && { represented: 1 - unjudged / captures };
  const of: Represented = { captures, ...represented, ...(gaps.length > 0 && { gaps }) };
  return { strata: strata.filter(({ judged }) => judged > 0), beside: { failed, unjudged }, of };
}

/**
 * Scorers that an empty reply fails without being asked. Empty replies are a separate stratum that covers every
 * capture.
 */
const FAIL_EMPTY: readonly string[] = ['completeness', 'relevance_to_query'];
/** The stratum of empty replies. */
export const EMPTY = 'empty';

/**
 * Counts the empty replies that fail a scorer without asking it, if it was asked about other replies or if all replies
 * are empty.
 */
export function emptyOf(scorer: string | undefined, cells: readonly Pick<CountedCell, 'cell'>[]): number {
  if (scorer === undefined || !FAIL_EMPTY.includes(scorer)) return 0;
  const words = (of: 'all' | 'empty') => sum(cells.map(({ cell: { replies } }) => replies?.words?.[of] ?? 0));
  const empty = words('empty');
  return empty === words('all') || cells.some(({ cell }) => cell.scorers?.[scorer] !== undefined) ? empty : 0;
}

/**
 * Returns the strata of a subject in a cell, in which `passed` counts the good captures. Returns no strata if no value
 * is good or bad.
 */
export function goodStrata(subject: string, cell: QualityCell, active: readonly Scorer[]) {
  const known = active.find(({ name }) => name === subject);
  const good = subject === ERROR_REPLIES ? REPLY : known && goodValue(known);
  if (good === undefined) return {};
  const isGood = passing((value) => value === String(good));
  const strata = strataOf(subject, [{ hour: '', variant: '', cell }], isGood);
  const asked: Record<string, JudgedStratum> = Object.fromEntries(strata.map((one) => [one.sample, one.counts]));
  const empty = emptyOf(subject, [{ cell }]);
  return empty > 0 ? { ...asked, [EMPTY]: { captures: empty, judged: empty, passed: 0 } } : asked;
}

/** The verdicts of a scorer over time, in the form in which spans of any length are compared: sums by variant and hours of the week. */

import { type HourOfCases, neighbours } from '../core/statistics/changed-share.ts';
import { type JudgedStratum, weigh } from '../core/statistics/corrected-share.ts';
import type { SampledShare } from '../core/statistics/share.ts';
import { addCounts } from '../core/values/counts.ts';
import { firstPassing } from '../core/values/search.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import { EMPTY, UNJUDGED } from '../quality/strata.ts';

/** Hours of the week that are alike: four hours of the day, of weekdays or of weekends (UTC). */
const SLOT_HOURS = 4;
const SLOTS_OF_DAY = 24 / SLOT_HOURS;

function slotOf(ms: number): number {
  const date = new Date(ms);
  return Math.floor(date.getUTCHours() / SLOT_HOURS) + (date.getUTCDay() % 6 === 0 ? SLOTS_OF_DAY : 0);
}
/** Whether a slot is on a weekend. */
export const isWeekend = (slot: number): boolean => slot >= SLOTS_OF_DAY;

/** The verdicts of one hour of a variant. */
export interface HourOfVerdicts {
  hourMs: number;
  variant: string;
  /** Strata by name. */
  strata: Readonly<Record<string, JudgedStratum>>;
  /** The judge's version, if one gave all verdicts; `mixed`, if several did; absent without verdicts of a judge. */
  version?: string | undefined;
}

/** Verdicts by the name of their stratum. */
export type Strata = ReadonlyMap<string, JudgedStratum>;

/** A variant in one slot of the week. */
interface Part {
  variant: string;
  slot: number;
  /** Sums from the first hour up to and including each hour. */
  sums: { hourMs: number; running: Strata }[];
}

export type Series = ReturnType<typeof seriesOf>;

/** Collects the verdicts of one scorer by one version of the judge. @param hours all hours of the scorer, in time */
export function seriesOf(hours: readonly HourOfVerdicts[]) {
  /** Version in the newest hour that has only one version. */
  const version = hours.findLast((hour) => hour.version !== undefined && hour.version !== 'mixed')?.version;
  const firstMs = hours.find((hour) => hour.version === version)?.hourMs ?? Infinity;
  const parts = new Map<string, Part>();
  /** The share that fails, by variant and hour with verdicts. */
  const shares = new Map<string, HourOfCases[]>();
  for (const { hourMs, variant, strata, version: own } of hours) {
    // Hours without sampled captures count for every judge.
    if (own !== version && (own !== undefined || hourMs < firstMs)) continue;
    const slot = slotOf(hourMs);
    const part = parts.get(`${slot} ${variant}`) ?? { variant, slot, sums: [] };
    parts.set(`${slot} ${variant}`, part);
    const all = new Map(Object.entries(strata));
    part.sums.push({ hourMs, running: added(part.sums.at(-1)?.running ?? NOTHING, all) });
    const { share: failing, of: cases } = shareOf(all);
    const ofVariant = shares.get(variant) ?? [];
    shares.set(variant, ofVariant);
    if (cases > 0) ofVariant.push({ hourMs, cases, failing });
  }
  const variants = [...shares.keys()];
  /** Returns the share that fails in each hour with verdicts. @param variant if absent, all variants together */
  const hoursIn = ({ fromMs, toMs }: TimeWindow, variant?: string): HourOfCases[] => {
    const all = variant === undefined ? [...shares.values()] : [shares.get(variant) ?? []];
    const within = all.map((hours) => hours.slice(below(hours, fromMs), below(hours, toMs)));
    if (within.length === 1) return within[0] ?? [];
    return [...Map.groupBy(within.flat(), ({ hourMs }) => hourMs)]
      .map(([hourMs, some]) => {
        const cases = some.reduce((total, one) => total + one.cases, 0);
        return { hourMs, cases, failing: some.reduce((total, one) => total + one.cases * one.failing, 0) / cases };
      })
      .toSorted((a, b) => a.hourMs - b.hourMs);
  };
  /** Returns how much neighbouring hours of the same variant differ; see `factorOf`. */
  const neighboursIn = (window: TimeWindow): ReturnType<typeof neighbours> => {
    const total = { pairs: 0, failing: 0, squares: 0 };
    for (const variant of variants) addCounts(total, neighbours(hoursIn(window, variant)));
    return total;
  };
  /** Whether another version came before. */
  const isNewJudge = hours.some((hour) => hour.version !== undefined && hour.version !== version);
  return {
    version,
    firstMs,
    isNewJudge,
    parts: [...parts.values()],
    variants,
    hours: hoursIn,
    neighbours: neighboursIn,
  };
}

const NOTHING: Strata = new Map();

/** Returns the sum of two parts; with `sign` −1, the difference. */
export function added(a: Strata, b: Strata, sign = 1): Strata {
  const total = new Map(a);
  for (const [name, { captures, judged, passed }] of b) {
    const one = total.get(name) ?? { captures: 0, judged: 0, passed: 0 };
    total.set(name, {
      captures: one.captures + sign * captures,
      judged: one.judged + sign * judged,
      passed: one.passed + sign * passed,
    });
  }
  return total;
}

/** Returns the sum of a part within a window; `undefined` without hours. */
export function within({ sums }: Part, { fromMs, toMs }: TimeWindow): Strata | undefined {
  const [from, to] = [below(sums, fromMs), below(sums, toMs)];
  return from === to ? undefined : added(sums[to - 1]?.running ?? NOTHING, sums[from - 1]?.running ?? NOTHING, -1);
}

const total = (strata: Strata, of: keyof JudgedStratum): number =>
  [...strata.values()].reduce((sum, stratum) => sum + stratum[of], 0);
export const judgedIn = (strata: Strata): number => total(strata, 'judged');
export const capturesIn = (strata: Strata): number => total(strata, 'captures');

/** Returns the share that fails, of as many independent cases. */
export function shareOf(strata: Strata): SampledShare {
  const asked = [...strata].filter(([name]) => name !== EMPTY).map(([, stratum]) => stratum);
  // Empty replies alone do not represent the others.
  const isUnknown = asked.some(({ captures }) => captures > 0) && asked.every(({ judged }) => judged <= 0);
  const found = isUnknown ? null : weigh([...strata.values()]);
  if (found === null) return { share: 0, of: 0 };
  const represented = 1 - (strata.get(UNJUDGED)?.captures ?? 0) / capturesIn(strata);
  return { share: 1 - found.share, of: found.of, represented };
}

/** Returns how many of some hours, in time, are before an instant. */
const below = (sorted: readonly { hourMs: number }[], ms: number): number =>
  firstPassing(-1, sorted.length, (at) => (sorted[at]?.hourMs ?? 0) >= ms);

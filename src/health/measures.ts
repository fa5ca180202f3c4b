/**
 * Derives a state from a measured share: bounds of the failing share, falls against earlier weeks, and changes that a
 * healthy state excludes.
 */

import { DAY_MS, HOUR_MS } from '../captures/files/capture-path.ts';
import { chanceOfRise, changePoint, smallestRiseFound } from '../core/statistics/changed-share.ts';
import { openPart } from '../core/statistics/corrected-share.ts';
import { type Estimate, type SampledShare, shareBounds } from '../core/statistics/share.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import { BASELINE_MS, compare, compareSpan, SPANS_MS } from './falls.ts';
import type { History } from './history.ts';
import { added, capturesIn, judgedIn, type Series, type Strata, within } from './series.ts';

/**
 * The probability of a false finding in one look at an unchanged endpoint: by falls, by bounds, and by differing
 * variants. Each is divided by the number of comparisons.
 */
const CHANCE = { falls: 0.01, bounds: 0.005, variants: 0.004 };
/** The one-sided level of the usual 95% interval. */
const LEVEL_95 = 0.025;
/** Minimum number of failing replies for a state of harm. A person reads fewer failing replies, which do not change the state. */
export const FEWEST_HARMFUL = 3;
/** Minimum number of a judge's verdicts for detecting its falls. */
const FEWEST_OF_JUDGE = 200;

/** The failing shares from which on the endpoint needs a look, and is bad. */
export type Bounds = Record<'look' | 'bad', number>;

/** A failing share, and whether it is beyond its bounds. */
export interface Bounded extends Estimate {
  state: 'bad' | 'needs a look' | 'too little to tell' | 'healthy';
  /** Level of the interval, such as 0.999. */
  level: number;
  /** The whole interval is within the first bound. */
  isWithin: boolean;
}

/**
 * Compares a failing share with its bounds. The lower end of its interval decides. If only the 95% interval is beyond
 * the bound, the state is not changed, but this is reported.
 *
 * @param failing share of this many independent cases
 * @param comparisons of the look, by which the level is divided
 * @param least number of failing cases below which nothing is decided
 */
export function bounded(failing: SampledShare, { look, bad }: Bounds, comparisons: number, least = 0): Bounded {
  const alpha = Math.min(LEVEL_95, CHANCE.bounds / comparisons);
  const ends = shareBounds(failing.share * failing.of, failing.of);
  const open = openPart(failing);
  const lower = (level: number): number => (1 - open) * ends.lower(level);
  const [low, high] = [lower(alpha), (1 - open) * ends.upper(alpha) + open];
  const figure = { value: failing.share, low, high, level: 1 - 2 * alpha, isWithin: high <= look };
  if (failing.share * failing.of < least) return { ...figure, state: 'healthy' };
  if (figure.low > look) return { ...figure, state: figure.low > bad ? 'bad' : 'needs a look' };
  return { ...figure, state: lower(LEVEL_95) > look ? 'too little to tell' : 'healthy' };
}

// ----------------------------------------------------------------------------------------------------------- falls

/** A scorer that has become worse. */
export type Fall = ReturnType<typeof fallsOf>['falls'][number];

/** If only larger falls can be detected or excluded, the verdicts are too few. */
export const MOST_POINTS = 0.15;
const EXCLUDED_MS = [DAY_MS, 3 * DAY_MS];

/** The history until now. */
type Past = Pick<History, 'series' | 'firstMs'> & { factorOf(scorer: string): number };

/** Tests all scorers and variants over all spans. @param captures of the window, by which a scorer is asked of enough */
export function fallsOf(history: Past, nowMs: number, window: TimeWindow, captures: number) {
  const variants = [...new Set([...history.series.values()].flatMap((series) => series.variants))];
  const subjects = variants.length > 1 ? [undefined, ...variants] : [undefined];
  const alpha = CHANCE.falls / Math.max(1, history.series.size * subjects.length * SPANS_MS.length);
  const known = [...history.series].filter(([, series]) => isKnown(series, history, nowMs));
  const falls = known.flatMap(([scorer, series]) => {
    const factor = history.factorOf(scorer);
    const found = subjects.flatMap((variant) =>
      SPANS_MS.flatMap((spanMs) => {
        const made = compareSpan(series, { spanMs, nowMs, variant, factor });
        const chance = made === undefined ? 1 : chanceOfRise(made.before, made.after);
        return made !== undefined && chance <= alpha ? [{ ...made, variant, spanMs, chance }] : [];
      }),
    );
    const [clearest] = found.toSorted((a, b) => a.chance - b.chance);
    if (clearest === undefined) return [];
    const worse = [...new Set(found.flatMap(({ variant }) => variant ?? []))];
    /** The variants that show it; empty: all together. */
    const own = worse.length === variants.length ? [] : worse;
    /** Length of the earlier weeks. */
    const baselineMs = Math.min(BASELINE_MS, nowMs - clearest.spanMs - series.firstMs);
    return [{ ...clearest, scorer, variants: own, baselineMs, ...sinceWhen(series, clearest, nowMs, factor) }];
  });
  const asked = known.filter(([, series]) => askedOf(series, window) >= captures / 2);
  const smallest = (spanMs: number, [scorer, series]: [string, Series], variant?: string): number | undefined => {
    const made = compareSpan(series, { spanMs, nowMs, factor: history.factorOf(scorer), variant });
    return made && smallestRiseFound(made.before, made.after.of, alpha);
  };
  const largest = (spanMs: number): number | undefined => {
    const all = asked.flatMap((one) => smallest(spanMs, one) ?? []);
    return all.length === 0 ? undefined : Math.max(...all);
  };
  /**
   * For a day and for three days, or for the available time: the largest possible fall of the scorers that are asked
   * about at least half of the captures.
   */
  const excluded = EXCLUDED_MS.map((spanMs) => ({ spanMs, points: largest(spanMs) }));
  const longestMs = excluded.findLast(({ points }) => points !== undefined)?.spanMs ?? DAY_MS;
  const isFew = (one: [string, Series], variant?: string): boolean =>
    (smallest(longestMs, one, variant) ?? 1) > MOST_POINTS;
  const fewOf = subjects.flatMap((variant) =>
    variant !== undefined && asked.some((one) => isFew(one, variant)) ? [`variant ${variant}`] : [],
  );
  return {
    falls,
    excluded,
    /** Scorers and variants that cannot show 15 points in the longest of these spans, though others can. */
    few: [...known.flatMap((one) => (isFew(one) ? [one[0]] : [])), ...fewOf],
    /**
     * Judges, or versions of judges, that have replaced another, and whether they have enough verdicts for a
     * comparison.
     */
    newJudges: [...history.series].flatMap(([scorer, { isNewJudge, firstMs: sinceMs }]) =>
      isNewJudge ? [{ scorer, sinceMs, isKnown: known.some(([name]) => name === scorer) }] : [],
    ),
  };
}

/** Whether a day has passed, and the judge has enough verdicts. */
const isKnown = (series: Series, history: Past, nowMs: number): boolean =>
  nowMs - history.firstMs >= DAY_MS &&
  (!series.isNewJudge || judgedIn(sumWithin(series, { fromMs: 0, toMs: nowMs })) >= FEWEST_OF_JUDGE);

export const sumWithin = (series: Series, window: TimeWindow, variant?: string): Strata =>
  series.parts
    .filter((part) => (variant ?? part.variant) === part.variant)
    .flatMap((part) => within(part, window) ?? [])
    .reduce((a, b) => added(a, b), new Map() as Strata);

/** Returns how many captures of a window a scorer is asked of. */
export const askedOf = (series: Series, window: TimeWindow): number => capturesIn(sumWithin(series, window));

/**
 * Estimates the hour in which a fall began, with the range of hours that are not excluded, from the weeks before until now; and returns
 * the first and the last hour with failing replies since then.
 */
function sinceWhen(series: Series, of: { spanMs: number; variant: string | undefined }, nowMs: number, factor: number) {
  const { spanMs, variant } = of;
  const hours = series.hours({ fromMs: nowMs - spanMs - BASELINE_MS, toMs: nowMs }, variant);
  const since = changePoint(hours, factor);
  const failing = hours.filter(({ hourMs, failing: share }) => share > 0 && hourMs >= (since?.at ?? Infinity));
  const [first, last] = [failing[0]?.hourMs, failing.at(-1)?.hourMs];
  return { since, failures: first === undefined || last === undefined ? undefined : { first, last: last + HOUR_MS } };
}

// -------------------------------------------------------------------------------------------------------- variants

/** Compares variants with the reference in the same hours. @returns the scorers by which a variant is worse */
export function apartFrom(reference: string, others: readonly string[], history: Past, window: TimeWindow) {
  const alpha = CHANCE.variants / Math.max(1, history.series.size * others.length);
  return others.flatMap((variant) =>
    [...history.series].flatMap(([scorer, series]) => {
      const made = compare(series, { window, variant: reference }, { window, variant }, history.factorOf(scorer));
      const isWorse = made !== undefined && chanceOfRise(made.before, made.after) <= alpha;
      return isWorse ? [{ ...made, variant, scorer }] : [];
    }),
  );
}

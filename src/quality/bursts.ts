/** Finds hours with far more captures than the others, as a load test makes them. */
import { DAY_MS, HOUR_MS } from '../captures/files/capture-path.ts';
import { many, whole } from '../core/text/figure-text.ts';
import { sum } from '../core/values/sum.ts';
import { type CountedCell, hourMs } from './counts-store.ts';

/** A burst has this many times the usual captures of an hour, and so many at least. With fewer hours, nothing is usual. */
const [TIMES, FEWEST, HOURS] = [10, 500, 24];

/**
 * Returns a note for each burst: an hour with ten times the median of the other hours with captures, and of the same hour
 * on other days, so that a nightly job is none.
 *
 * @param command makes a command to copy from its arguments
 */
export function burstsIn(cells: readonly CountedCell[], command: (...texts: string[]) => string): string[] {
  const counted = [...Map.groupBy(cells, ({ hour }) => hourMs(hour))]
    .map(([fromMs, own]) => ({ fromMs, captures: sum(own.map(({ cell }) => cell.captures ?? 0)) }))
    .filter(({ captures }) => captures > 0);
  return counted.flatMap(({ fromMs, captures }) => {
    const others = counted.filter((one) => one.fromMs !== fromMs);
    const sameHour = others.filter((one) => (one.fromMs - fromMs) % DAY_MS === 0);
    const usual = Math.max(median(others), median(sameHour));
    if (others.length < HOURS || captures < Math.max(FEWEST, TIMES * usual)) return [];
    const [from = '', to = ''] = [0, HOUR_MS].map((ms) => `${new Date(fromMs + ms).toISOString().slice(0, 16)}Z`);
    const what = `${many(captures, 'capture')} from ${from} to ${to}, usually ${whole(usual)} an hour`;
    return `${what}; if that was a load test: ${command('traffic', 'exclude', '--from', from, '--to', to)}`;
  });
}

/** 0 without hours. */
const median = (hours: readonly { captures: number }[]): number =>
  hours.map(({ captures }) => captures).toSorted((a, b) => a - b)[Math.floor(hours.length / 2)] ?? 0;

/** Finds hours with far more captures than the others, as a load test makes them. */
import { HOUR_MS } from '../captures/files/capture-path.ts';
import { many, time, whole } from '../core/text/figure-text.ts';
import { sum } from '../core/values/sum.ts';
import { type CountedCell, hourMs } from './counts-store.ts';

/** A burst has this many times the usual captures of an hour, and so many at least. With fewer hours, nothing is usual. */
const [TIMES, FEWEST, HOURS] = [10, 500, 24];

/**
 * Returns a note for each burst: hours with ten times the median of the other hours with captures, and of the same hour
 * on other days, so that a nightly job is none.
 *
 * @param command makes a command to copy from its arguments
 */
export function burstsIn(cells: readonly CountedCell[], command: (...texts: string[]) => string): string[] {
  const counted = [...Map.groupBy(cells, ({ hour }) => hour)]
    .map(([hour, own]) => ({ fromMs: hourMs(hour), captures: sum(own.map(({ cell }) => cell.captures ?? 0)) }))
    .filter(({ captures }) => captures > 0)
    .toSorted((a, b) => a.fromMs - b.fromMs);
  if (counted.length < HOURS) return [];
  const bursts: { fromMs: number; toMs: number; captures: number; usual: number }[] = [];
  for (const { fromMs, captures } of counted) {
    const others = counted.filter((one) => one.fromMs !== fromMs);
    const sameHour = others.filter((one) => (one.fromMs - fromMs) % (24 * HOUR_MS) === 0);
    const usual = Math.max(median(others), median(sameHour));
    if (captures < Math.max(FEWEST, TIMES * usual)) continue;
    const last = bursts.at(-1);
    if (last?.toMs === fromMs) Object.assign(last, { toMs: fromMs + HOUR_MS, captures: last.captures + captures });
    else bursts.push({ fromMs, toMs: fromMs + HOUR_MS, captures, usual });
  }
  return bursts.map(({ fromMs, toMs, captures, usual }) => {
    const [from = '', to = ''] = [fromMs, toMs].map((ms) => `${new Date(ms).toISOString().slice(0, 16)}Z`);
    const what = `${many(captures, 'capture')} from ${time(fromMs)} to ${time(toMs)}, usually ${whole(usual)} an hour`;
    return `${what}; if that was a load test: ${command('traffic', 'exclude', '--from', from, '--to', to)}`;
  });
}

/** 0 without hours. */
const median = (hours: readonly { captures: number }[]): number =>
  hours.map(({ captures }) => captures).toSorted((a, b) => a - b)[Math.floor(hours.length / 2)] ?? 0;

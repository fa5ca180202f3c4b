/** Days of captures in files, whose chances the product's functions decide as planners do: one by one, or many at once. */

import type { Random } from '../../src/core/values/random.ts';
import { sum } from '../../src/core/values/sum.ts';
import { chanceOfFile, chanceOfLateFile, chanceOfRules, type DayKnown } from '../../src/quality/day-quota.ts';

export interface Day {
  /** Captures of each hour. */
  hours: readonly number[];
  weeks: DayKnown['weeks'];
  number: number;
  /** Captures of a file. Absent: a file a minute, of at most 700. */
  lines?: number;
  /** Planners that read the same state. Then each adds its file, and corrects its chance downward. Absent: 1. */
  atOnce?: number;
  /** The share of the files whose clock is an hour ahead. */
  ahead?: number;
  /** Files of 700 captures of the day before, that are planned during the day. */
  overdue?: number;
  /** The share of the captures that a rule chooses; chunks report after 32 other files. */
  chosen?: number;
}

export interface File {
  /** Of its key. */
  hour: number;
  lines: number;
  chance: number;
}

export const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
/** Returns the captures of each hour of a day of about `captures`. */
export function trafficOf(captures: number, shape: readonly number[], random: Random): number[] {
  const means = shape.map((one) => (captures * one) / sum(shape));
  return means.map((mean) => Math.max(0, Math.round(mean + Math.sqrt(mean) * random.normal())));
}

function filesOf({ hours, lines, ahead = 0 }: Day, random: Random): File[] {
  return hours.flatMap((captures, hour) => {
    const most = lines ?? Math.min(700, Math.ceil(captures / 60));
    return Array.from({ length: Math.ceil(captures / most || 0) }, (_, index) => ({
      hour: random.next() < ahead ? Math.min(23, hour + 1) : hour,
      lines: Math.min(most, captures - index * most),
      chance: 0,
    }));
  });
}

export interface Planned {
  files: File[];
  /** Drawn of late files, and by rules. */
  late: number;
  rules: number;
}

/** Returns the files of a day, in order, each with its chance. */
export function planDay(day: Day, random: Random): Planned {
  const { weeks, atOnce = 1, overdue = 0, chosen } = day;
  const today = { lines: HOURS.map(() => 0), draws: HOURS.map(() => 0) };
  const seen = { lines: 0, draws: 0 };
  const rules = { lines: 0, matched: 0, drawn: 0 };
  const running: (() => void)[] = [];
  const files = filesOf(day, random);
  for (let at = 0; at < files.length; at += atOnce) {
    while (seen.lines / 700 < (overdue * at) / files.length) {
      seen.draws += 700 * chanceOfLateFile(700, day, seen.draws);
      seen.lines += 700;
    }
    const number = day.number * (chosen === undefined ? 1 : 3 / 4) - seen.draws;
    const wave = files.slice(at, at + atOnce);
    planAtOnce(wave, { number, weeks, today }, random, (file, before) => {
      const chance = chanceOfRules(file, { ...before, number: day.number }, rules);
      const matched = random.binomial(file.lines, chosen ?? 0);
      running.push(() => {
        rules.lines += file.lines;
        rules.matched += matched;
        rules.drawn += random.binomial(matched, chance);
      });
    });
    while (running.length > 32) running.shift()?.();
  }
  for (const report of running) report();
  return { files, late: seen.draws, rules: rules.drawn };
}

/** @param added is called with what the day had before the file was added */
function planAtOnce(
  files: readonly File[],
  known: DayKnown,
  random: Random,
  added: (file: File, before: DayKnown) => void,
): void {
  const { lines, draws } = known.today as { lines: number[]; draws: number[] };
  const copy = (): DayKnown => ({ ...known, today: { lines: [...lines], draws: [...draws] } });
  const read = copy();
  const waiting: (() => void)[] = [];
  for (const file of files) {
    const first = chanceOfFile(file, read);
    const before = copy();
    added(file, before);
    const { hour } = file;
    lines[hour] = (lines[hour] ?? 0) + file.lines;
    draws[hour] = (draws[hour] ?? 0) + file.lines * first;
    waiting.push(() => {
      file.chance = Math.min(first, chanceOfFile(file, before));
      draws[hour] = (draws[hour] ?? 0) + file.lines * (file.chance - first);
    });
    // Some have corrected theirs before others add.
    while (waiting.length > 0 && random.next() < 0.5) waiting.shift()?.();
  }
  for (const correct of waiting) correct();
}

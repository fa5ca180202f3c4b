/**
 * The chance of a capture to be judged, decided for each file before a capture is drawn, so that a day's number of judged
 * captures lasts the day. All functions are pure.
 */
import { sum } from '../core/values/sum.ts';

/** A day's lines by hour of the files' keys (UTC, 0 to 23), and how many of them were drawn by chance: lines × chance. */
export interface DayDraws {
  lines: readonly number[];
  draws: readonly number[];
}

export interface DayKnown {
  /** Captures that may be judged by chance on this day. */
  number: number;
  /** Without the file that is decided. */
  today: DayDraws;
  /** The same days of the last weeks that had captures: lines by hour. Empty without history. */
  weeks: readonly (readonly number[])[];
  /** Captures that the money left pays for; absent without a budget. */
  affordable?: number | undefined;
}

/** Captures of the day's files that rules chose, from what chunks have reported. */
export interface RuleDraws {
  /** Lines of the chunks that reported. */
  lines: number;
  /** Captures that a rule matched. */
  matched: number;
  /** Captures that a rule matched and that were drawn. */
  drawn: number;
}

const HOURS = 24;
/** Fewer judged captures of an hour say nothing about it. */
const LEAST = 5;
/** Share of a day's number for files of earlier days, and for captures that rules chose. */
const QUARTER = 1 / 4;
/** Hours whose traffic, against the same hours of the last weeks, is expected to go on. */
const RECENT_HOURS = 3;

/**
 * Returns the chance of the captures of a file, 0 to 1, from few distinct values: each is a stratum of the counts.
 *
 * @param file the hour of its key (UTC, 0 to 23), and its lines
 * @example
 *     chanceOfFile({ hour: 9, lines: 700 }, { number: 1000, today, weeks: [] })   // 0.059
 */
export function chanceOfFile({ hour, lines }: { hour: number; lines: number }, known: DayKnown): number {
  const drawn = known.today.draws[hour] ?? 0;
  const quota = quotaOf(hour, known);
  if (quota <= 0) return 0;
  const quotas = Math.floor(drawn / quota);
  let chance = Math.min(1, quota / Math.max(expectedOf(hour, known), lines, 1)) / 2 ** quotas;
  const most = Math.max((quotas + 1) * quota - drawn, Math.min(LEAST, quota));
  while (lines * chance > most) chance /= 2;
  return fewValues(chance);
}

/**
 * Returns the chance of the captures of a file whose day is over when it is planned, 0 to 1. Such files share a quarter of
 * today's number: each draws at most half of what is left.
 *
 * @param known `number`: today's number; `seen`: lines and draws (lines × chance) of such files today so far
 */
export function chanceOfLateFile(
  lines: number,
  {
    number,
    seen,
    affordable = Infinity,
  }: { number: number; seen: { lines: number; draws: number } } & Pick<DayKnown, 'affordable'>,
): number {
  const left = Math.min(number * QUARTER - seen.draws, affordable);
  return fewValues(Math.min(1, left / 2 / Math.max(lines, 1)));
}

/**
 * Returns the chance of captures that rules of EVALUATION_ALWAYS chose, 0 to 1: what is left of a quarter of the day's
 * number, by the captures that rules are expected to choose among the lines that have not reported. Before a chunk has
 * reported, rules may choose each capture planned so far.
 *
 * @param file the file that is decided
 * @param known `number`: of the whole day, the quarter included
 */
export function chanceOfRules(file: { hour: number; lines: number }, known: DayKnown, rules: RuleDraws): number {
  const left = Math.min(known.number * QUARTER - rules.drawn, known.affordable ?? Infinity);
  const planned = sum(known.today.lines) + file.lines - rules.lines;
  const hours = Array.from({ length: HOURS - 1 - file.hour }, (_, index) => file.hour + 1 + index);
  const later = sum(hours.map((hour) => expectedOf(hour, known)));
  const chosen = rules.lines === 0 ? planned : (rules.matched / rules.lines) * (planned + later);
  return fewValues(Math.min(1, left / Math.max(chosen, 1)));
}

/** Returns the captures that may be drawn in an hour: its share of what is left of the day's number. */
function quotaOf(hour: number, { number, today, weeks, affordable = Infinity }: DayKnown): number {
  const shares = Array.from({ length: HOURS }, (_, at) => sum(weeks.map((lines) => lines[at] ?? 0)));
  const all = sum(shares);
  const share = all > 0 ? (shares[hour] ?? 0) / all : 1 / HOURS;
  const shareLeft = all > 0 ? sum(shares.slice(hour)) / all : 1 - hour / HOURS;
  const ofLeft = share / (shareLeft || 1);
  const left = number - sum(today.draws.slice(0, hour));
  const least = Math.min(LEAST, number / HOURS);
  const quota = Math.max(least, (number * share) / 2, Math.min(number * share, left * ofLeft));
  return Math.min(quota, Math.max(LEAST, affordable * ofLeft), affordable);
}

/** Returns the captures that an hour is expected to have; 0 if nothing is known. */
function expectedOf(hour: number, { today: { lines }, weeks }: DayKnown): number {
  const mean = (at: number): number => sum(weeks.map((week) => week[at] ?? 0)) / (weeks.length || 1);
  const before = lines.flatMap((count, at) => (at < hour && count > 0 ? [{ count, usual: mean(at) }] : []));
  if (weeks.length === 0)
    return before.length > 0 ? sum(before.map(({ count }) => count)) / before.length : (lines[hour] ?? 0);
  const ratios = before.slice(-RECENT_HOURS).map(({ count, usual }) => count / (usual || count));
  const [low = 1, middle = low, high] = ratios.toSorted((a, b) => a - b);
  return mean(hour) * (high === undefined ? (low + middle) / 2 : middle);
}

/** Returns the nearest quarter of an octave, in two digits, so that it is the same text everywhere. */
const fewValues = (chance: number): number =>
  chance > 0 ? Number((2 ** (Math.round(4 * Math.log2(chance)) / 4)).toPrecision(2)) : 0;

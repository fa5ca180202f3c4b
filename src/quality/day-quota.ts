/**
 * The chance of a capture to be judged, decided for each file before a capture is drawn, so that a day's number of judged
 * captures lasts the day. All functions are pure.
 */
import { sum } from '../core/values/sum.ts';

/** A day's lines by hour of the files' keys (UTC, 0 to 23), and how many of them were drawn by chance: lines × chance. */
export type DayDraws = Record<'lines' | 'draws', readonly number[]>;

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

/** Lines of the chunks of the day's files that have reported, captures of them that a rule matched, and those of these that were drawn. */
type RuleDraws = Record<'lines' | 'matched' | 'drawn', number>;

const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
/** Minimum quota of an hour, in captures. If the day's number is small, `LEAST_PART` of the number. */
const LEAST = 5;
const LEAST_PART = 1 / 200;
/** Each hour keeps this part of its share, whatever other hours have drawn. Rounded and with some noise, it is half. */
const KEPT = 0.6;
/** A chance is rounded to these parts of an octave: by a factor of at most ROUNDING. */
const PARTS = 4;
const ROUNDING = 2 ** (1 / 8);
/** A burst of 2 ** STEPS times the expected captures draws about what later hours can spare. */
const STEPS = 4;
/** Share of a day's number for files of earlier days, and for captures that rules chose. */
export const QUARTER = 1 / 4;
/** Hours whose traffic, against that of the last weeks, shows the next hour's. */
const RECENT_HOURS = 4;

/**
 * Returns the chance of the captures of a file, 0 to 1, from few distinct values: each is a stratum of the counts. `hour` is
 * that of the key (UTC, 0 to 23).
 *
 * @example
 *     chanceOfFile({ hour: 9, lines: 700 }, { number: 1000, today, weeks: [] })   // 0.063
 */
export function chanceOfFile({ hour, lines }: { hour: number; lines: number }, known: DayKnown): number {
  const { quota, step } = quotaOf(hour, known);
  if (quota <= 0) return 0;
  const over = (known.today.draws[hour] ?? 0) - quota;
  const steps = over < 0 ? 0 : 1 + Math.floor(over / step);
  let chance = Math.min(1, quota / Math.max(expectedOf(hour, known), lines, 1)) / 2 ** steps;
  const most = Math.max(steps * step - over, Math.min(LEAST, quota));
  while (lines * chance > most * ROUNDING) chance /= 2;
  return fewValues(chance);
}

/**
 * Returns the chance of the captures of a file whose day is over when it is planned, 0 to 1. Such files share a quarter of
 * today's number: each draws at most half of what is left. `drawn` is what such files have drawn today: lines × chance.
 */
export function chanceOfLateFile(lines: number, known: Pick<DayKnown, 'number' | 'affordable'>, drawn: number): number {
  const left = Math.min(known.number * QUARTER - drawn, known.affordable ?? Infinity);
  return fewValues(Math.min(1, left / 2 / Math.max(lines, 1)));
}

/**
 * Returns the chance of captures that rules of EVALUATION_ALWAYS chose, 0 to 1: what is left of a quarter of the day's
 * number, by the captures that rules are expected to choose among the lines that have not reported. Before chunks have
 * reported, a rule may choose every capture of the files planned so far.
 *
 * @param file the file that is decided
 * @param known `number`: of the whole day, the quarter included
 */
export function chanceOfRules(file: { hour: number; lines: number }, known: DayKnown, rules: RuleDraws): number {
  const left = Math.min(known.number * QUARTER - rules.drawn, known.affordable ?? Infinity);
  if (left <= 0) return 0;
  const rate = (rules.matched + 1) / (rules.lines + 1);
  const waiting = rate * Math.max(0, sum(known.today.lines) - rules.lines);
  const withFile = waiting + rate * file.lines;
  const later = sum(HOURS.slice(file.hour + 1).map((hour) => expectedOf(hour, known)));
  const even = left / Math.max(1, withFile + (later * rules.matched) / (rules.lines || 1));
  // Files that wait for their report have drawn as well: left × waiting ÷ (waiting + left), which stays below what is left.
  return fewValues(Math.min(1, even, left ** 2 / (waiting + left) / (withFile + left)));
}

/**
 * Returns an hour's quota: its share of what is left of the day's number. Beyond it, each further `step` halves the chance:
 * a quota, or less where later hours have too little to make up for a burst.
 */
function quotaOf(hour: number, { number, today, weeks, affordable = Infinity }: DayKnown) {
  const shares = HOURS.map((at) => (weeks.length > 0 ? sum(weeks.map((week) => week[at] ?? 0)) : 1));
  const all = sum(shares) || 1;
  const own = (shares[hour] ?? 0) / all;
  // Files of later hours may have been planned: clocks differ, and files of an outage come in any order.
  const ahead = sum(today.draws.slice(hour + 1)) / (number || 1);
  const later = Math.max(0, sum(shares.slice(hour + 1)) / all - ahead);
  const ofLeft = own / (own + later || 1);
  const left = number - sum(today.draws) + (today.draws[hour] ?? 0);
  const least = Math.min(LEAST, number * LEAST_PART);
  const wanted = Math.min(number * own, Math.max(left * ofLeft, number * own * KEPT));
  // Without a budget, an hour that never had captures has no figure.
  const paid = Math.max(LEAST, affordable * ofLeft || 0);
  const quota = Math.min(Math.max(wanted, least), paid, affordable);
  const spare = left + number / HOURS.length - quota - number * later * KEPT;
  return { quota, step: Math.min(quota, Math.max(spare, least) / STEPS) };
}

/**
 * Returns the captures that an hour is expected to have: what it usually has × the lower median of (captures ÷ usual) over
 * the last hours, which neither a burst nor an outage across two hours moves. Without history, all hours are alike.
 */
function expectedOf(hour: number, { today: { lines }, weeks }: DayKnown): number {
  const usual = HOURS.map((at) => (weeks.length > 0 ? sum(weeks.map((week) => week[at] ?? 0)) / weeks.length : 1));
  const known = lines.slice(0, hour).flatMap((count, at) => (count > 0 ? [count / (usual[at] || count)] : []));
  const before = weeks.length > 0 ? Array(RECENT_HOURS - 1).fill(1) : [];
  const recent = [...before, ...known].slice(-RECENT_HOURS).toSorted((a, b) => a - b);
  return (usual[hour] ?? 0) * (recent[(recent.length - 1) >> 1] ?? 1);
}

/** Returns the nearest quarter of an octave, in two digits, so that it is the same text everywhere. */
const fewValues = (chance: number): number =>
  chance > 0 ? Number((2 ** (Math.round(PARTS * Math.log2(chance)) / PARTS)).toPrecision(2)) : 0;

/**
 * Simulates days of captures whose chances to be judged are decided file by file: judged captures against the day's number, the share of
 * the intervals that contain the day's true rate, and how often a detector names a fall on the same day.
 *
 * `--days N` simulates N days of each rate and for the detector, and a fiftieth of it of each kind of traffic.
 */
import type { Log } from '../local/python/python-environment.ts';
import { Random } from '../src/core/values/random.ts';
import { sum } from '../src/core/values/sum.ts';
import { type Day, HOURS, type Planned, planDay, trafficOf } from './sample-support/days.ts';
import { namesFall, rateOfDay } from './sample-support/verdicts.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, type Check, round } from './support/result.ts';

/** `JUDGED_CAPTURES_PER_DAY`. */
const NUMBER = 1000;
const MOST = 1.1;
/** Even days, and days whose nights have a tenth of the traffic of the busiest hours. */
const SHAPES = [HOURS.map(() => 1), HOURS.map((hour) => 1 + 9 * Math.sin((Math.PI * hour) / 24) ** 4)] as const;

interface Kind extends Partial<Day> {
  /** Usual captures of a day. */
  captures?: number;
  isFirst?: true;
  /** The traffic of an hour, times the usual. */
  factor?(hour: number): number;
  /** The hours after this one keep half of their share. */
  after?: number;
}

const burst = (at: number): Kind => ({ factor: (hour) => (hour === at ? 20 : 1), after: at });
const KINDS: Record<string, Kind> = {
  ...Object.fromEntries([500, 1e4, 1e5].map((captures) => [`${captures}, like the weeks before`, { captures }])),
  ...Object.fromEntries([500, 1e4, 1e5].map((captures) => [`${captures}, a first day`, { captures, isFirst: true }])),
  'tenfold overnight': { factor: () => 10 },
  ...Object.fromEntries([0, 10, 22].map((at) => [`burst of 20 times at ${at}:00`, burst(at)])),
  'burst over two hours': { factor: (hour) => (hour === 10 || hour === 11 ? 10.5 : 1), after: 11 },
  'outage of three hours': { factor: (hour) => (hour > 7 && hour < 11 ? 0 : 1) },
  'clocks differ by an hour': { ahead: 0.3 },
  '50 late files of 700': { overdue: 50 },
  'rules choose 30%': { chosen: 0.3 },
};
const FILES: Partial<Day>[] = [{}, { atOnce: 32 }, { lines: 700 }, { lines: 700, atOnce: 32 }, { lines: 8333 }];

function plan({ captures = 1e4, factor = () => 1, isFirst, ...more }: Kind, n: number, random: Random): Planned {
  const shape = SHAPES[n % 2] as readonly number[];
  const hours = trafficOf(captures, shape, random).map((count, hour) => Math.round(count * factor(hour)));
  const weeks = isFirst ? [] : Array.from({ length: 4 }, () => trafficOf(captures, shape, random));
  return planDay({ number: NUMBER, hours, weeks, ...more }, random);
}

/** Returns the worst day of a kind: judged captures over the number, draws of an hour with at least 5 captures, and shares after a burst. */
function worstOf(kind: Kind, days: number, random: Random) {
  const after = HOURS.map(() => 0);
  const worst = { judged: 0, rules: 0, least: Infinity };
  for (let n = 0; n < days; n += 1) {
    const { files, late, rules } = plan(kind, n, random);
    const drawn = HOURS.map(() => 0);
    const captures = HOURS.map(() => 0);
    for (const { hour, lines, chance } of files) {
      captures[hour] = (captures[hour] ?? 0) + lines;
      drawn[hour] = (drawn[hour] ?? 0) + lines * chance;
    }
    worst.judged = Math.max(worst.judged, (sum(drawn) + late + rules) / NUMBER);
    worst.rules = Math.max(worst.rules, rules / NUMBER);
    worst.least = Math.min(worst.least, ...drawn.filter((_, hour) => (captures[hour] ?? 0) >= 5));
    const shape = SHAPES[n % 2] as readonly number[];
    for (const hour of HOURS)
      after[hour] = (after[hour] ?? 0) + ((drawn[hour] ?? 0) * sum(shape)) / NUMBER / (shape[hour] ?? 1) / days;
  }
  return { ...worst, after: Math.min(1, ...after.slice((kind.after ?? 23) + 1)) };
}

function checksOf(name: string, kind: Kind, days: number, random: Random, log: Log): Check[] {
  const all = FILES.map((files) => {
    const worst = worstOf({ ...kind, ...files }, days, random);
    log(
      `${name} ${JSON.stringify(files)}: ${JSON.stringify(worst, (_, value) => (value > 0 ? round(value, 3) : value))}`,
    );
    return worst;
  });
  return [
    atMost(`${name}: judged over the number`, Math.max(...all.map(({ judged }) => judged)), MOST),
    atLeast(`${name}: draws of an hour with 5 captures`, Math.min(...all.map(({ least }) => least)), 2),
    ...(kind.after === undefined
      ? []
      : [atLeast(`${name}: hours after, of their share`, Math.min(...all.map(({ after }) => after)), 0.5)]),
    ...(kind.chosen ? [atMost(`${name}: by rules`, Math.max(...all.map(({ rules }) => rules)), MOST / 4)] : []),
  ];
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const days = numberFlag(flags, 'days', 1000);
  const random = new Random(65);
  const traffic = Object.entries(KINDS).flatMap(([name, kind]) =>
    checksOf(name, kind, Math.max(2, Math.ceil(days / 50)), random, log),
  );
  const percent = (isHit: (n: number) => boolean): number =>
    (100 * Array.from({ length: days }, (_, n) => isHit(n)).filter(Boolean).length) / days;
  const falls = (to: number) => (hour: number) => (hour < 12 ? 0.98 : to);
  const covered = {
    'worse at noon': percent((n) => rateOfDay(plan({}, n, random).files, falls(0.3), random)),
    'worse at noon, a burst': percent((n) => rateOfDay(plan(burst(n % 24), n, random).files, falls(0.8), random)),
    'all good but 1%': percent((n) => rateOfDay(plan({}, n, random).files, () => 0.99, random)),
    'a variant of a tenth': percent((n) => rateOfDay(plan({}, n, random).files, falls(0.8), random, 0.1)),
  };
  const named = percent((n) => namesFall(plan({}, n, random).files, n % 18, random));
  const most = Math.max(...traffic.filter(({ what }) => what.endsWith('number')).map(({ value }) => value));
  return {
    ratio: round(MOST / most),
    ours: { 'judged over the number, worst day': most, ...covered, 'falls named the same day, %': named },
    peer: { 'judged over the number, at most': MOST },
    checks: [
      ...traffic,
      ...Object.entries(covered).map(([name, value]) => atLeast(`${name}: intervals with the true rate, %`, value, 93)),
      atLeast('98 to 80% at 0:00 to 17:00: named the same day, %', named, 95),
    ],
    notes: [`${days} days of each rate and fall, a fiftieth of each kind of traffic; the table is on standard error`],
  };
}

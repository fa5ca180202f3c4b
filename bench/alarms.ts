/**
 * Simulates captures and feeds them to the product's detector of an objective: how often it alarms falsely, and how soon after
 * a real change.
 *
 * `--years N` simulates N years of 20 objectives, `--drops N` as many drops of each kind.
 */
import type { Log } from '../local/python/python-environment.ts';
import { meanRunLength } from '../src/core/statistics/cusum.ts';
import { Random } from '../src/core/values/random.ts';
import { createDetector, type Detector, type DetectorState, feed, newState } from '../src/quality/detector.ts';
import { runLengthQuantile } from '../test/helpers/run-length.ts';
import { numberFlag } from './support/flags.ts';
import { atMost, type BenchResult, median, round } from './support/result.ts';

const PER_DAY = 1000;
const OBJECTIVES = 20;
const CAPTURES_A_YEAR = 365 * PER_DAY * OBJECTIVES;
const SECONDS = 86_400 / PER_DAY;
const TARGETS = { falseAlarms: 1, median: 200, p95: 320 };
/** Captures before a drop, so that the detector does not start from nothing. */
const BEFORE = 500;

const detectorOf = (atLeast: number, together = 1): Detector =>
  createDetector({
    id: 'safety',
    measure: { name: 'safety', scorer: 'safety', passes: () => true },
    failing: round(1 - atLeast, 9),
    bound: { atLeast },
    hours: 24,
    perDay: PER_DAY,
    together,
  });

/** Whether each capture fails, one after the other. */
type Captures = (share: number, random: Random) => () => boolean;

const independent: Captures = (share, random) => () => random.next() < share;

/** Captures come in groups, such as the turns of one conversation, which all pass or all fail. */
const inGroups =
  (size: number): Captures =>
  (share, random) => {
    let [left, isFailed] = [0, false];
    return () => {
      if (left === 0) [left, isFailed] = [size, random.next() < share];
      left -= 1;
      return isFailed;
    };
  };

/** Feeds `captures` captures. @returns how many it took until the first alarm; `undefined` if there was none */
function untilRing(
  detector: Detector,
  state: DetectorState,
  next: () => boolean,
  captures: number,
  begin = 0,
): number | undefined {
  for (let index = 0; index < captures; index += 1) {
    const second = Math.floor((begin + index) * SECONDS);
    if (feed(detector, state, [second, 1, next() ? 1 : 0]).some(({ isMissed }) => isMissed)) return index + 1;
  }
  return undefined;
}

function falseAlarms(detector: Detector, share: number, captures: number, kind: Captures): number {
  const next = kind(share, new Random(20_261_122));
  let [alarms, left] = [0, captures];
  for (;;) {
    const rang = untilRing(detector, newState(), next, left);
    if (rang === undefined) return alarms;
    alarms += 1;
    left -= rang;
  }
}

interface Drop {
  median: number;
  p95: number;
}

function afterDrop(detector: Detector, from: number, to: number, drops: number, kind: Captures): Drop {
  const random = new Random(7);
  const delays: number[] = [];
  for (let drop = 0; drop < drops; drop += 1) {
    let state = newState();
    untilRing(detector, state, kind(from, random), BEFORE);
    if (state.missed !== undefined) state = newState();
    delays.push(untilRing(detector, state, kind(to, random), 100_000, BEFORE) ?? Infinity);
  }
  const sorted = delays.toSorted((a, b) => a - b);
  return { median: median(sorted), p95: sorted[Math.ceil(0.95 * drops) - 1] ?? Number.NaN };
}

const perYear = (captures: number): string => {
  const alarms = CAPTURES_A_YEAR / captures;
  return alarms < 0.001 ? '< 0.001' : String(round(alarms, alarms < 1 ? 3 : 1));
};

const row = (cells: readonly (string | number)[]): string => cells.map((cell) => String(cell).padStart(11)).join('');

/** What an objective's figure means: rates at, above and below it. */
function objectivesTable(log: Log): void {
  log('\nBy objective, exact (false alarms a year of 20 such objectives; captures until it alarms):');
  log(row(['atLeast', 'up, down', 'limit', 'at it', 'half as bad', 'drops to', 'median', 'p95', 'met: median']));
  for (const atLeast of [0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999]) {
    const { missed, met, objective } = detectorOf(atLeast);
    const { failing } = objective;
    const bad = Math.sin(Math.asin(Math.sqrt(failing)) + Math.asin(Math.sqrt(0.15)) - Math.asin(Math.sqrt(0.05))) ** 2;
    log(
      row([
        atLeast,
        `${missed.up}, ${missed.down}`,
        missed.limit,
        perYear(meanRunLength(missed, failing)),
        perYear(meanRunLength(missed, failing / 2)),
        round(1 - bad, 3),
        runLengthQuantile(missed, bad, 0.5),
        runLengthQuantile(missed, bad, 0.95),
        runLengthQuantile(met, 1 - failing, 0.5),
      ]),
    );
  }
}

function ratesTable(log: Log): void {
  const { missed, met } = detectorOf(0.95);
  log('\nAn objective of 0.95 by the true rate, exact:');
  log(row(['true rate', 'mean until', 'false/year', 'median', 'p95', 'met: median']));
  for (const rate of [0.99, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.9, 0.88, 0.85, 0.8, 0.5]) {
    const mean = meanRunLength(missed, 1 - rate);
    const isSoon = mean < 1e5;
    const isMet = rate >= 0.93;
    log(
      row([
        rate,
        mean > 1e9 ? '> 1e9' : Math.round(mean),
        rate < 0.95 ? '-' : perYear(mean),
        isSoon ? runLengthQuantile(missed, 1 - rate, 0.5) : '-',
        isSoon ? runLengthQuantile(missed, 1 - rate, 0.95) : '-',
        isMet ? runLengthQuantile(met, rate, 0.5) : '-',
      ]),
    );
  }
}

const KINDS: { name: string; kind: Captures; together?: number }[] = [
  { name: 'independent', kind: independent },
  { name: 'groups of 5 that pass or fail together', kind: inGroups(5) },
  { name: 'groups of 5, with "together": 5', kind: inGroups(5), together: 5 },
];

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const years = numberFlag(flags, 'years', 10);
  const drops = numberFlag(flags, 'drops', 10_000);
  const captures = years * CAPTURES_A_YEAR;
  const detector = detectorOf(0.95);
  objectivesTable(log);
  ratesTable(log);
  log(
    '\nAn objective of 0.95, simulated (false alarms a year of 20 objectives; captures until a drop to 0.85 alarms):',
  );
  log(`${'captures'.padEnd(52)}${row(['at 0.95', 'at 0.97', 'at 0.99', 'median', 'p95'])}`);
  const cells = KINDS.map(({ name, kind, together }) => {
    const own = detectorOf(0.95, together);
    const at = [0.05, 0.03, 0.01].map((share) => falseAlarms(own, share, captures, kind) / years);
    const drop = afterDrop(own, 0.05, 0.15, drops, kind);
    log(`${name.padEnd(52)}${row([...at.map((each) => round(each)), drop.median, drop.p95])}`);
    return { at, drop };
  });
  const [first] = cells;
  const simulated = first?.at[0] ?? Number.NaN;
  const exact = CAPTURES_A_YEAR / meanRunLength(detector.missed, 0.05);
  const most = TARGETS.falseAlarms + 3 * Math.sqrt(TARGETS.falseAlarms / years);
  return {
    ratio: round(TARGETS.falseAlarms / exact),
    ours: { 'false alarms a year': round(exact), 'false alarms a year, simulated': round(simulated) },
    peer: { 'false alarms a year, at most': TARGETS.falseAlarms },
    checks: [
      atMost('false alarms a year, 20 objectives that are met exactly, exact', exact, TARGETS.falseAlarms),
      atMost('the same, simulated, within three standard errors', simulated, round(most)),
      atMost('0.95 to 0.85: captures until it alarms, median', first?.drop.median ?? Number.NaN, TARGETS.median),
      atMost('0.95 to 0.85: captures until it alarms, p95', first?.drop.p95 ?? Number.NaN, TARGETS.p95),
    ],
    notes: [
      `${years} years of 20 objectives at ${PER_DAY} judged captures a day, ${drops} drops of each kind; the tables are on standard error`,
    ],
  };
}

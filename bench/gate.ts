/**
 * Simulates releases and runs them through the product's release gate: how often it passes a release that is worse by exactly
 * the bound, and how often the range of `compare --plan` holds the size at which an unchanged one passes in 80%.
 *
 * `--releases N` simulates fewer releases per cell.
 */
import type { Log } from '../local/python/python-environment.ts';
import { type Cell, type Planned, plannedCells, SIZES, simulated } from './gate-support/cells.ts';
import { GAPS, SHAPES, type Shape } from './gate-support/releases.ts';
import { betweenRuns, type Outcomes, timingOut } from './gate-support/runs.ts';
import { ALIKE, ERRORS_IN_ROWS } from './gate-support/sequences.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, type Check, round } from './support/result.ts';

const RELEASES = 2000;
/** Percent of the releases at the bound; 5 is nominal. */
const MOST_AT_BOUND = 6.5;
/** The same where neighbouring requests are alike, and of the unchanged ones that may fail there. */
const MOST_ALIKE = { passed: 8, failed: 6 };
const ALIKE_SIZES = [1000, 3000];
/** Percent of the unchanged releases of 3,000 pairs that pass there, by load and statistic. */
const FEWEST_ALIKE: [RegExp, number][] = [
  [/ 60% load.*:mean:/, 80],
  [/ 60% load.*:p95:/, 40],
  [/ 80% load.*:mean:/, 30],
  [/ 80% load.*:p95:/, 15],
];
/** Pilots that plans are made from, their pairs, and releases at each size that the true one is searched with. */
const PLANS = { pilots: 60, pairs: [1000, 10_000], share: 8 };
/** Percent of the plans whose range holds the truth, and whose middle is within a factor of two. 60 plans leave 4 points to chance. */
const FEWEST_PLANS = 86;

/** By how much whole runs differ, how many there are of each model, and releases in each cell of 1,000 pairs a run. */
const BETWEEN = { spreads: [0.02, 0.05, 0.1], runs: [1, 2, 3, 4, 5], share: 20 };
/** Percent at the bound from two runs on. 100 releases leave 2.2 points to chance. */
const MOST_BETWEEN = 11.5;
const TIMEOUTS = { second: [0.05, 0.1, 0.2, 0.3, 0.4, 0.45, 0.49], both: [0.05, 0.1, 0.2, 0.4, 0.6], share: 40 };

/** How often releases pass whose runs differ as a whole: as a table, and what must hold of it. */
function betweenChecks(log: Log, releases: number): Check[] {
  log(`\nRuns differ as a whole, 1,000 pairs a run: unchanged passes / at the bound passes, with 1 to 5 runs of each`);
  return ['p50', 'p95'].flatMap((statistic) =>
    BETWEEN.spreads.flatMap((spread) => {
      const cells = BETWEEN.runs.map((runs) => {
        const [same, bound] = [1, 1.1].map((slower) => betweenRuns(releases, statistic, spread, runs, slower).passed);
        return { runs, same: same ?? 0, bound: bound ?? 100 };
      });
      const texts = cells.map(({ same, bound }) => `${same.toFixed(0)}% / ${bound.toFixed(0)}%`.padStart(14));
      log(`${statistic}, ${100 * spread}%`.padEnd(12) + texts.join(''));
      return cells
        .filter(({ runs }) => runs > 1)
        .map(({ runs, bound }) =>
          atMost(
            `at the bound, runs differ by ${100 * spread}%, ${runs} of each, ${statistic}: % passed`,
            bound,
            MOST_BETWEEN,
          ),
        );
    }),
  );
}

/** With p95:10% alone, no release passes whose slowest 5% time out, and one fails whose slowest 10% do. */
function timeoutChecks(log: Log, releases: number): Check[] {
  const line = (name: string, { passed, failed }: Outcomes): void =>
    log(`${name.padEnd(54)} passed ${passed.toFixed(1)}%, failed ${failed.toFixed(1)}%`);
  return [
    ...TIMEOUTS.second.flatMap((share) => {
      const name = `${100 * share}% time out in the second run`;
      const found = timingOut(releases, [0, share]);
      line(name, found);
      return [
        atMost(`${name}: % passed`, found.passed, 0),
        ...(share < 0.1 ? [] : [atLeast(`${name}: % failed`, found.failed, 100)]),
      ];
    }),
    ...TIMEOUTS.both.map((share) => {
      const name = `${100 * share}% time out in both runs`;
      const found = timingOut(releases, [share, share]);
      line(name, found);
      return atMost(`${name}: % passed`, found.passed, 0);
    }),
  ];
}

const percent = (count: number, { releases }: Cell): number => (100 * count) / releases;

const HEADER = `${'releases'.padEnd(54)}${['pairs', 'passed', 'failed', 'cannot tell'].map((name) => name.padStart(12)).join('')}`;

const line = (cell: Cell): string =>
  `${`${cell.shape}: ${cell.threshold}`.padEnd(54)}${[
    String(cell.pairs),
    ...[cell.passed, cell.failed, cell['cannot-tell']].map((count) => `${percent(count, cell).toFixed(1)}%`),
  ]
    .map((text) => text.padStart(12))
    .join('')}`;

const worstOf = (cells: readonly Cell[], pick: (cell: Cell) => number): number =>
  Math.max(...cells.map((cell) => percent(pick(cell), cell)));

function checksOf(atBound: readonly Cell[], unchanged: readonly Cell[]): Check[] {
  const name = ({ shape, threshold }: Cell): string => `${shape}: ${threshold}`;
  const eachRow = (cells: readonly Cell[], check: (name: string, row: readonly Cell[]) => Check): Check[] =>
    [...Map.groupBy(cells, name)].map(([row, found]) => check(row, found));
  return [
    ...eachRow(atBound, (row, cells) =>
      atMost(
        `at the bound, ${row}: % passed at the worst size`,
        worstOf(cells, ({ passed }) => passed),
        MOST_AT_BOUND,
      ),
    ),
    ...eachRow([...atBound, ...unchanged], (row, cells) =>
      atMost(
        `within the bound, ${row}: % failed at the worst size`,
        worstOf(cells, ({ failed }) => failed),
        MOST_AT_BOUND,
      ),
    ),
  ];
}

/** What holds of plans from pilots that are long enough for one. */
const planChecks = (planned: readonly Planned[]): Check[] =>
  planned
    // The mean of a long tail has no plan that holds: most releases lack the few values that a pilot has.
    .filter(({ name, told }) => told > 25 && !/long tail.*:mean:/.test(name))
    .flatMap(({ name, pilot, holds, near }) => [
      atLeast(`plans of ${name}, pilots of ${pilot}: % whose range holds the size`, holds, FEWEST_PLANS),
      ...(/(?<!80% load.*):p50:/.test(name) && pilot > 1000
        ? [atLeast(`plans of ${name}, pilots of ${pilot}: % within a factor of two`, near, FEWEST_PLANS)]
        : []),
    ]);

/** What holds where neighbouring requests are alike. Nothing tells of fifty errors in a row that did not happen. */
function checksOfAlike(cells: readonly Cell[]): Check[] {
  return cells
    .filter(({ shape }) => !shape.includes('50 in a row'))
    .flatMap((cell) => {
      const name = `${cell.truth}, ${cell.shape}: ${cell.threshold}, ${cell.pairs} pairs`;
      if (cell.truth === 'at the bound')
        return [atMost(`${name}: % passed`, percent(cell.passed, cell), MOST_ALIKE.passed)];
      const fewest = FEWEST_ALIKE.find(([cells]) => cell.pairs === 3000 && cells.test(name))?.[1];
      return [
        atMost(`${name}: % failed`, percent(cell.failed, cell), MOST_ALIKE.failed),
        ...(fewest === undefined ? [] : [atLeast(`${name}: % passed`, percent(cell.passed, cell), fewest)]),
      ];
    });
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const releases = numberFlag(flags, 'releases', RELEASES);
  const rows = (title: string, cellsOf: (shape: Shape) => Cell[], shapes: readonly Shape[] = SHAPES): Cell[] => {
    log(`\n${title}\n${HEADER}`);
    return shapes.flatMap((shape) => {
      const cells = cellsOf(shape);
      for (const cell of cells) log(line(cell));
      return cells;
    });
  };
  const atBound = rows('Worse by exactly the bound:', (shape) => simulated(shape, 'at the bound', releases));
  // Other latencies say little more here.
  const unchanged = rows('Unchanged:', (shape) =>
    /two kinds|long tail/.test(shape.name) ? [] : simulated(shape, 'unchanged', releases),
  );
  log(
    `\nPlans: pilots that are long enough, of these the range holds the size, and the middle is within a factor of two`,
  );
  const planned = [...SHAPES, ...GAPS, ...ALIKE.slice(0, 2)].flatMap((shape) => {
    const found = plannedCells(
      shape,
      Math.max(100, releases / PLANS.share),
      PLANS.pairs,
      Math.min(PLANS.pilots, releases),
    );
    for (const { name, truth, pilot, told, holds, near } of found) {
      const facts = [told, holds, near].map((percent) => `${percent.toFixed(0)}%`.padStart(6)).join('');
      log(`${name.padEnd(54)} ${String(truth).padStart(7)} from ${String(pilot).padStart(6)}${facts}`);
    }
    return found;
  });
  const alike = rows(
    'Neighbouring requests are alike: at the bound, then unchanged:',
    (shape) =>
      (['at the bound', 'unchanged'] as const).flatMap((truth) => simulated(shape, truth, releases, ALIKE_SIZES)),
    [...ALIKE, ...ERRORS_IN_ROWS],
  );
  const runs = [
    ...timeoutChecks(log, Math.ceil(releases / TIMEOUTS.share)),
    ...betweenChecks(log, Math.ceil(releases / BETWEEN.share)),
  ];
  const passes = worstOf(atBound, ({ passed }) => passed);
  return {
    ratio: round(MOST_AT_BOUND / passes),
    ours: { 'at the bound, passed in the worst cell, %': round(passes) },
    peer: { 'at most, %': MOST_AT_BOUND },
    checks: [...checksOf(atBound, unchanged), ...planChecks(planned), ...checksOfAlike(alike), ...runs],
    notes: [
      `${releases} simulated releases in each of ${atBound.length + unchanged.length} cells of ${SIZES.join(', ')} pairs; the table is on standard error`,
      `plans are from ${PLANS.pilots} pilots of ${PLANS.pairs.join(' and ')} pairs; the range is to hold the size at which 80% pass in 90%`,
    ],
  };
}

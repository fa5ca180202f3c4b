/** The short form of `npm run bench -- gate`: how often the gate decides wrongly on simulated releases. */
import { type Cell, plannedCells, simulated } from '../../../../bench/gate-support/cells.ts';
import { SHAPES, type Shape } from '../../../../bench/gate-support/releases.ts';
import { ALIKE, ERRORS_IN_ROWS } from '../../../../bench/gate-support/sequences.ts';

const RELEASES = 200;
const SIZES = [20, 100, 300];
/** What 5% may be in so many releases: four standard errors more. */
const MOST_WRONG = RELEASES * (0.05 + 4 * Math.sqrt((0.05 * 0.95) / RELEASES));

const shapes = SHAPES.filter(({ name }) => !/two kinds|long tail/.test(name));
const cellName = ({ threshold, pairs }: Cell): string => `${threshold} at ${pairs} pairs`;

test.each(shapes.map((shape): [string, Shape] => [shape.name, shape]))(
  '%s: a release at the bound rarely passes, nor fails, at any size',
  (_, shape) => {
    const cells = simulated(shape, 'at the bound', RELEASES, SIZES, false);
    expect(cells.filter(({ passed }) => passed > MOST_WRONG).map(cellName)).toEqual([]);
    expect(cells.filter(({ failed }) => failed > MOST_WRONG).map(cellName)).toEqual([]);
  },
);

describe('where neighbouring requests are alike', () => {
  const RUNS = 100;
  /** 8 and 6 of 100, and four standard errors. */
  const [MOST_PASSED, MOST_FAILED] = [19, 16];
  const cellsOf = (shape: Shape, truth: Cell['truth'], pairs: number): Cell[] =>
    simulated(shape, truth, RUNS, [pairs], false);

  // Where neighbours are less alike, less can be wrong.
  const mostAlike = ALIKE.filter(({ name }) => /80% load|rho 0.9/.test(name));

  test.each([...mostAlike, ...ERRORS_IN_ROWS].map((shape): [string, Shape] => [shape.name, shape]))(
    '%s: a release at the bound rarely passes, and an unchanged one rarely fails',
    (_, shape) => {
      expect(cellsOf(shape, 'at the bound', 1000).filter(({ passed }) => passed > MOST_PASSED)).toEqual([]);
      expect(cellsOf(shape, 'unchanged', 1000).filter(({ failed }) => failed > MOST_FAILED)).toEqual([]);
    },
  );

  test('the answer is not always "cannot tell"', () => {
    const [, queue] = ALIKE;
    const [, p95, mean] = simulated(queue as Shape, 'unchanged', 40, [3000], false);
    expect(p95?.passed).toBeGreaterThan(12);
    expect(mean?.passed).toBeGreaterThan(30);
  });
});

test('unchanged releases of the planned size pass in about 80%, counts and latencies', () => {
  const [slower, judged] = ['slower everything, log-normal', 'worse by judge'].map(
    (name) => shapes.find((shape) => shape.name === name) as Shape,
  );
  const p50 = { ...(slower as Shape), thresholds: ['request_latency:p50:20%'] };
  for (const cell of [p50, judged as Shape].flatMap((shape) => plannedCells(shape, 200, 500, 2))) {
    expect(cell.passed / cell.releases).toBeGreaterThan(0.7);
  }
});

test('the same seed simulates the same releases', () => {
  const [shape] = shapes;
  const cells = () => simulated(shape as Shape, 'unchanged', 20, [100], false);
  expect(cells()).toEqual(cells());
});

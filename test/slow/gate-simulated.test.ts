/** The short form of `npm run bench -- gate`: how often the gate decides wrongly on simulated releases. */
import { type Cell, plannedCells, simulated } from '../../bench/gate-support/cells.ts';
import { SHAPES, type Shape } from '../../bench/gate-support/releases.ts';

const RELEASES = 200;
const SIZES = [20, 100, 300];
/** What 5% may be in this number of releases: four standard errors more. */
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

test('unchanged releases of the planned size pass in about 80%, counts and latencies', () => {
  const [slower, judged] = ['slower everything, log-normal', 'worse by judge'].map(
    (name) => shapes.find((shape) => shape.name === name) as Shape,
  );
  const p50 = { ...(slower as Shape), thresholds: ['request_latency:p50:20%'] };
  for (const cell of [p50, judged as Shape].flatMap((shape) => plannedCells(shape, 200, 500, 2))) {
    expect(cell.passed / cell.releases).toBeGreaterThan(0.7);
  }
});

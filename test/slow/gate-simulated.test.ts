/** The short form of `npm run bench -- gate`: how often the gate decides wrongly on simulated releases. */
import { type Cell, plannedCells, simulated } from '../../bench/gate-support/cells.ts';
import { SHAPES, type Shape } from '../../bench/gate-support/releases.ts';
import { ALIKE } from '../../bench/gate-support/sequences.ts';

const RELEASES = 200;
const SIZES = [20, 100, 300];
/** What 5% may be in this number of releases: four standard errors more. */
const MOST_WRONG = RELEASES * (0.05 + 4 * Math.sqrt((0.05 * 0.95) / RELEASES));

const shapes = SHAPES.filter(({ name }) => !/two kinds|long tail/.test(name));
const cellName = ({ threshold, pairs }: Cell): string => `${threshold} at ${pairs} pairs`;

test.each(shapes.map((shape): [string, Shape] => [shape.name, shape]))(
  '%s: a release at the bound rarely passes, nor fails, at any size',
  (_, shape) => {
    const cells = simulated(shape, 'at the bound', RELEASES, SIZES);
    expect(cells.filter(({ passed }) => passed > MOST_WRONG).map(cellName)).toEqual([]);
    expect(cells.filter(({ failed }) => failed > MOST_WRONG).map(cellName)).toEqual([]);
  },
);

test('the range of a plan holds the size at which 80% pass, of counts and of waits in a queue', () => {
  const [judged, queue] = [...SHAPES, ...ALIKE].filter(({ name }) => /worse by judge|queue at 60%/.test(name)) as [
    Shape,
    Shape,
  ];
  const p50 = { ...queue, thresholds: ['request_latency:p50:10%'] };
  for (const found of [judged, p50].flatMap((shape) => plannedCells(shape, RELEASES, [2000], 30))) {
    expect(found.told).toBeGreaterThan(90);
    expect(found.holds).toBeGreaterThan(80);
    expect(found.near).toBeGreaterThan(80);
  }
});

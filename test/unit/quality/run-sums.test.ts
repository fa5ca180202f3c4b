/** The counts of a run, and of hours together: bounded, whatever captures say. */
import { sumOfCells } from '../../../src/quality/counts-store.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';

test('a run is counted by variant, continues where an invocation stopped, and has a bounded size whatever captures say', () => {
  const sums = new RunSums();
  const names = (n: number) => Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${n} ${at}`, 1]));
  for (let n = 0; n < 30; n += 1) sums.add({ '2026-11-20T10': { [`v${n}`]: { captures: 1, errorKinds: names(n) } } });
  const next = new RunSums();
  next.restore(JSON.parse(JSON.stringify(sums)));
  next.add({ '2026-11-20T09': { v0: { captures: 1, errorKinds: names(31) } } });
  const { first, variants } = next;
  expect([first, Object.keys(variants).length]).toEqual(['2026-11-20T09', 21]);
  expect(variants).toMatchObject({ v0: { captures: 2 }, v19: { captures: 1 }, '(other)': { captures: 10 } });
  for (const { captures = 0, errorKinds = {} } of Object.values(variants)) {
    expect(Object.keys(errorKinds)).toHaveLength(50);
    expect(Object.values(errorKinds).reduce((sum, count) => sum + count)).toBe(50 * captures);
  }
});

test('adds cells up to a sum that is bounded, whatever captures say in each hour', () => {
  const names = (n: number) => Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${n} ${at}`, 1]));
  const cells = Array.from({ length: 48 }, (_, n) => ({ cell: { errorKinds: names(n) } }));
  const { errorKinds = {} } = sumOfCells(cells);
  expect(Object.keys(errorKinds)).toHaveLength(50);
  expect(errorKinds['(other)']).toBe(48 * 50 - 49);
});

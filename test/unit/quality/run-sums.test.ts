/** The counts of a run, and of hours together: bounded, whatever captures say. */
import { sumOfCells } from '../../../src/quality/counts-store.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';

test('a run counts a bounded number of hours, continues where an invocation stopped, and says what is missing', () => {
  const sums = new RunSums();
  const hour = (n: number) => new Date(Date.UTC(2000, 0, 1) + n * 3_600_000).toISOString().slice(0, 13);
  for (let n = 0; n < 50_000; n += 1) sums.add({ [hour(n)]: { Blue: { captures: 1 } } });
  expect(Object.keys(sums.counts)).toHaveLength(20_000);
  const next = new RunSums();
  next.restore(JSON.parse(JSON.stringify(sums)));
  next.add({ [hour(50_000)]: { Blue: { captures: 1 } }, [hour(0)]: { Blue: { captures: 1 } } });
  expect(next.counts[hour(0)]).toEqual({ Blue: { captures: 2 } });
  expect(next.warnings()).toEqual([expect.stringMatching(/^30001 captures are in no counts/)]);
  const days = new RunSums();
  for (let n = 0; n < 2_000; n += 1) days.add({ [hour(24 * n)]: { Blue: { captures: 1 } } });
  expect(Object.keys(days.counts)).toHaveLength(1_100);
});

test('adds cells up to a sum that is bounded, whatever captures say in each hour', () => {
  const names = (n: number) => Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${n} ${at}`, 1]));
  const cells = Array.from({ length: 48 }, (_, n) => ({ cell: { errorKinds: names(n) } }));
  const { errorKinds = {} } = sumOfCells(cells);
  expect(Object.keys(errorKinds)).toHaveLength(50);
  expect(errorKinds['(other)']).toBe(48 * 50 - 49);
});

test('a run whose captures make up very many names keeps few of each kind from then on, and loses no count', () => {
  const sums = new RunSums();
  const hourAt = (index: number): string => new Date(index * 3_600_000).toISOString().slice(0, 13);
  const namesOf = (index: number) =>
    Object.fromEntries(Array.from({ length: 50 }, (_, name) => [`${index}-${name}`, 1]));
  for (let index = 0; index < 10_100; index += 1) {
    sums.add({ [hourAt(index)]: { A: { captures: 50, errorKinds: namesOf(index) } } });
  }
  const kindsAt = (index: number) => Object.values(sums.counts[hourAt(index)]?.A?.errorKinds ?? {});
  expect(kindsAt(0)).toHaveLength(50);
  expect(kindsAt(10_099)).toHaveLength(10);
  expect(kindsAt(10_099).reduce((total, count) => total + count, 0)).toBe(50);
});

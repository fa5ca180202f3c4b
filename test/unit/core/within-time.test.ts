/** Tests of the time limit for synchronous work. */
import { isOutOfTime, timeOf, withinTime, withinTogether } from '../../../src/core/process/within-time.ts';

const thrownBy = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    return error;
  }
};

test('returns the result of the work, and throws its errors', () => {
  const fault = new TypeError('a fault of the work');
  expect(withinTime(1_000, () => ({ kept: true }))).toEqual({ kept: true });
  expect(
    thrownBy(() =>
      withinTime(1_000, () => {
        throw fault;
      }),
    ),
  ).toBe(fault);
});

test.each<[string, () => unknown]>([
  ['a loop', () => thrownBy(() => endless()) ?? 'it ended'],
  ['a regular expression', () => /^(a+)+$/.test(`${'a'.repeat(60)}b`)],
])('interrupts %s that does not end, and works afterwards', (_, work) => {
  expect(isOutOfTime(thrownBy(() => withinTime(20, work)))).toBe(true);
  expect(withinTime(1_000, () => withinTime(1_000, () => 'inner'))).toBe('inner');
});

test('parts share their time: after it is used up, none starts', () => {
  const within = withinTogether(50);
  expect(within('the first', () => 1)).toBe(1);
  const message = 'the second took the rest of 0.05 s';
  expect(thrownBy(() => within('the second', endless))).toMatchObject({ name: 'OutOfTime', message });
  expect(isOutOfTime(thrownBy(() => within('the third', () => 1)))).toBe(true);
  const fault = new TypeError('a fault of the work');
  const broken = (): never => {
    throw fault;
  };
  expect(thrownBy(() => withinTogether(1_000)('the first', broken))).toBe(fault);
});

test('content is watched if it is large: as captured, uncompressed, or with the rest of its line', () => {
  const small = { bytes: 30_000, text: 'x'.repeat(30_000) };
  expect(timeOf({ request: small })).toBe(Number.POSITIVE_INFINITY);
  expect(timeOf({})).toBe(Number.POSITIVE_INFINITY);
  const mib = 1024 ** 2;
  const large = [
    timeOf({ request: { bytes: mib } }),
    timeOf({ response: { bytes: 1_000, text: 'x'.repeat(mib) } }),
    timeOf({ request: small, response: small }, mib),
  ];
  expect(large).toEqual([6_000, 6_000, 6_000]);
  expect(timeOf({ request: { bytes: 40_000 }, response: { bytes: 40_000 } })).toBeLessThan(6_000);
  expect(withinTime(Number.POSITIVE_INFINITY, () => 'not watched')).toBe('not watched');
});

function endless(): void {
  let at = 0;
  while (at >= 0) at = (at + 1) % 1_000;
}

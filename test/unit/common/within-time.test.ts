import { isOutOfTime, withinTime } from '../../../lambda/common/within-time.ts';

const thrownBy = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    return error;
  }
};

test('gives what the work gives, and throws what it throws', () => {
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
])('breaks off %s that does not end, and works again behind it', (_, work) => {
  expect(isOutOfTime(thrownBy(() => withinTime(20, work)))).toBe(true);
  expect(withinTime(1_000, () => withinTime(1_000, () => 'inner'))).toBe('inner');
});

function endless(): void {
  let at = 0;
  while (at >= 0) at = (at + 1) % 1_000;
}

import { sum } from '../../../src/core/values/sum.ts';
import {
  chanceOfFile,
  chanceOfLateFile,
  chanceOfRules,
  type DayDraws,
  type DayKnown,
} from '../../../src/quality/day-quota.ts';

const hours = (of: (hour: number) => number): number[] => Array.from({ length: 24 }, (_, hour) => of(hour));
const nothing = { lines: hours(() => 0), draws: hours(() => 0) };
/** A day with this many captures in each hour before `end`, drawn at a chance. */
const until = (end: number, lines: number, chance: number): DayDraws => ({
  lines: hours((hour) => (hour < end ? lines : 0)),
  draws: hours((hour) => (hour < end ? lines * chance : 0)),
});
const weeks = [hours(() => 400), hours(() => 440)];
const known = (more: Partial<DayKnown> = {}): DayKnown => ({ number: 1000, today: nothing, weeks, ...more });

describe('chanceOfFile', () => {
  test.each<[string, { hour: number; lines: number }, Partial<DayKnown>, number]>([
    ['the quota by the captures of the same hours of the last weeks', { hour: 0, lines: 7 }, {}, 0.11],
    [
      'no more than the share after hours that drew less',
      { hour: 12, lines: 7 },
      { today: until(12, 420, 0.01) },
      0.11,
    ],
    ['a day that overdrew keeps 0.6 of the share', { hour: 12, lines: 7 }, { today: until(12, 420, 0.2) }, 0.063],
    ['the first file of all', { hour: 9, lines: 700 }, { weeks: [] }, 0.063],
    ['a file of 20 times the hour draws its quota', { hour: 5, lines: 8400 }, {}, 0.0046],
    ['four hours of tenfold traffic', { hour: 4, lines: 70 }, { today: until(4, 4200, 0.01) }, 0.0093],
    ['two hours of it may be a burst', { hour: 2, lines: 70 }, { today: until(2, 4200, 0.01) }, 0.11],
    ['an outage shows nothing', { hour: 8, lines: 7 }, { today: until(5, 420, 0.1) }, 0.11],
    ['the money left pays for a fourth of the day', { hour: 0, lines: 7 }, { affordable: 250 }, 0.026],
    ['no money', { hour: 0, lines: 7 }, { affordable: 0 }, 0],
    [
      'an hour that never had captures',
      { hour: 3, lines: 50 },
      { weeks: [hours((hour) => (hour > 8 ? 99 : 0))] },
      0.11,
    ],
  ])('%s', (_name, file, more, chance) => {
    expect(chanceOfFile(file, known(more))).toBe(chance);
  });

  test('an hour’s chance is halved for each quota that it has drawn', () => {
    const drawn = (draws: number) => ({ ...nothing, draws: hours((hour) => (hour === 3 ? draws : 0)) });
    const chances = [0, 41, 42, 85, 130].map((draws) =>
      chanceOfFile({ hour: 3, lines: 1 }, known({ today: drawn(draws) })),
    );
    expect(chances).toEqual([0.11, 0.11, 0.053, 0.026, 0.013]);
  });

  test.each<[string, readonly number[], number, readonly (readonly number[])[]]>([
    ['a burst of 20 times in the last hour', hours((hour) => (hour === 23 ? 8400 : 420)), 7, weeks],
    ['a burst over two hours', hours((hour) => (hour === 11 || hour === 12 ? 4400 : 420)), 7, weeks],
    ['tenfold overnight, files of 700', hours(() => 4200), 700, weeks],
    ['a first day of 100,000', hours(() => 4200), 70, []],
    ['a small number in the nights', hours((hour) => (hour < 12 ? 20 : 800)), 20, []],
  ])('%s: the day keeps to its number, and each hour has draws', (_name, captures, size, of) => {
    for (const number of [100, 1000]) {
      const today = { lines: hours(() => 0), draws: hours(() => 0) };
      for (const [hour, all] of captures.entries()) {
        for (let left = all; left > 0; left -= size) {
          const lines = Math.min(size, left);
          const chance = chanceOfFile({ hour, lines }, { number, today, weeks: of });
          today.lines[hour] = (today.lines[hour] ?? 0) + lines;
          today.draws[hour] = (today.draws[hour] ?? 0) + lines * chance;
        }
      }
      expect(sum(today.draws)).toBeLessThanOrEqual(1.1 * number);
      expect(Math.min(...today.draws)).toBeGreaterThanOrEqual(number / 500);
    }
  });
});

test('late files share a quarter of the number', () => {
  let drawn = 0;
  for (let n = 0; n < 100; n += 1) {
    drawn += 700 * chanceOfLateFile(700, { number: 1000 }, drawn);
  }
  expect(drawn).toBeGreaterThan(200);
  expect(drawn).toBeLessThanOrEqual(251);
  expect(chanceOfLateFile(10, { number: 1000 }, 0)).toBe(1);
});

test.each<[string, number, { lines: number; matched: number; drawn: number }, number]>([
  ['all of a small first file', 20, { lines: 0, matched: 0, drawn: 0 }, 1],
  ['a quarter of the number, of a large first file', 8400, { lines: 0, matched: 0, drawn: 0 }, 0.031],
  ['what is left by what rules are expected to choose', 7, { lines: 5040, matched: 1512, drawn: 125 }, 0.088],
  ['a rule that chooses hardly any', 7, { lines: 5040, matched: 5, drawn: 5 }, 1],
])('rules: %s', (_name, lines, rules, chance) => {
  const today = rules.lines > 0 ? until(12, 420, 0.1) : nothing;
  expect(chanceOfRules({ hour: 12, lines }, known({ today }), rules)).toBe(chance);
});

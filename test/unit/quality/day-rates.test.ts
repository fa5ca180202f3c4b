/** Rates of days on which the chance to be judged differs by hour, beside the truth. */

import type { QualityCell, QualityCounts, SampleCounts } from '../../../src/core/contract/quality.ts';
import { Random } from '../../../src/core/values/random.ts';
import { sum } from '../../../src/core/values/sum.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { type CountedCell, cellsOf } from '../../../src/quality/counts-store.ts';
import { differencesOf, groupRates, type Rate } from '../../../src/quality/rates.ts';
import { representedText } from '../../../src/quality/rates-text.ts';

const window = { fromMs: Date.parse('2026-11-20'), toMs: Date.parse('2026-11-21') };
const query = { window, active: scorersFor(), scorers: ['safety'] };
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const verdicts = (captures: number, judged: number, yes: number): SampleCounts => {
  return { captures, values: { yes, no: judged - yes } };
};

/** The strata of an hour, and the number of captures without a verdict by reason. */
type Hour = [safety: Record<string, SampleCounts>, without?: Record<string, number>];
const dayOf = (cellOf: (hour: number) => Hour): CountedCell[] => {
  const hours = HOURS.map((hour): [string, QualityCounts[string]] => {
    const [safety, without = {}] = cellOf(hour);
    const cell: QualityCell = { scorers: { safety }, notJudged: { safety: without } };
    return [`2026-11-20T${String(hour).padStart(2, '0')}`, { Blue: cell }];
  });
  return cellsOf(Object.fromEntries(hours));
};

type Found = Pick<Rate, 'represented' | 'gaps' | 'captures' | 'n'> & { value: number; low: number; high: number };
function rateOf(cells: CountedCell[]): Found {
  const rate = groupRates(cells, query)[0]?.rates[0];
  return { ...rate, ...rate?.judge } as Found;
}
const holds = ({ low, high }: Pick<Found, 'low' | 'high'>, truth: number): boolean => low <= truth && truth <= high;

/** 10,000 captures, at noon four times as many as at midnight. */
const LIKE_A_DAY = HOURS.map((hour) => Math.round(417 * (1 - 0.6 * Math.cos((hour / 12) * Math.PI))));
const NOON = [0.98, 0.6];

/** Draws a day. @param octaves within which the chance differs by hour @param rule the share that a rule chooses */
function drawnDay(random: Random, { good = [0.98, 0.98], octaves = 0, rule = 0, chance = 0.1, captures = LIKE_A_DAY }) {
  const all = { captures: 0, good: 0 };
  const drawn = (count: number, p: number, share: number): SampleCounts => {
    const judged = random.binomial(count, share);
    const yes = random.binomial(judged, p);
    all.captures += count;
    all.good += yes + random.binomial(count - judged, p);
    return verdicts(count, judged, yes);
  };
  const cells = dayOf((hour) => {
    const share = Math.min(1, chance * 2 ** Math.round(octaves * (random.next() - 0.5)));
    const [n = 0, p = 0] = [captures[hour], good[hour < 12 ? 0 : 1]];
    const ruled = Math.round(n * rule);
    return [{ [share]: drawn(n - ruled, p, share), ...(ruled > 0 && { always: drawn(ruled, 0.5, 1) }) }];
  });
  return { cells, truth: all.good / all.captures };
}

test.each<[string, Parameters<typeof drawnDay>[1]]>([
  ['that get worse at noon', { good: [0.98, 0.8] }],
  ['that get much worse at noon, with a chance by hour', { good: NOON, octaves: 4 }],
  ['that get much worse at noon, of which some hours have few verdicts', { good: NOON, octaves: 6, chance: 0.05 }],
  ['of which a rule chooses a tenth', { good: NOON, octaves: 3, rule: 0.1 }],
  ['of which 1 in 100 fails', { good: [0.99, 0.99], octaves: 2 }],
  ['of a small endpoint', { good: NOON, octaves: 2, captures: HOURS.map(() => 40) }],
])('intervals hold the share of days %s, and its changes', (_, options) => {
  const random = new Random(7);
  const days = Array.from({ length: 300 }, () => drawnDay(random, options));
  const rates = days.map(({ cells, truth }) => ({ ...rateOf(cells), truth }));
  expect(rates.filter((rate) => holds(rate, rate.truth)).length).toBeGreaterThanOrEqual(0.93 * 300);
  expect(Math.abs(sum(rates.map(({ value, truth }) => value - truth))) / 300).toBeLessThan(0.005);
  expect(rates.every(({ represented }) => represented === undefined)).toBe(true);
  const changes = days.slice(1).filter(({ cells, truth }, n) => {
    const [change] = differencesOf(days[n]?.cells ?? [], cells, query);
    return change && holds(change, truth - (days[n]?.truth ?? 0));
  });
  expect(changes.length).toBeGreaterThanOrEqual(0.93 * 299);
});

test('24 hours of one chance have the interval of their sum', () => {
  const unanimous = rateOf(dayOf(() => [{ 0.1: verdicts(417, 42, 42) }]));
  expect(unanimous.low).toBeGreaterThanOrEqual(0.9955);
  for (const good of [1, 0.97, 0.8]) {
    const { cells } = drawnDay(new Random(3), { good: [good, good] });
    const { n, value, low, high } = rateOf(cells);
    const whole = rateOf(dayOf((hour) => [{ 0.1: hour === 0 ? verdicts(10_000, n, n * value) : {} }]));
    expect(Math.abs(low - whole.low)).toBeLessThan(0.001);
    expect(Math.abs(high - whole.high)).toBeLessThan(0.001);
  }
});

test('captures that no verdict represents are named, and may have any', () => {
  // Of 10,008 captures the budget paid for 1,050, until 02:31: 98% of them pass, and 60% of the others.
  const judged = [417, 417, 216];
  const ended = (hour: number): Hour => {
    const n = judged[hour] ?? 0;
    return [{ 1: verdicts(417, n, Math.round(0.98 * n)) }, { held: 417 - n }];
  };
  const rate = rateOf(dayOf(ended));
  expect(rate).toMatchObject({ captures: 10_008, n: 1050, represented: expect.closeTo(1050 / 10_008, 9) });
  expect([holds(rate, 0.64), rate.low < 0.11, rate.high > 0.99]).toEqual([true, true, true]);
  const text = ', of 10.5% of the captures; nothing judged 2026-11-20 03:00 to 2026-11-21 00:00 UTC';
  expect(representedText(rate)).toBe(text);
  // A variant that was never judged is not like the other.
  const green = dayOf(() => [{ 0.01: { captures: 417 } }]).map((one) => ({ ...one, variant: 'Green' }));
  expect(rateOf([...dayOf(() => [{ 1: verdicts(417, 417, 400) }]), ...green]).represented).toBe(0.5);
  // Both days could have been all good but for the captures that were judged: what is not known adds up.
  const [change] = differencesOf(dayOf(ended), dayOf(ended), query);
  expect(change).toMatchObject({ low: expect.closeTo(-0.898, 2), high: expect.closeTo(0.898, 2) });
});

const GAP = [{ from: '2026-11-20T14:00:00.000Z', to: '2026-11-20T19:00:00.000Z' }];
test.each<[string, Hour, number]>([
  ['20 verdicts were expected', [{ 0.2: { captures: 100 } }], 1900],
  ['the chance was 0', [{ 0: { captures: 100 } }], 1900],
  ['the judge failed', [{ 0.01: { captures: 100 } }, { failed: 1 }], 1900],
  ['chance left none', [{ 0.01: { captures: 100 } }], 2400],
  ['some failed', [{ 0.2: verdicts(100, 18, 18) }, { failed: 2 }], 2400],
  ['half was held', [{ 0.2: verdicts(100, 10, 10) }, { held: 10 }], 2150],
  ['all but those of a rule were held', [{ 0.2: { captures: 50 }, always: verdicts(50, 50, 25) }, { held: 10 }], 2150],
])('an hour has a gap if verdicts are missing that were due: %s', (_, inGap, represented) => {
  const rate = rateOf(dayOf((hour) => (hour >= 14 && hour < 19 ? inGap : [{ 0.2: verdicts(100, 20, 20) }])));
  expect(rate.captures).toBe(2400);
  expect(rate.represented).toEqual(represented < 2400 ? expect.closeTo(represented / 2400, 9) : undefined);
  expect(rate.gaps).toEqual(represented === 1900 ? GAP : undefined);
});

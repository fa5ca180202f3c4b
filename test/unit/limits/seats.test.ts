/** The seats of functions and of their calls, with many functions in one process and its timers advanced. */

import { Random } from '../../../src/core/values/random.ts';
import { AdaptiveLimiter } from '../../../src/judge/calls/limiter.ts';
import { type CallLimit, seatWait, TableSeats } from '../../../src/limits/seats.ts';
import { BudgetTable } from '../../../src/limits/table.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';

const NOON = Date.UTC(2026, 10, 20, 12);
let table: MemoryTable;
beforeEach(() => {
  jest.useFakeTimers({ now: NOON });
  table = new MemoryTable();
});
afterEach(() => jest.useRealTimers());

const seatsOf = (functions: number, calls = 0, limit?: CallLimit) =>
  new TableSeats({ table: new BudgetTable(table.client, 't'), functions, calls, limit });
const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);
/** Seats of the window in which we are. */
const taken = (name: string) => table.number(`seats#${Math.floor(Date.now() / 10_000)}`, name);

test('as many functions enter as there are seats, and a seat that is left is free at once', async () => {
  const seats = Array.from({ length: 12 }, () => seatsOf(8));
  const entered = await Promise.all(seats.map((each) => each.enter()));
  expect(entered.filter((each) => each === 'in')).toHaveLength(8);
  await seats[entered.indexOf('in')]?.leave();
  expect(await seatsOf(8).enter()).toBe('in');
  expect(await seatsOf(8).enter()).not.toBe('in');
});

test('those who are sent away do not return together', async () => {
  await seatsOf(1).enter();
  const ranges: number[][] = [];
  let seconds = Array.from({ length: 300 }, () => 0);
  for (let round = 0; round < 12; round += 1) {
    const waits = await Promise.all(seconds.map((waited) => seatsOf(1).enter(waited)));
    seconds = waits.map((each) => (each === 'in' ? 0 : each.waitSeconds));
    ranges.push([Math.min(...seconds), Math.max(...seconds)]);
  }
  expect(ranges[0]).toEqual([3, 4]);
  expect(ranges.at(-1)?.[0]).toBeGreaterThanOrEqual(150);
  expect(ranges.at(-1)?.[1]).toBeLessThanOrEqual(300);
  expect(new Set(seconds).size).toBeGreaterThan(80);
  expect(taken('refusals')).toBe(12 * 300);
});

/** Many wait for few seats, for three hours. @returns refusals a second and the share of the seats in use, in the last two */
function stand(waiting: number, functions: number, busySeconds: number): { refused: number; used: number } {
  const source = new Random(1);
  const random = (): number => source.next();
  const HOURS = 3;
  const come: { at: number; waited: number }[] = Array.from({ length: waiting }, () => ({ at: random(), waited: 0 }));
  const free = Array.from({ length: functions }, () => 0);
  const refusals = new Map<number, number>();
  let [refused, used] = [0, 0];
  for (;;) {
    const next = come.reduce((first, each) => (each.at < first.at ? each : first));
    const { at } = next;
    if (at > HOURS * 3600) return { refused: refused / 7200, used: used / (7200 * functions) };
    const seat = free.findIndex((until) => until <= at);
    if (seat >= 0) {
      free[seat] = at + busySeconds;
      if (at > 3600) used += busySeconds;
      // Another one takes its place in the line.
      Object.assign(next, { at: at + 0.001, waited: 0 });
      continue;
    }
    const window = Math.floor(at / 10);
    refusals.set(window, (refusals.get(window) ?? 0) + 1);
    const counts = { before: refusals.get(window - 1) ?? 0, now: refusals.get(window) ?? 0 };
    const waited = seatWait(next.waited, { ...counts, elapsedMs: (at - window * 10) * 1000 }, random);
    if (at > 3600) refused += 1;
    Object.assign(next, { at: at + waited, waited });
  }
}

test.each([
  [10, 8, 120],
  [300, 8, 120],
  [1000, 90, 60],
])('a line of %i for %i seats asks seldom, and leaves no seat empty', (waiting, functions, busySeconds) => {
  const { refused, used } = stand(waiting, functions, busySeconds);
  console.info(
    `${waiting} wait: ${refused.toFixed(2)} refusals a second, ${(100 * used).toFixed(1)}% of the seats in use`,
  );
  expect(refused).toBeLessThan(5.5);
  expect(used).toBeGreaterThan(0.9);
});

test('a function keeps its seat while it runs, and loses it within two windows of its end by a crash', async () => {
  const running = seatsOf(2);
  const crashed = seatsOf(2);
  await running.enter();
  await crashed.enter();
  for (let window = 0; window < 6; window += 1) {
    await pass(10_000);
    expect(taken('functions')).toBe(2);
    expect(await seatsOf(2).enter()).not.toBe('in');
  }
  // A process that ends has no timers any more. Its seats of this window and the next remain.
  const end = Date.now();
  jest.clearAllTimers();
  jest.setSystemTime(end + 20_000);
  expect(await seatsOf(2).enter()).toBe('in');
});

test('leaving gives back the seats of the next window too', async () => {
  const seats = seatsOf(1, 40, new AdaptiveLimiter());
  await seats.enter();
  await pass(9_500);
  expect([taken('functions'), taken('calls')]).toEqual([1, 32]);
  await seats.leave();
  expect([taken('functions'), taken('calls')]).toEqual([0, 0]);
  await pass(10_000);
  expect([taken('functions'), taken('calls')]).toEqual([0, 0]);
});

test('the timers that calls wait for keep the process alive, until the function leaves', async () => {
  const timers = jest.spyOn(globalThis, 'setTimeout');
  const seats = seatsOf(1, 40, new AdaptiveLimiter());
  await seats.enter();
  await pass(9_500);
  const made = timers.mock.results.map(({ value }) => value as NodeJS.Timeout);
  timers.mockRestore();
  expect(made.map((timer) => timer.hasRef())).toEqual([true, true, true]);
  await seats.leave();
  expect(jest.getTimerCount()).toBe(0);
});

test('calls are shared among the functions, and never more than allowed', async () => {
  const CALLS = 40;
  const limiters = Array.from({ length: 10 }, () => new AdaptiveLimiter());
  const functions = limiters.map((limiter) => seatsOf(20, CALLS, limiter));
  const sum = () => limiters.slice(0, entered).reduce((total, { max }) => total + max, 0);
  let entered = 0;
  for (const seats of functions) {
    expect(await seats.enter()).toBe('in');
    entered += 1;
    for (let second = 0; second < 7; second += 1) {
      await pass(1000);
      expect(sum()).toBeLessThanOrEqual(CALLS);
    }
  }
  await pass(30_000);
  expect(limiters.map(({ max }) => max)).toEqual(limiters.map(() => 4));
  // When others leave, those that stay get their calls.
  await Promise.all(functions.slice(2).map((seats) => seats.leave()));
  await pass(30_000);
  expect(limiters.slice(0, 2).map(({ max }) => max)).toEqual([20, 20]);
});

test('busy functions together never have more calls in flight than allowed, and use them', async () => {
  const CALLS = 40;
  const limits = Array.from({ length: 8 }, () => ({ active: 0, max: 32 }));
  const functions = limits.map((limit) => seatsOf(20, CALLS, limit));
  let entered = 0;
  let most = 0;
  let sum = 0;
  for (let second = 0; second < 150; second += 1) {
    if (second % 8 === 0 && entered < functions.length) {
      expect(await functions[entered]?.enter()).toBe('in');
      entered += 1;
    }
    for (const limit of limits.slice(0, entered)) {
      // A call takes five seconds, and the next one starts as soon as it may.
      limit.active -= Math.ceil(limit.active / 5);
      limit.active = Math.max(limit.active, limit.max);
    }
    sum = limits.slice(0, entered).reduce((total, { active }) => total + active, 0);
    most = Math.max(most, sum);
    await pass(1000);
  }
  expect(most).toBeLessThanOrEqual(CALLS);
  expect(sum).toBeGreaterThanOrEqual(0.9 * CALLS);
  expect(Math.max(...limits.map(({ active }) => active))).toBeLessThanOrEqual(6);
});

test('calls in flight keep their seats until they end', async () => {
  const busy = { active: 30, max: 32 };
  const late = { active: 0, max: 32 };
  await seatsOf(20, 32, busy).enter();
  await seatsOf(20, 32, late).enter();
  expect([busy.max, late.max]).toEqual([32, 0]);
  await pass(30_000);
  // No further call starts above the share, and those in flight count.
  expect(busy.max).toBeLessThanOrEqual(16);
  expect(late.max).toBeLessThanOrEqual(2);
  busy.active = 16;
  await pass(40_000);
  expect([busy.max, late.max]).toEqual([16, 16]);
});

test('no more functions judge than there are calls', async () => {
  const limiter = () => new AdaptiveLimiter();
  expect(await seatsOf(0, 2, limiter()).enter()).toBe('in');
  expect(await seatsOf(0, 2, limiter()).enter()).toBe('in');
  expect(await seatsOf(0, 2, limiter()).enter()).not.toBe('in');
});

test('without limits, or without the table, everybody enters', async () => {
  const limiter = new AdaptiveLimiter();
  expect(await seatsOf(0, 0, limiter).enter()).toBe('in');
  expect(table.requests).toBe(0);
  const failing = { send: () => Promise.reject(new Error('gone')) };
  const seats = new TableSeats({
    table: new BudgetTable(failing as never, 't'),
    functions: 1,
    calls: 8,
    limit: limiter,
  });
  expect(await seats.enter()).toBe('in');
  expect(limiter.max).toBeGreaterThan(0);
  await seats.leave();
  expect(limiter.max).toBe(32);
});

test('a thousand functions write less to an item than one partition takes', async () => {
  const units = new Map<string, number>();
  table.onWrite = (scope, cost) => {
    const key = `${Math.floor(Date.now() / 1000)} ${scope}`;
    units.set(key, (units.get(key) ?? 0) + cost);
  };
  const limiters = Array.from({ length: 1000 }, () => new AdaptiveLimiter());
  for (let second = 0; second < 10; second += 1) {
    for (const limiter of limiters.slice(second * 100, (second + 1) * 100)) {
      expect(await seatsOf(1000, 4000, limiter).enter()).toBe('in');
    }
    await pass(1000);
  }
  await pass(20_000);
  console.info(`${Math.max(...units.values())} units in a second at most`);
  expect(Math.max(...units.values())).toBeLessThan(1000);
  expect(taken('functions')).toBe(1000);
  expect(taken('calls')).toBeLessThanOrEqual(4000);
  expect(limiters.reduce((total, { max }) => total + max, 0)).toBeGreaterThan(3600);
});

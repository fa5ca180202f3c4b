/** The limits over a table in memory; and under a thousand functions: what they write, and how long a line of waiting chunks asks. */
import { Random } from '../../../src/core/values/random.ts';
import { AdaptiveLimiter } from '../../../src/judge/calls/limiter.ts';
import { Budget, dayScope } from '../../../src/limits/budget.ts';
import { TableRateLimit } from '../../../src/limits/rate-limit.ts';
import { TableSemaphore, WINDOW_MS, waitAfterRefusal } from '../../../src/limits/semaphore.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { limitsSuite } from '../../helpers/limits-suite.ts';
import { VirtualClock } from '../../helpers/virtual-clock.ts';

limitsSuite(async () => {
  const table = new MemoryTable();
  const loseReply = (): void => {
    table.lostReplies += 1;
  };
  return { client: table.client, name: 't', requests: () => table.requests, loseReply };
});

/** Many wait for few permits, for three hours. @returns refusals a second and the share of the permits in use, in the last two */
function waitInLine(waiting: number, functions: number, busySeconds: number): { refused: number; used: number } {
  const source = new Random(1);
  const random = (): number => source.next();
  const come: { at: number; waited: number }[] = Array.from({ length: waiting }, () => ({ at: random(), waited: 0 }));
  const free = Array.from({ length: functions }, () => 0);
  const refusals = new Map<number, number>();
  let [refused, used] = [0, 0];
  for (;;) {
    const next = come.reduce((first, each) => (each.at < first.at ? each : first));
    const { at } = next;
    if (at > 3 * 3600) return { refused: refused / 7200, used: used / (7200 * functions) };
    const permit = free.findIndex((until) => until <= at);
    if (permit >= 0) {
      free[permit] = at + busySeconds;
      if (at > 3600) used += busySeconds;
      // Another one takes its place in the line.
      Object.assign(next, { at: at + 0.001, waited: 0 });
      continue;
    }
    const window = Math.floor(at / 10);
    refusals.set(window, (refusals.get(window) ?? 0) + 1);
    const counts = { before: refusals.get(window - 1) ?? 0, now: refusals.get(window) ?? 0 };
    const waited = waitAfterRefusal(next.waited, { ...counts, elapsedMs: (at - window * 10) * 1000 }, random);
    if (at > 3600) refused += 1;
    Object.assign(next, { at: at + waited, waited });
  }
}

describe('under load', () => {
  let memory: MemoryTable;
  let table: LimitsTable;
  let clock: VirtualClock;
  /** Write units by second and item. DynamoDB takes 1,000 a second to an item. */
  let units: Map<string, number>;
  beforeEach(() => {
    memory = new MemoryTable();
    table = new LimitsTable(memory.client, 't');
    clock = new VirtualClock();
    units = new Map();
    memory.onWrite = (scope, cost) => {
      const key = `${Math.floor(clock.now() / 1000)} ${scope}`;
      units.set(key, (units.get(key) ?? 0) + cost);
    };
  });

  afterEach(() => {
    expect(Math.max(0, ...units.values())).toBeLessThan(600);
  });

  test('a thousand functions pay their calls', async () => {
    const budgets = Array.from({ length: 1000 }, () => new Budget({ table, run: 'r', dailyUsd: 1e6, now: clock.now }));
    let paid = 0;
    for (let second = 0; second < 40; second += 1) {
      // Lambda does not start a thousand functions in one second either.
      for (const budget of budgets.slice(0, (second + 1) * 100)) {
        const call = await budget.reserve(0.03);
        if (call !== 'held') await call.settle(0.01);
        paid += 0.01;
      }
      await clock.pass(1000);
    }
    // They do not all end in one second.
    memory.onWrite = undefined;
    await Promise.all(budgets.map((budget) => budget.close()));
    const day = dayScope(clock.now());
    for (const name of ['committed', 'spent']) expect(memory.number(day, name) / 1e9).toBeCloseTo(paid, 6);
    expect(memory.sizeOf(day)).toBeLessThan(1024);
  });

  test('a thousand functions share their permits', async () => {
    const limiters = Array.from({ length: 1000 }, () => new AdaptiveLimiter());
    for (let second = 0; second < 10; second += 1) {
      for (const limit of limiters.slice(second * 100, (second + 1) * 100)) {
        const semaphore = new TableSemaphore({ table, functions: 1000, calls: 4000, limit, clock });
        expect(await semaphore.acquire()).toBe('acquired');
      }
      await clock.pass(1000);
    }
    await clock.pass(20_000);
    const window = `semaphore#${Math.floor(clock.now() / WINDOW_MS)}`;
    expect(memory.number(window, 'functions')).toBe(1000);
    expect(memory.number(window, 'calls')).toBeLessThanOrEqual(4000);
    expect(limiters.reduce((sum, { max }) => sum + max, 0)).toBeGreaterThan(3600);
  });

  test('busy functions together never have more calls in flight than allowed, and use them', async () => {
    const limits = Array.from({ length: 8 }, () => ({ active: 0, max: 32 }));
    let [entered, most, sum] = [0, 0, 0];
    for (let second = 0; second < 150; second += 1) {
      const next = limits[entered];
      if (second % 8 === 0 && next !== undefined) {
        await new TableSemaphore({ table, functions: 20, calls: 40, limit: next, clock }).acquire();
        entered += 1;
      }
      for (const limit of limits.slice(0, entered)) {
        // A call takes five seconds, and the next one starts as soon as it may.
        limit.active = Math.max(limit.active - Math.ceil(limit.active / 5), limit.max);
      }
      sum = limits.slice(0, entered).reduce((total, { active }) => total + active, 0);
      most = Math.max(most, sum);
      await clock.pass(1000);
    }
    expect(most).toBeLessThanOrEqual(40);
    expect(sum).toBeGreaterThanOrEqual(36);
    expect(Math.max(...limits.map(({ active }) => active))).toBeLessThanOrEqual(6);
  });

  test('a thousand functions keep to a rate, and use it', async () => {
    let sent = 0;
    const END = clock.now() + 12_000;
    const functions = Array.from({ length: 1000 }, async (_, index) => {
      await clock.sleep(10 * index);
      const rate = new TableRateLimit({ table, name: 'mlflow', perSecond: 1000, keepMs: 150, shards: 4, clock });
      for (; clock.now() < END; await clock.sleep(10)) {
        await rate.acquire(1);
        if (clock.now() < END) sent += 1;
      }
    });
    await clock.pass(30_000);
    await Promise.all(functions);
    expect(sent).toBeGreaterThan(0.9 * 12_000);
    expect(sent).toBeLessThan(1.1 * 12_000);
  });

  test.each([
    [10, 8, 120],
    [300, 8, 120],
    [1000, 90, 60],
  ])('a line of %i for %i permits asks seldom, and leaves no permit unused', (waiting, functions, busySeconds) => {
    const { refused, used } = waitInLine(waiting, functions, busySeconds);
    expect(refused).toBeLessThan(5.5);
    expect(used).toBeGreaterThan(0.9);
  });
});

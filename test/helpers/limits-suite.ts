/** What the limits promise, over a table of DynamoDB: in memory, and in the emulator. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { Random } from '../../src/core/values/random.ts';
import { AdaptiveLimiter } from '../../src/judge/calls/limiter.ts';
import { TableBreaker } from '../../src/limits/breaker.ts';
import { Budget, type BudgetOptions, dayScope } from '../../src/limits/budget.ts';
import { Lock } from '../../src/limits/lock.ts';
import { TableRateLimit } from '../../src/limits/rate-limit.ts';
import { type CallLimit, TableSemaphore, WINDOW_MS } from '../../src/limits/semaphore.ts';
import { asNumber, type Clock, LimitsTable } from '../../src/limits/table.ts';
import { VirtualClock } from './virtual-clock.ts';

/** A new and empty table. */
export interface TestTable {
  client: DynamoDBClient;
  name: string;
  /** Returns how many requests were sent. */
  requests(): number;
  /** Makes the next write, and loses its reply. */
  loseReply(): void;
  /** Ends when no request is under way. */
  idle?: () => Promise<void>;
}

const noTable = new LimitsTable({ send: () => Promise.reject(new Error('gone')) } as never, 't');

const NOON = Date.UTC(2026, 10, 20, 12);

export function limitsSuite(newTable: () => Promise<TestTable>): void {
  let table: LimitsTable;
  let time: VirtualClock;
  let requests: TestTable['requests'];
  let loseReply: TestTable['loseReply'];
  beforeEach(async () => {
    const { client, name, idle, ...rest } = await newTable();
    ({ requests, loseReply } = rest);
    table = new LimitsTable(client, name);
    time = new VirtualClock(idle);
  });

  /** Lets time pass until the work has ended. */
  async function ended<T>(work: Promise<T>): Promise<T> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    work.then(over, over);
    while (!isOver) await time.pass(50);
    return work;
  }

  describe('a lock', () => {
    const lockOf = (owner: string, aheadMs = 0) =>
      new Lock({ table, owner, clock: { now: () => time.now() + aheadMs, sleep: time.sleep } });
    /** Of a function that is suspended: it does not renew. */
    const suspended = (owner: string) => {
      const sleep = (_ms: number, signal?: AbortSignal) =>
        new Promise<void>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
      return new Lock({ table, owner, clock: { now: time.now, sleep } });
    };
    const nothing = async (): Promise<void> => undefined;
    const isFree = async (scope: string): Promise<boolean> =>
      (await lockOf('looks').acquire(scope)).other === undefined;

    test('is taken if it is free, one’s own, released, or over, with a revision that grows', async () => {
      const [one, other] = [lockOf('one'), lockOf('other')];
      expect(await one.acquire('a')).toEqual({ item: {} });
      expect(await one.acquire('a', 90_000)).toMatchObject({ item: { owner: { S: 'one' } } });
      // Twice in a millisecond.
      expect(asNumber((await table.get('a')).revision)).toBe(time.now() + 1);
      const held = { other: { owner: 'one', untilMs: time.now() + 90_000 } };
      expect(await other.acquire('a')).toEqual(held);
      await one.release('a', { expression: 'SET #fact = :fact', values: { fact: 7 } });
      expect(await other.acquire('a')).toMatchObject({ item: { fact: { N: '7' } } });
      await time.pass(61_000);
      expect(await one.acquire('a')).toMatchObject({ item: { fact: { N: '7' }, owner: { S: 'other' } } });
    });

    test('of a killed function whose clock was an hour ahead does not stay for an hour, and its revision grows', async () => {
      expect(await lockOf('killed', 3_600_000).acquire('a')).toHaveProperty('item');
      expect(await lockOf('next').acquire('a')).toHaveProperty('item');
      expect(asNumber((await table.get('a')).revision)).toBe(time.now() + 3_600_001);
      // A clock that is a little ahead is nothing wrong.
      expect(await lockOf('third', 30_000).acquire('b')).toHaveProperty('item');
      expect(await isFree('b')).toBe(false);
    });

    test('whose owner has lost it changes nothing when it is released, and a release whose reply is lost is made', async () => {
      const [one, other] = [lockOf('one'), lockOf('other')];
      const change = (fact: number) => ({ expression: 'SET #fact = :fact', values: { fact } });
      await one.acquire('a');
      await time.pass(61_000);
      await other.acquire('a');
      await expect(one.release('a', change(1))).rejects.toMatchObject({ name: 'LockLost' });
      loseReply();
      await other.release('a', change(2));
      loseReply();
      expect(await one.acquire('a')).toMatchObject({ item: { fact: { N: '2' } } });
      expect(await isFree('a')).toBe(false);
    });

    test('is held by one of many that need several, and each does its work once for each', async () => {
      const inside = new Set<string>();
      const done: string[] = [];
      const names = ['a', 'b', 'c', 'd', 'e'];
      await ended(
        Promise.all(
          Array.from({ length: 32 }, async (_, owner) => {
            const wanted = names.filter((__, index) => index !== owner % 8);
            await lockOf(`${owner}`).during(wanted, async (items, assertHeld) => {
              for (const name of items.keys()) {
                expect(inside.has(name)).toBe(false);
                inside.add(name);
                done.push(`${owner} ${name}`);
              }
              await time.sleep(100);
              assertHeld();
              for (const name of items.keys()) inside.delete(name);
            });
          }),
        ),
      );
      expect([done.length, new Set(done).size]).toEqual([140, 140]);
    });

    test('is not kept while that of a function that was killed is waited for, which is free after a minute', async () => {
      await lockOf('one').acquire('b');
      const done: string[] = [];
      const waiting = lockOf('two').during(['a', 'b', 'c'], async (items) => void done.push([...items.keys()].join()));
      await ended(lockOf('three').during(['a', 'c'], nothing));
      await time.pass(10_000);
      expect(done).toEqual(['a,c']);
      await time.pass(51_000);
      await ended(waiting);
      expect(done).toEqual(['a,c', 'b']);
      for (const name of 'abc') expect(await isFree(name)).toBe(true);
    });

    test('is renewed while the work lasts, and given back after it', async () => {
      const work = lockOf('one').during(['a'], async (_, assertHeld) => {
        await time.sleep(200_000);
        assertHeld();
      });
      await time.pass(150_000);
      expect(await isFree('a')).toBe(false);
      await ended(work);
      expect(await isFree('a')).toBe(true);
    });

    test('that may be lost is noticed right before a write', async () => {
      let assertHeld = (): void => undefined;
      const late = suspended('late').during(['a'], async (_, assert) => {
        assertHeld = assert;
        await time.sleep(200_000);
      });
      await time.pass(39_000);
      expect(assertHeld).not.toThrow();
      await time.pass(2_000);
      expect(assertHeld).toThrow(expect.objectContaining({ name: 'LockLost' }));
      await time.pass(20_000);
      expect(await lockOf('other').acquire('a', 1_000_000)).toHaveProperty('item');
      await ended(late);
      expect(await lockOf('third').acquire('a')).toMatchObject({ other: { owner: 'other' } });
    });

    test('without it nothing is done, and the wait ends in time', async () => {
      await new Lock({ table, owner: 'x', chunk: 'run/7', clock: time }).acquire('a');
      const work = jest.fn(nothing);
      const inVain = lockOf('two').during(['a'], work, time.now() + 5_000);
      const taken = { name: 'LockTaken', message: expect.stringContaining('run/7') };
      await expect(ended(inVain)).rejects.toMatchObject(taken);
      const gone = new Lock({ table: noTable, owner: 'x', clock: time });
      await expect(gone.during(['a'], work)).rejects.toMatchObject({ name: 'BudgetTableUnavailable' });
      expect(work).not.toHaveBeenCalled();
    });
  });

  describe('a budget', () => {
    const SCOPE = 'run#r';
    const budgetOf = (runUsd: number, more: Partial<BudgetOptions> = {}) =>
      new Budget({ table, run: 'r', runUsd, now: time.now, ...more });
    const inTable = async (scope = SCOPE) => {
      const { committed, spent } = await table.get(scope);
      return { committed: asNumber(committed) / 1e9, spent: asNumber(spent) / 1e9 };
    };
    const held = async (budget: Budget, usd: number) => (await budget.reserve(usd)) === 'held';
    async function reserved(budget: Budget, usd: number) {
      const reservation = await budget.reserve(usd);
      if (reservation === 'held') throw new Error('held');
      return reservation;
    }
    /** Makes calls of at most 0.02 dollars until they are held. @returns what they cost, in dollars */
    async function spend(budget: Budget, atOnce: number): Promise<number> {
      let sum = 0;
      const worker = async (): Promise<void> => {
        for (;;) {
          const call = await budget.reserve(0.02);
          if (call === 'held') return;
          const usd = Math.random() < 0.2 ? 0.02 : 0.001 + Math.random() * 0.01;
          await time.sleep(Math.random() * 200);
          sum += usd;
          await call.settle(usd);
        }
      };
      await Promise.all(Array.from({ length: atOnce }, worker));
      await budget.close();
      return sum;
    }

    test('reserves a call at its worst case, books its cost, and gives the rest back', async () => {
      const budget = budgetOf(1);
      const calls = [await reserved(budget, 0.25)];
      expect((await inTable()).committed).toBe(0.25);
      await calls[0]?.settle(0.125);
      await (await reserved(budget, 0.25)).settle(0.25);
      await budget.close();
      expect(await inTable()).toEqual({ committed: 0.375, spent: 0.375 });
    });

    test('holds a call at once if it does not fit into the budget, and gives returned money to waiting calls', async () => {
      const budget = budgetOf(1);
      const first = await reserved(budget, 0.75);
      const second = budget.reserve(0.5);
      await first.settle(0.25);
      const call = await second;
      expect(call).not.toBe('held');
      if (call !== 'held') await call.settle(0.5);
      expect(await held(budget, 0.5)).toBe(true);
      await budget.close();
      expect(await inTable()).toEqual({ committed: 0.75, spent: 0.75 });
    });

    test('keeps both caps in a race of functions, and leaves little of the smaller one unused', async () => {
      const functions = Array.from({ length: 4 }, () => budgetOf(0.5, { dailyUsd: 5 }));
      const paid = (await ended(Promise.all(functions.map((budget) => spend(budget, 6))))).reduce((a, b) => a + b);
      expect(paid).toBeLessThanOrEqual(0.5);
      expect(paid).toBeGreaterThan(0.5 - 4 * 0.02);
      for (const scope of [SCOPE, dayScope(time.now())]) {
        const { committed, spent } = await inTable(scope);
        expect([committed, spent]).toEqual([spent, expect.closeTo(paid, 6)]);
      }
    });

    test('keeps 16 calls in flight with 20 dollars left, even of an expensive model, and no more of a block', async () => {
      const budget = budgetOf(20);
      let inFlight = 0;
      for (let call = 0; call < 20; call += 1) void budget.reserve(0.08).then(() => (inFlight += 1));
      await time.pass(500);
      expect(inFlight).toBe(16);
      expect((await inTable()).committed).toBeCloseTo(1.28, 9);
    });

    test.each([
      [1, 0.01],
      [32, 0.001],
    ])('of a cap, 20 functions that are killed with %i calls each leave at least half', async (atOnce, mostUsd) => {
      for (let killed = 0; killed < 20; killed += 1) {
        const budget = budgetOf(1);
        for (let call = 0; call < atOnce; call += 1) void budget.reserve(mostUsd);
        await time.pass(500);
      }
      const { committed } = await inTable();
      expect(committed).toBeGreaterThan(0.2);
      expect(committed).toBeLessThanOrEqual(0.5);
      expect(await ended(spend(budgetOf(1), 1))).toBeGreaterThan(0.45);
    });

    test('makes few requests while most of the cap is left', async () => {
      const budget = budgetOf(1000);
      const before = requests();
      for (let call = 0; call < 200; call += 1) await (await reserved(budget, 0.02)).settle(0.005);
      await budget.close();
      expect(requests() - before).toBeLessThanOrEqual(6);
      expect((await inTable()).spent).toBeCloseTo(1, 9);
    });

    test('books a call above its worst case in full, and calls in flight at their worst case when it is closed', async () => {
      const [one, other] = [budgetOf(0.3), budgetOf(0.3)];
      await (await reserved(one, 0.1)).settle(0.13);
      expect((await inTable()).committed).toBe(0.13);
      const late = await reserved(other, 0.1);
      await Promise.all([one.close(), other.close()]);
      await late.settle(0.01);
      expect(await inTable()).toEqual({ committed: 0.23, spent: 0.23 });
    });

    test('begins a new day at midnight (UTC), and books earlier calls on the old one', async () => {
      let now = Date.UTC(2026, 10, 20, 23, 59, 59);
      const budget = new Budget({ table, run: 'r', dailyUsd: 0.1, now: () => now });
      const before = await reserved(budget, 0.1);
      now += 2_000;
      await (await reserved(budget, 0.1)).settle(0.07);
      await before.settle(0.05);
      await budget.close();
      expect([(await inTable('day#2026-11-20')).spent, (await inTable('day#2026-11-21')).spent]).toEqual([0.05, 0.07]);
    });

    test('a cap of 0 dollars a day is no cap, and makes no request', async () => {
      const before = requests();
      const budget = new Budget({ table, run: 'r', dailyUsd: 0 });
      await (await reserved(budget, 1e6)).settle(5);
      await budget.close();
      expect(requests()).toBe(before);
    });

    test('whatever is killed or loses its reply, the cap holds, and little is wasted', async () => {
      const CAP = 4;
      const MOST = 0.05;
      const random = new Random(3);
      let [losses, paid] = [0, 0];
      let budgets = Array.from({ length: 10 }, () => budgetOf(CAP));
      for (let round = 0; round < 12; round += 1) {
        budgets = await Promise.all(
          budgets.map(async (budget, index) => {
            const isLost = random.next() < 0.1;
            if (isLost) loseReply();
            if (isLost || random.next() < 0.05) losses += 1;
            const call = await budget.reserve(MOST).catch(() => 'held' as const);
            if (call === 'held') return budget;
            if (random.next() < 0.05) {
              losses += 1;
              return budgetOf(CAP);
            }
            const cost = MOST * random.next();
            paid += cost;
            await call.settle(cost);
            if (index % 3 > 0) return budget;
            await budget.close().catch(() => undefined);
            return budgetOf(CAP);
          }),
        );
        const { committed } = await inTable();
        expect(committed).toBeLessThanOrEqual(CAP);
        expect(committed).toBeGreaterThanOrEqual(paid);
      }
      await Promise.all(budgets.map((budget) => budget.close().catch(() => undefined)));
      const { committed, spent } = await inTable();
      expect(spent).toBeLessThanOrEqual(paid + 1e-6);
      // A block is at most 2% of four dollars.
      expect(committed - paid).toBeLessThanOrEqual(losses * 0.08 + 1e-6);
    });

    describe('has deposits that', () => {
      const day = dayScope(NOON);
      const both = (usd: number) => budgetOf(usd, { dailyUsd: 1, now: () => NOON });

      test('keep money for answers that arrive later, and end once', async () => {
        const { deposit, hasRoom } = await both(0.8).setAside('d', [0.25, 0.5, 0.25]);
        expect({ deposit, hasRoom }).toEqual({
          deposit: { name: 'd', scopes: [SCOPE, day] },
          hasRoom: [true, true, false],
        });
        for (const scope of deposit.scopes) expect(await inTable(scope)).toEqual({ committed: 0.75, spent: 0 });
        expect(await held(both(0.8), 0.1)).toBe(true);
        const settled = await Promise.all(Array.from({ length: 6 }, () => both(0.8).settleDeposit(deposit, 0.125)));
        expect(settled.filter(Boolean)).toHaveLength(1);
        for (const scope of deposit.scopes) expect(await inTable(scope)).toEqual({ committed: 0.125, spent: 0.125 });
      });

      test('of an earlier attempt are released', async () => {
        await both(1).setAside('d', [0.5]);
        await both(1).dropDeposit('d');
        await both(1).dropDeposit('d');
        expect(await inTable()).toEqual({ committed: 0, spent: 0 });
        expect((await both(1).setAside('d', [2])).deposit.scopes).toEqual([]);
      });

      test('of two attempts at the same time count once, and those of a day stay in it', async () => {
        const [one] = await Promise.all([both(1).setAside('d', [0.5]), both(1).setAside('d', [0.5])]);
        expect(await inTable()).toEqual({ committed: 0.5, spent: 0 });
        const tomorrow = budgetOf(1, { dailyUsd: 1, now: () => NOON + 86_400_000 });
        await tomorrow.settleDeposit(one.deposit, 0.125);
        expect(await inTable(day)).toEqual({ committed: 0.125, spent: 0.125 });
        expect(await inTable(dayScope(NOON + 86_400_000))).toEqual({ committed: 0, spent: 0 });
      });

      test('are never given back twice', async () => {
        loseReply();
        const made = await both(1)
          .setAside('d', [0.25])
          .catch(() => undefined);
        loseReply();
        await both(1).dropDeposit('d');
        await both(1).dropDeposit('d');
        for (const scope of [SCOPE, day]) expect((await inTable(scope)).committed).toBeGreaterThanOrEqual(0);
        expect(made).toBeDefined();
      });
    });
  });

  describe('a semaphore', () => {
    const semaphoreOf = (functions: number, calls = 0, limit?: CallLimit, of: Clock = time) =>
      new TableSemaphore({ table, functions, calls, limit, clock: of });
    const refused = { waitSeconds: expect.any(Number) };
    const counted = async (name: string) =>
      asNumber((await table.get(`semaphore#${Math.floor(time.now() / WINDOW_MS)}`))[name]);

    test('has as many permits as functions may run, and one that is released is free at once', async () => {
      const functions = Array.from({ length: 12 }, () => semaphoreOf(8));
      const acquired = await Promise.all(functions.map((each) => each.acquire()));
      expect(acquired.filter((each) => each === 'acquired')).toHaveLength(8);
      for (const each of acquired) if (each !== 'acquired') expect([3, 4]).toContain(each.waitSeconds);
      expect(await counted('refusals')).toBe(4);
      await functions[acquired.indexOf('acquired')]?.release();
      expect(await semaphoreOf(8).acquire()).toBe('acquired');
      expect(await semaphoreOf(8).acquire()).toEqual(refused);
    });

    test('keeps the permit of a function that runs, and frees that of one that crashed within two windows', async () => {
      const crashed = { now: time.now, sleep: () => new Promise<void>(() => undefined) };
      const running = semaphoreOf(2);
      await running.acquire();
      await semaphoreOf(2, 0, undefined, crashed).acquire();
      expect(await semaphoreOf(2).acquire()).toEqual(refused);
      for (let window = 0; window < 6; window += 1) {
        await time.pass(WINDOW_MS);
        expect(await counted('functions')).toBe(1);
      }
      await time.pass(9_500);
      await running.release();
      expect(await counted('functions')).toBe(0);
      await time.pass(WINDOW_MS);
      expect(await counted('functions')).toBe(0);
    });

    test('shares the calls among the functions, never more than allowed, and gives them to those that stay', async () => {
      const limiters = Array.from({ length: 10 }, () => new AdaptiveLimiter());
      const functions = limiters.map((limiter) => semaphoreOf(20, 40, limiter));
      for (const [index, each] of functions.entries()) {
        expect(await each.acquire()).toBe('acquired');
        for (let second = 0; second < 7; second += 1) {
          await time.pass(1000);
          expect(limiters.slice(0, index + 1).reduce((sum, { max }) => sum + max, 0)).toBeLessThanOrEqual(40);
        }
      }
      await time.pass(30_000);
      expect(limiters.map(({ max }) => max)).toEqual(limiters.map(() => 4));
      await Promise.all(functions.slice(2).map((each) => each.release()));
      await time.pass(30_000);
      expect(limiters.slice(0, 2).map(({ max }) => max)).toEqual([20, 20]);
    });

    test('counts calls in flight until they end', async () => {
      const [busy, late] = [
        { active: 30, max: 32 },
        { active: 0, max: 32 },
      ];
      await semaphoreOf(20, 32, busy).acquire();
      await semaphoreOf(20, 32, late).acquire();
      expect([busy.max, late.max]).toEqual([32, 0]);
      await time.pass(30_000);
      expect(busy.max).toBeLessThanOrEqual(16);
      expect(late.max).toBeLessThanOrEqual(2);
      busy.active = 16;
      await time.pass(40_000);
      expect([busy.max, late.max]).toEqual([16, 16]);
    });

    test('lets no more functions judge than there are calls, and everybody without limits or a table', async () => {
      const limiter = new AdaptiveLimiter();
      for (const expected of ['acquired', 'acquired', refused]) {
        expect(await semaphoreOf(0, 2, new AdaptiveLimiter()).acquire()).toEqual(expected);
      }
      expect(await semaphoreOf(0).acquire()).toBe('acquired');
      const without = new TableSemaphore({ table: noTable, functions: 1, calls: 8, limit: limiter, clock: time });
      expect(await without.acquire()).toBe('acquired');
      expect(limiter.max).toBeGreaterThan(0);
      await without.release();
      expect(limiter.max).toBe(32);
    });
  });

  describe('a rate limit', () => {
    const rateOf = (perSecond: number, keepMs = 150, of = table) =>
      new TableRateLimit({ table: of, name: 'mlflow', perSecond, keepMs, clock: time });
    /** Takes units one by one, at most `most`. @returns the times */
    async function timesOf(rate: TableRateLimit, most: number, pauseMs = 0): Promise<number[]> {
      const times: number[] = [];
      for (let unit = 0; unit < most; unit += 1) {
        await rate.acquire(1);
        times.push(time.now());
        await time.sleep(pauseMs);
      }
      return times;
    }
    const during = async <T>(ms: number, work: Promise<T>): Promise<T> => {
      await time.pass(ms);
      return work;
    };

    test.each([
      [1, 25],
      [10, 100],
    ])('keeps %i functions together to %i requests a second, and lets them use it', async (functions, perSecond) => {
      const each = (10 * perSecond) / functions;
      const sent = Array.from({ length: functions }, () => timesOf(rateOf(perSecond), each));
      const times = (await during(60_000, Promise.all(sent))).flat();
      expect(busiestSecond(times)).toBeLessThanOrEqual(1.1 * perSecond + 1);
      expect(Math.max(...times) - Math.min(...times)).toBeLessThan(12_000);
    });

    test('does not make up for a pause by a burst, and is asked about once a second', async () => {
      const rate = rateOf(10);
      await during(10_000, timesOf(rate, 30, 200));
      const before = requests();
      await time.pass(60_000);
      const times = await during(10_000, timesOf(rate, 30));
      expect(busiestSecond(times)).toBeLessThanOrEqual(13);
      expect(requests() - before).toBeLessThan(15);
    });

    test('gives units back, and waits for more that were used', async () => {
      const rate = rateOf(10, 60_000);
      const start = time.now();
      await rate.acquire(20);
      rate.give(15);
      await during(600, rate.acquire(15));
      expect(time.now() - start).toBe(600);
      rate.give(-30);
      const [at = 0] = await during(20_000, timesOf(rate, 1));
      expect(Math.round((at - start - 600) / 1000)).toBe(4);
    });

    test('lets a request be canceled, and keeps each function to the rate without the table', async () => {
      const canceled = new AbortController();
      const rate = rateOf(1);
      await rate.acquire(1);
      const taken = expect(rate.acquire(5, canceled.signal)).rejects.toThrow('stopped');
      await time.pass(100);
      canceled.abort(new Error('stopped'));
      await taken;
      const times = await during(10_000, timesOf(rateOf(10, 150, noTable), 30));
      expect(busiestSecond(times)).toBeLessThanOrEqual(12);
    });
  });

  describe('a circuit breaker', () => {
    const breakerOf = (name = 'judge', of = table) => new TableBreaker(of, name, time);
    const level = async (name = 'judge') => asNumber((await table.get(`breaker#${name}`)).level);
    const checks = (breakers: TableBreaker[]) => Promise.all(breakers.map((each) => each.check()));
    /** Reports throttled calls, one every ten seconds. */
    async function throttle(breaker: TableBreaker, calls: number): Promise<void> {
      for (let call = 0; call < calls; call += 1) {
        await breaker.check();
        await breaker.report('throttled');
        await time.pass(10_000);
      }
    }

    test('opens for all after five throttled calls in a row over half a minute, and not before', async () => {
      const [one, other] = [breakerOf(), breakerOf()];
      await throttle(one, 4);
      expect(await other.check()).toBeUndefined();
      await throttle(one, 1);
      await time.pass(3000);
      const openMs = ((await other.check()) ?? 0) - time.now();
      expect(openMs).toBeGreaterThan(5_000);
      expect(openMs).toBeLessThan(37_500);
      expect([one.forDay, other.forDay]).toEqual([false, false]);
    });

    test('stays closed at many throttled calls at once, and between answers', async () => {
      const breaker = breakerOf();
      for (let call = 0; call < 50; call += 1) await breaker.report('throttled');
      await breaker.report('answered');
      for (let call = 0; call < 50; call += 1) {
        await breaker.report(call % 5 === 4 ? 'answered' : 'throttled');
        await time.pass(10_000);
      }
      expect([await breaker.check(), await level()]).toEqual([undefined, 0]);
    });

    test('after its pause one call of all functions is on trial, and an answer closes it for all', async () => {
      const functions = Array.from({ length: 20 }, () => breakerOf());
      await throttle(functions[0] as TableBreaker, 5);
      await time.pass(40_000);
      const checked = await checks(functions);
      expect(checked.filter((until) => until === undefined)).toHaveLength(1);
      const trying = functions[checked.indexOf(undefined)] as TableBreaker;
      // Further calls of the same function wait for its outcome.
      const next = trying.check();
      await trying.report('answered');
      expect(await next).toBeUndefined();
      await time.pass(3000);
      expect(new Set(await checks(functions))).toEqual(new Set([undefined]));
    });

    test('a throttled trial opens it for twice as long, up to a quarter of an hour', async () => {
      const breaker = breakerOf();
      await throttle(breaker, 5);
      for (const seconds of [60, 120, 240, 480, 900, 900]) {
        await time.pass(1_200_000);
        expect(await breaker.check()).toBeUndefined();
        await breaker.report('throttled');
        const open = ((await breaker.check()) ?? 0) - time.now();
        expect(open / 1000 / seconds).toBeGreaterThan(0.74);
        expect(open / 1000 / seconds).toBeLessThan(1.26);
      }
    });

    test('a trial whose function ends, or that ends otherwise, is followed by another', async () => {
      const [one, other] = [breakerOf(), breakerOf()];
      await throttle(one, 5);
      await time.pass(60_000);
      expect([await one.check(), await other.check()]).toEqual([undefined, expect.any(Number)]);
      await time.pass(160_000);
      expect(await other.check()).toBeUndefined();
      await other.report('other');
      expect(await other.check()).toBeUndefined();
      await other.report('answered');
      expect(await level()).toBe(0);
    });

    test('a quota of the day opens it until midnight (UTC), whatever arrives late, and for an hour after that', async () => {
      const [one, other] = [breakerOf(), breakerOf()];
      const midnight = Date.UTC(2026, 10, 21);
      await other.check();
      await one.report('perDay');
      await time.pass(5000);
      await other.report('answered');
      await time.pass(5000);
      expect([await checks([one, other]), other.forDay]).toEqual([[midnight, midnight], true]);
      await time.pass(midnight - time.now());
      expect(await one.check()).toBeUndefined();
      await time.pass(3000);
      // While one call is on trial, the others are paused and not held.
      expect([await other.check(), other.forDay]).toEqual([expect.any(Number), false]);
      await one.report('perDay');
      expect(((await one.check()) ?? 0) - time.now()).toBeLessThanOrEqual(3_600_000);
      expect(one.forDay).toBe(true);
    });

    test('is read every few seconds, not for every call, and lets calls start without the table', async () => {
      const breaker = breakerOf();
      const before = requests();
      for (let call = 0; call < 500; call += 1) {
        await breaker.check();
        await breaker.report('answered');
        await time.pass(20);
      }
      expect(requests() - before).toBeLessThanOrEqual(5);
      const without = breakerOf('judge', noTable);
      expect(await without.check()).toBeUndefined();
      await throttle(without, 5);
      expect(await without.check()).toBeDefined();
    });
  });
}

/** The most requests in any second, at the times in milliseconds. */
function busiestSecond(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  return Math.max(...sorted.map((from) => sorted.filter((at) => at >= from && at < from + 1000).length));
}

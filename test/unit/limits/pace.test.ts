/** The pace of requests over many functions, in virtual time. */
import { TablePace } from '../../../src/limits/pace.ts';
import { BudgetTable } from '../../../src/limits/table.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { VirtualClock } from '../../helpers/virtual-clock.ts';

let table: MemoryTable;
let clock: VirtualClock;
/** Units of write per item and second. */
let writes: Map<string, number>;
beforeEach(() => {
  table = new MemoryTable();
  clock = new VirtualClock();
  writes = new Map();
  table.onWrite = (scope, units) => {
    const key = `${Math.floor(clock.now() / 1000)} ${scope}`;
    writes.set(key, (writes.get(key) ?? 0) + units);
  };
});

const paceOf = (perSecond: number, more: Partial<ConstructorParameters<typeof TablePace>[0]> = {}) =>
  new TablePace({ table: new BudgetTable(table.client, 't'), name: 'mlflow', perSecond, keepMs: 150, clock, ...more });

/** The most requests in any second, at the times in milliseconds. */
function busiestSecond(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  let most = 0;
  let first = 0;
  sorted.forEach((time, index) => {
    while ((sorted[first] ?? 0) <= time - 1000) first += 1;
    most = Math.max(most, index - first + 1);
  });
  return most;
}

/** Lets functions send as fast as they may, 100 more each second. @returns the times of the requests */
async function send(functions: number, perSecond: number, seconds: number, shards = 1): Promise<number[]> {
  const times: number[] = [];
  const stop = new AbortController();
  const ended = Array.from({ length: functions }, async (_, index) => {
    await clock.sleep(10 * index);
    const pace = paceOf(perSecond, { shards });
    // Four requests are under way at a time, as in a function that writes traces.
    const worker = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        await pace.take(1, stop.signal);
        times.push(clock.now());
        await clock.sleep(50, stop.signal);
      }
    };
    await Promise.all(Array.from({ length: 4 }, worker)).catch(() => {});
  });
  await clock.pass(seconds * 1000);
  stop.abort(new Error('the end'));
  await clock.pass(300_000);
  await Promise.all(ended);
  return times;
}

test.each([
  [1, 25],
  [10, 25],
  [10, 200],
])('%i functions together keep to %i requests a second, and use them', async (functions, perSecond) => {
  const SECONDS = 30;
  const times = await send(functions, perSecond, SECONDS);
  const possible = Math.min(perSecond, functions * 80);
  expect(busiestSecond(times)).toBeLessThanOrEqual(1.1 * perSecond + 1);
  expect(times.length).toBeGreaterThan(0.9 * possible * SECONDS);
});

test('a thousand functions write less to an item than one partition takes', async () => {
  const times = await send(1000, 1000, 12, 4);
  const busiest = Math.max(...writes.values());
  console.info(`${times.length} requests in 12 s; ${busiest} units in a second at most`);
  expect(busiest).toBeLessThan(1000);
  expect(busiestSecond(times)).toBeLessThanOrEqual(1000 * 1.1);
  expect(times.length).toBeGreaterThan(0.9 * 1000 * 12);
});

test('a function asks about once a second, not once per request', async () => {
  await send(1, 100, 20);
  expect([...writes.values()].reduce((a, b) => a + b)).toBeLessThan(60);
});

test('a pause is not made up for by a burst', async () => {
  const pace = paceOf(10);
  for (let request = 0; request < 30; request += 1) {
    const taken = pace.take(1);
    await clock.pass(200);
    await taken;
  }
  await clock.pass(60_000);
  const times: number[] = [];
  const all = Array.from({ length: 30 }, async () => {
    await pace.take(1);
    times.push(clock.now());
  });
  await clock.pass(10_000);
  await Promise.all(all);
  expect(busiestSecond(times)).toBeLessThanOrEqual(13);
});

test('units that are given back are used next, and more that were used are waited for', async () => {
  const pace = paceOf(10, { keepMs: 60_000 });
  const start = clock.now();
  /** Seconds until the units may be used. */
  const waits = async (units: number): Promise<number> => {
    let at = 0;
    const taken = pace.take(units).then(() => {
      at = clock.now();
    });
    const asked = clock.now();
    await clock.pass(20_000);
    await taken;
    return Math.round((at - asked) / 1000);
  };
  // 20 units are two seconds of the pace, and 15 of them come back.
  await pace.take(20);
  pace.give(15);
  const soon = pace.take(15);
  await clock.pass(600);
  await soon;
  expect(clock.now() - start).toBe(600);
  pace.give(-30);
  expect(await waits(1)).toBe(4);
});

test('a request that is canceled does not wait', async () => {
  const pace = paceOf(1);
  await pace.take(1);
  const canceled = new AbortController();
  const taken = pace.take(5, canceled.signal);
  const outcome = expect(taken).rejects.toThrow('stopped');
  await clock.pass(100);
  canceled.abort(new Error('stopped'));
  await outcome;
});

test('without the table each function keeps to the pace by itself', async () => {
  const failing = {
    send: () => Promise.reject(Object.assign(new Error('gone'), { name: 'ResourceNotFoundException' })),
  };
  const pace = paceOf(10, { table: new BudgetTable(failing as never, 't') });
  const times: number[] = [];
  const all = Array.from({ length: 30 }, async () => {
    await pace.take(1);
    times.push(clock.now());
  });
  await clock.pass(10_000);
  await Promise.all(all);
  expect(times).toHaveLength(30);
  expect(busiestSecond(times)).toBeLessThanOrEqual(12);
});

/** A circuit over many functions, in virtual time. */
import { nextDay, TableCircuit } from '../../../src/limits/circuit.ts';
import { BudgetTable } from '../../../src/limits/table.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { VirtualClock } from '../../helpers/virtual-clock.ts';

let table: MemoryTable;
let clock: VirtualClock;
beforeEach(() => {
  table = new MemoryTable();
  clock = new VirtualClock();
});
const circuitOf = () => new TableCircuit(new BudgetTable(table.client, 't'), 'judge', clock);

/** Reports throttled calls, one every ten seconds. */
async function throttle(circuit: TableCircuit, calls: number): Promise<void> {
  for (let call = 0; call < calls; call += 1) {
    await circuit.check();
    await circuit.report('throttled');
    await clock.pass(10_000);
  }
}
const secondsOpen = async (circuit: TableCircuit): Promise<number | undefined> => {
  const until = await circuit.check();
  return until === undefined ? undefined : (until - clock.now()) / 1000;
};

test('five throttled calls in a row over half a minute open it for all functions', async () => {
  const [one, other] = [circuitOf(), circuitOf()];
  await throttle(one, 4);
  expect(await other.check()).toBeUndefined();
  await throttle(one, 1);
  await clock.pass(3000);
  expect(await secondsOpen(other)).toBeGreaterThan(5);
  expect(await secondsOpen(other)).toBeLessThan(37.5);
  expect([one.forDay, other.forDay]).toEqual([false, false]);
});

test('where a call is a whole chunk, the first throttled one opens it, and only a trial closes it', async () => {
  const ofChunks = () => new TableCircuit(new BudgetTable(table.client, 't'), 'mlflow', clock, { inRow: 1, forMs: 0 });
  const [one, other, working] = [ofChunks(), ofChunks(), ofChunks()];
  for (const circuit of [one, working]) expect(await circuit.check()).toBeUndefined();
  await one.report('throttled');
  expect(await other.check()).toBeDefined();
  // It began before, and MLflow had room for it.
  await working.report('answered');
  await clock.pass(5000);
  expect(await working.check()).toBeDefined();
  await clock.pass(60_000);
  expect(await other.check()).toBeUndefined();
  await other.report('answered');
  expect(table.number('circuit#mlflow', 'level')).toBe(0);
  expect(table.number('circuit#judge', 'level')).toBe(0);
});

test('many throttled calls at once, and throttled calls between answers, do not open it', async () => {
  const circuit = circuitOf();
  for (let call = 0; call < 50; call += 1) await circuit.report('throttled');
  expect(await circuit.check()).toBeUndefined();
  await circuit.report('answered');
  for (let call = 0; call < 50; call += 1) {
    await circuit.report(call % 5 === 4 ? 'answered' : 'throttled');
    await clock.pass(10_000);
  }
  expect(await circuit.check()).toBeUndefined();
  expect(table.number('circuit#judge', 'level')).toBe(0);
});

test('after its pause one call of all functions tries, and an answer closes it for all', async () => {
  const functions = Array.from({ length: 20 }, circuitOf);
  await throttle(functions[0] as TableCircuit, 5);
  await clock.pass(40_000);
  const checks = await Promise.all(functions.map((circuit) => circuit.check()));
  expect(checks.filter((until) => until === undefined)).toHaveLength(1);
  const trying = functions[checks.indexOf(undefined)] as TableCircuit;
  // Further calls of the same function wait for its outcome.
  const next = trying.check();
  await trying.report('answered');
  expect(await next).toBeUndefined();
  await clock.pass(3000);
  expect(await Promise.all(functions.map((circuit) => circuit.check()))).toEqual(functions.map(() => undefined));
});

test('a throttled trial opens it for longer, up to a quarter of an hour', async () => {
  const circuit = circuitOf();
  await throttle(circuit, 5);
  const pauses: number[] = [];
  for (let trial = 0; trial < 8; trial += 1) {
    await clock.pass(1_200_000);
    expect(await circuit.check()).toBeUndefined();
    await circuit.report('throttled');
    pauses.push((await secondsOpen(circuit)) ?? 0);
  }
  const doubled = [60, 120, 240, 480, 900, 900, 900, 900];
  pauses.forEach((pause, index) => {
    expect(pause).toBeGreaterThan(0.74 * (doubled[index] ?? 0));
    expect(pause).toBeLessThan(1.26 * (doubled[index] ?? 0));
  });
});

test('a trial whose function ends, or that ends otherwise, is followed by another', async () => {
  const [one, other] = [circuitOf(), circuitOf()];
  await throttle(one, 5);
  await clock.pass(60_000);
  expect(await one.check()).toBeUndefined();
  expect(await other.check()).toBeDefined();
  await clock.pass(160_000);
  expect(await other.check()).toBeUndefined();
  await other.report('other');
  expect(await other.check()).toBeUndefined();
  await other.report('answered');
  expect(table.number('circuit#judge', 'level')).toBe(0);
});

test('a quota of the day closes it until midnight (UTC), whatever answers arrive late', async () => {
  const [one, other] = [circuitOf(), circuitOf()];
  const midnight = Date.UTC(2026, 10, 21);
  expect(nextDay(clock.now())).toBe(midnight);
  expect(await other.check()).toBeUndefined();
  await one.report('perDay');
  await clock.pass(5000);
  expect([await one.check(), await other.check()]).toEqual([midnight, midnight]);
  expect(other.forDay).toBe(true);
  await other.report('answered');
  await clock.pass(5000);
  expect(await other.check()).toBe(midnight);
  await clock.pass(midnight - clock.now() + 1);
  const checks = await Promise.all([one.check(), other.check()]);
  expect(checks.filter((until) => until === undefined)).toHaveLength(1);
  const trying = checks[0] === undefined ? one : other;
  await trying.report('answered');
  await clock.pass(3000);
  expect(await Promise.all([one.check(), other.check()])).toEqual([undefined, undefined]);
});

test('a function reads it every few seconds, not for every call', async () => {
  const circuit = circuitOf();
  for (let call = 0; call < 1000; call += 1) {
    await circuit.check();
    await circuit.report('answered');
    await clock.pass(10);
  }
  expect(table.requests).toBeLessThanOrEqual(4);
});

test('without the table calls are made', async () => {
  const failing = { send: () => Promise.reject(new Error('gone')) };
  const circuit = new TableCircuit(new BudgetTable(failing as never, 't'), 'judge', clock);
  expect(await circuit.check()).toBeUndefined();
  await throttle(circuit, 5);
  expect(await circuit.check()).toBeDefined();
});

test('while one call tries after midnight, others are paused, not held', async () => {
  const [one, other] = [circuitOf(), circuitOf()];
  await one.check();
  await one.report('perDay');
  await clock.pass(nextDay(clock.now()) - clock.now());
  expect(await one.check()).toBeUndefined();
  await clock.pass(3000);
  expect(await other.check()).toBeDefined();
  expect(other.forDay).toBe(false);
});

test('a trial right after midnight that the provider still refuses does not cost another day', async () => {
  const one = circuitOf();
  await one.check();
  await one.report('perDay');
  await clock.pass(nextDay(clock.now()) - clock.now());
  expect(await one.check()).toBeUndefined();
  await clock.pass(200);
  await one.report('perDay');
  const until = await one.check();
  expect(one.forDay).toBe(true);
  expect(((until ?? 0) - clock.now()) / 3600_000).toBeLessThanOrEqual(1);
});

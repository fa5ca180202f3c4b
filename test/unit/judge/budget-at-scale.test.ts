/** The budget under a thousand functions, and under crashes and lost replies at every write. */

import { Random } from '../../../src/core/values/random.ts';
import { LEASE_MS } from '../../../src/limits/budget/account.ts';
import { type BudgetOptions, createBudget, dayScope } from '../../../src/limits/budget/leased-budget.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';

const NANOS = 1e9;
const START = Date.UTC(2026, 10, 20, 12);
const SCOPE = dayScope(START);

let table: MemoryTable;
let now: number;
beforeEach(() => {
  table = new MemoryTable();
  now = START;
});

const budgetOf = (dailyUsd: number, more: Partial<BudgetOptions> = {}) =>
  createBudget({ client: table.client, table: 't', run: 'r', dailyUsd, now: () => now, ...more });
const committed = () => table.number(SCOPE, 'committed') / NANOS;

/** Reserves and settles one call. @returns whether the cap had room */
async function call(budget: ReturnType<typeof budgetOf>, most: number, cost: number): Promise<boolean> {
  const reservation = await budget.reserve(most);
  if (reservation === 'held') return false;
  await reservation.settle(cost);
  return true;
}

test('a thousand functions stay below what one partition writes per second, and no item is over 1 KB', async () => {
  const SECONDS = 40;
  const units = new Map<string, number>();
  table.onWrite = (scope, cost) => {
    const key = `${Math.floor(now / 1000)} ${scope}`;
    units.set(key, (units.get(key) ?? 0) + cost);
  };
  const budgets = Array.from({ length: 1000 }, () => budgetOf(1_000_000));
  for (let second = 0; second < SECONDS; second += 1) {
    for (const [index, budget] of budgets.entries()) {
      // Lambda does not start a thousand functions in one second either: 100 per second.
      if (index >= (second + 1) * 100) break;
      for (let calls = 0; calls < 2; calls += 1) await call(budget, 0.03, 0.01);
    }
    now += 1000;
  }
  const busiest = Math.max(...units.values());
  const ofAccount = [...units].filter(([key]) => key.endsWith(` ${SCOPE}`)).map(([, cost]) => cost);
  console.info(`busiest item: ${busiest} units in a second; the account: ${Math.max(...ofAccount)}`);
  expect(busiest).toBeLessThan(500);
  expect(Math.max(...[...table.items.keys()].map((scope) => table.sizeOf(scope)))).toBeLessThan(1024);
  await Promise.all(budgets.map((budget) => budget.close()));
  const calls = Array.from({ length: SECONDS }, (_, second) => 200 * Math.min(10, second + 1)).reduce((a, b) => a + b);
  expect(committed()).toBeCloseTo(calls * 0.01, 6);
  expect(table.number(SCOPE, 'spent')).toBe(table.number(SCOPE, 'committed'));
});

test('four thousand deposits do not make the account larger', async () => {
  const deposits = [];
  for (let chunk = 0; chunk < 4000; chunk += 1) {
    const budget = budgetOf(1000);
    expect(await budget.setAside(0.125)).toBe(true);
    deposits.push(await budget.closeWithDeposit(`batch/a-run/${chunk}`));
  }
  expect(committed()).toBe(500);
  expect(Math.max(...[...table.items.keys()].map((scope) => table.sizeOf(scope)))).toBeLessThan(1024);
  for (const deposit of deposits) await budgetOf(1000).settleDeposit(deposit, 0.0625);
  expect([committed(), table.number(SCOPE, 'spent') / NANOS]).toEqual([250, 250]);
});

class Killed extends Error {}

/** What the account must have committed: what was paid, and what leases and deposits have. */
function owed(): number {
  let sum = table.number(SCOPE, 'spent');
  for (const scope of table.items.keys()) {
    if (scope !== SCOPE)
      sum += table.number(scope, 'amount') + (scope.includes('#lease#') ? table.number(scope, 'paid') : 0);
  }
  return sum / NANOS;
}

/** Lets ten functions spend four dollars, and replaces those that fail. @returns how often something was lost */
async function spendAll(random: Random, faults: { kills: number; lostReplies: number }): Promise<number> {
  const CAP = 4;
  const MOST = 0.05;
  let losses = 0;
  let armed = true;
  table.onWrite = table.afterWrite = () => {
    if (!armed) return;
    if (random.next() < faults.kills) {
      losses += 1;
      throw new Killed();
    }
    if (table.lostReplies === 0 && random.next() < faults.lostReplies) {
      losses += 1;
      table.lostReplies = 1;
    }
  };
  const budgets = Array.from({ length: 10 }, () => budgetOf(CAP));
  for (let round = 0; round < 200; round += 1) {
    now += 2000;
    for (const [index, budget] of budgets.entries()) {
      const isDeposit = random.next() < 0.05;
      try {
        if (isDeposit) {
          await budget.setAside(MOST);
          const deposit = await budget.closeWithDeposit(`of ${round} ${index}`);
          budgets[index] = budgetOf(CAP);
          await budgets[index].settleDeposit(deposit, MOST * random.next());
        } else await call(budget, MOST, MOST * random.next());
      } catch {
        budgets[index] = budgetOf(CAP);
      }
      expect(committed()).toBeLessThanOrEqual(CAP);
      expect(committed() - owed()).toBeGreaterThan(-1e-9);
    }
  }
  armed = false;
  table.lostReplies = 0;
  for (const budget of budgets) await budget.close();
  now += LEASE_MS + 60_000;
  // Whoever finds no room ends the leases of the dead.
  await call(budgetOf(CAP), CAP, 0);
  return losses;
}

test.each([1, 2, 3, 4])(
  'whatever is killed between its writes, the cap holds and little is wasted (%i)',
  async (seed) => {
    const losses = await spendAll(new Random(seed), { kills: 0.02, lostReplies: 0.02 });
    const wasted = committed() - owed();
    expect(losses).toBeGreaterThan(20);
    expect(wasted).toBeGreaterThan(-1e-9);
    // A lease is at most 2% of four dollars, and a call.
    expect(wasted).toBeLessThan(losses * (0.08 + 0.05));
  },
);

test('a Lambda that ends while it looks for dead leases leaves the rest of them to the next one', async () => {
  const LEASES = 5000;
  for (let lease = 0; lease < LEASES; lease += 1) {
    const budget = budgetOf(1);
    await call(budget, 0.0001, 0.0001);
    await budget.close();
  }
  const swept = () => table.number(SCOPE, 'swept');
  const needsAll = () => call(budgetOf(1), 0.9, 0);
  now += LEASE_MS + 60_000;
  table.afterWrite = () => {
    if (swept() > 0) throw new Killed();
  };
  await expect(needsAll()).rejects.toThrow('DynamoDB did not answer');
  expect(swept()).toBe(2048);
  table.afterWrite = undefined;
  now += 60_000;
  await needsAll();
  expect(swept()).toBeGreaterThanOrEqual(LEASES);
});

test('replies that are lost waste nothing while the account tells what was done', async () => {
  const losses = await spendAll(new Random(7), { kills: 0, lostReplies: 0.1 });
  expect(losses).toBeGreaterThan(20);
  expect(committed()).toBeCloseTo(owed(), 9);
});

/** The judge's budget with a table in memory. The integration tests have real processes that race and crash. */

import { Account } from '../../../src/limits/budget/account.ts';
import { type BudgetOptions, createBudget, runScope } from '../../../src/limits/budget/leased-budget.ts';
import { Purse, RENEW_MS } from '../../../src/limits/budget/purse.ts';
import { BudgetTable } from '../../../src/limits/table.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';

const SCOPE = runScope('r');
const NANOS = 1e9;

let table: MemoryTable;
beforeEach(() => {
  table = new MemoryTable();
});

const budgetOf = (usd: number, more: Partial<BudgetOptions> = {}) =>
  createBudget({ client: table.client, table: 't', run: 'r', runUsd: usd, ...more });
const stored = () => ({
  committed: table.number(SCOPE, 'committed') / NANOS,
  spent: table.number(SCOPE, 'spent') / NANOS,
});

async function reserved(budget: ReturnType<typeof budgetOf>, usd: number) {
  const reservation = await budget.reserve(usd);
  if (reservation === 'held') throw new Error('held');
  return reservation;
}

test('calls are reserved at their maximum and booked at their cost', async () => {
  const budget = budgetOf(1);
  const calls = [await reserved(budget, 0.25), await reserved(budget, 0.25)];
  expect(stored().committed).toBeGreaterThanOrEqual(0.5);
  for (const call of calls) await call.settle(0.125);
  await budget.close();
  expect(stored()).toEqual({ committed: 0.25, spent: 0.25 });
});

test('a call that no cap has room for is held at once', async () => {
  const budget = budgetOf(1);
  await (await reserved(budget, 0.75)).settle(0.75);
  expect(await budget.reserve(0.5)).toBe('held');
  await budget.close();
  expect(stored()).toEqual({ committed: 0.75, spent: 0.75 });
});

test('a call waits for the money that a call in flight returns', async () => {
  const budget = budgetOf(1);
  const first = await reserved(budget, 0.75);
  const second = budget.reserve(0.5);
  await first.settle(0.25);
  expect(await second).not.toBe('held');
});

test('a write whose reply was lost is not repeated', async () => {
  const budget = budgetOf(1, { now: () => 0 });
  table.lostReplies = 1;
  const call = await reserved(budget, 0.25);
  await call.settle(0.125);
  await budget.close();
  expect(stored()).toEqual({ committed: 0.125, spent: 0.125 });
});

test('a payment whose report lost its reply is booked once', async () => {
  let now = 0;
  const budget = budgetOf(1, { now: () => now });
  const call = await reserved(budget, 0.25);
  now += 10_000;
  table.lostReplies = 1;
  await call.settle(0.125);
  await budget.close();
  expect(stored()).toEqual({ committed: 0.125, spent: 0.125 });
});

test('a lease is renewed while a call is in flight, and only then', async () => {
  let now = 0;
  const account = new Account({ table: new BudgetTable(table.client, 't'), scope: SCOPE, now: () => now });
  const purse = new Purse(account, NANOS, () => now);
  const requestsOfRenewal = async (afterMs: number): Promise<number> => {
    now += afterMs;
    const before = table.requests;
    await purse.renew();
    return table.requests - before;
  };
  expect(await requestsOfRenewal(RENEW_MS)).toBe(0);
  await purse.reserve(1000);
  expect(await requestsOfRenewal(RENEW_MS - 1)).toBe(0);
  expect(await requestsOfRenewal(1)).toBe(1);
  purse.settle(1000, 500);
  expect(await requestsOfRenewal(RENEW_MS)).toBe(0);
});

describe('a deposit', () => {
  const deposit = async () => {
    const budget = budgetOf(1);
    expect(await budget.setAside(0.5)).toBe(true);
    return budget.closeWithDeposit('group');
  };

  test('keeps money for later answers, and gives the rest back once', async () => {
    const left = await deposit();
    expect(stored()).toEqual({ committed: 0.5, spent: 0 });
    expect(await budgetOf(1).setAside(0.75)).toBe(false);
    expect(await budgetOf(1).settleDeposit(left, 0.125)).toBe(true);
    expect(await budgetOf(1).settleDeposit(left, 0.125)).toBe(false);
    expect(stored()).toEqual({ committed: 0.125, spent: 0.125 });
  });

  test('of an earlier attempt is given back', async () => {
    await deposit();
    await budgetOf(1).dropDeposit('group');
    expect(stored()).toEqual({ committed: 0, spent: 0 });
  });
});

/** Reads the budget's table: what a day or a run has spent. */

import { Account } from '../../src/limits/budget/account.ts';
import type { BudgetOptions } from '../../src/limits/budget/leased-budget.ts';
import { BudgetTable } from '../../src/limits/table.ts';

const NANOS_PER_USD = 1e9;

/** Returns the paid and the committed (paid or leased) US dollars. */
export async function readSpending(
  { client, table }: Pick<BudgetOptions, 'client' | 'table'>,
  scope: string,
): Promise<{ spentUsd: number; committedUsd: number }> {
  const account = new Account({ table: new BudgetTable(client, table), scope, now: Date.now });
  const { spent, committed } = await account.read();
  return { spentUsd: spent / NANOS_PER_USD, committedUsd: committed / NANOS_PER_USD };
}

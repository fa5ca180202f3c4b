/** What a budget's table holds of a day or a run. */
import { Account } from '../../src/judge/budget/account.ts';
import type { BudgetOptions } from '../../src/judge/budget/leased-budget.ts';

const NANOS_PER_USD = 1e9;

/** What was paid and what is committed (paid or on lease) in US dollars. */
export async function readSpending(
  options: Pick<BudgetOptions, 'client' | 'table'>,
  scope: string,
): Promise<{ spentUsd: number; committedUsd: number }> {
  const { spent, committed } = await new Account({ ...options, scope, now: Date.now }).read();
  return { spentUsd: spent / NANOS_PER_USD, committedUsd: committed / NANOS_PER_USD };
}

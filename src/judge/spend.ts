/** Sums of payments to the judge. A sum that includes an unknown price (`null`) is unknown. */
import type { JudgeSpend } from '../core/contract/receipts.ts';
import type { VerdictUsage } from './types.ts';

export const emptySpend = (): JudgeSpend => ({ calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 });

/**
 * Money is counted in whole trillionths of a dollar, whose sums are exact: the cheapest token costs some ten thousand
 * units.
 */
export const UNITS_PER_USD = 1e12;

export const addUsd = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? null : Math.round((a + b) * UNITS_PER_USD) / UNITS_PER_USD;

/** Adds `more` to `total`, `times` times. */
export function addSpend(total: JudgeSpend, more: JudgeSpend, times = 1): JudgeSpend {
  total.calls += times * more.calls;
  total.inputTokens += times * more.inputTokens;
  total.outputTokens += times * more.outputTokens;
  total.usd = addUsd(total.usd, more.usd === null ? null : times * more.usd);
  for (const name of ['cacheCalls', 'cacheReadTokens', 'cacheWriteTokens'] as const) {
    if (more[name] !== undefined) total[name] = (total[name] ?? 0) + times * more[name];
  }
  return total;
}

export const spentTogether = (all: readonly JudgeSpend[]): JudgeSpend =>
  all.reduce((total, one) => addSpend(total, one), emptySpend());

export const sumUsage = (a: VerdictUsage, b: VerdictUsage): VerdictUsage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  usd: addUsd(a.usd, b.usd),
});

/** Returns the cost of judging a capture, without the answer of the batch job, which is already paid. */
export function spendBeyond(spend: JudgeSpend, paid: JudgeSpend | undefined): JudgeSpend {
  if (paid === undefined) return spend;
  // The answer of the job was the only one, or it was not read.
  if (spend.calls <= paid.calls) return emptySpend();
  const rest = { ...spend };
  addSpend(rest, paid, -1);
  return { ...rest, usd: rest.usd === null ? null : Math.max(0, rest.usd) };
}

/** Sums of the receipts' figures: lines, verdicts and money. */

import {
  type CostEstimate,
  type EvaluateReceipt,
  type JudgeSpend,
  type LogCounts,
  type LogReceipt,
  NO_LOG_COUNTS,
  VERDICT_TERMS,
  type VerdictCounts,
} from '../core/contract/receipts.ts';
import { addCounts } from '../core/values/counts.ts';
import { addSpend, emptySpend, sumUsage } from '../judge/spend.ts';

export const emptyVerdictCounts = (): VerdictCounts =>
  Object.fromEntries(VERDICT_TERMS.map((term) => [term, 0])) as VerdictCounts;

export const emptyLogCounts = (): LogCounts => ({ ...NO_LOG_COUNTS });

export const verdictTotal = (counts: VerdictCounts): number =>
  VERDICT_TERMS.reduce((total, term) => total + counts[term], 0);

/** Sums the ranges or the parts of a chunk, or the chunks of a file. */
export function sumLogCounts(receipts: readonly Pick<LogReceipt, 'counts'>[]): LogCounts {
  const total = emptyLogCounts();
  for (const { counts } of receipts) addCounts(total, counts);
  return total;
}

/** Sums the chunks of a file, for a direct invocation and for the output of a child execution. */
export function sumEvaluations(
  receipts: readonly EvaluateReceipt[],
): VerdictCounts & { failedRecorded: number; spend: JudgeSpend } {
  const total = { ...emptyVerdictCounts(), failedRecorded: 0 };
  const spend = emptySpend();
  for (const { counts, failedRecorded, spend: asked, batchSpend } of receipts) {
    addCounts(total, { ...counts, failedRecorded });
    addSpend(spend, asked);
    if (batchSpend !== undefined) addSpend(spend, batchSpend);
  }
  return { ...total, spend };
}

const rangeOf = ({ usdRange: [least, most] = [0, 0] }: CostEstimate, { usdRange }: CostEstimate) =>
  usdRange && { usdRange: [least + usdRange[0], most + usdRange[1]] as [number, number] };

/** Adds up the parts of an estimate. The model and the basis come from the last part. */
export function addEstimates(total: CostEstimate | undefined, more: CostEstimate): CostEstimate {
  if (total === undefined) return more;
  return {
    ...more,
    captures: total.captures + more.captures,
    judgedCaptures: total.judgedCaptures + more.judgedCaptures,
    judgeCalls: total.judgeCalls + more.judgeCalls,
    ...rangeOf(total, more),
    ...sumUsage(total, more),
  };
}

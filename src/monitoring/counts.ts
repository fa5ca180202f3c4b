/** Sums of the receipts' figures, for direct invocations, and sums of estimates. */

import {
  type CostEstimate,
  type EvaluateReceipt,
  type JudgeSpend,
  type LogCounts,
  type LogReceipt,
  NO_LOG_COUNTS,
  NO_VERDICT_COUNTS,
  type VerdictCounts,
} from '../core/contract/receipts.ts';
import { addCounts } from '../core/values/counts.ts';
import { addSpend, emptySpend, sumUsage } from '../judge/spend.ts';

/** Sums the chunks of a file. */
export function sumLogCounts(receipts: readonly Pick<LogReceipt, 'counts'>[]): LogCounts {
  const total = { ...NO_LOG_COUNTS };
  for (const { counts } of receipts) addCounts(total, counts);
  return total;
}

/** Sums the chunks of a file. */
export function sumEvaluations(
  receipts: readonly EvaluateReceipt[],
): VerdictCounts & { failedRecorded: number; spend: JudgeSpend } {
  const total = { ...NO_VERDICT_COUNTS, failedRecorded: 0 };
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

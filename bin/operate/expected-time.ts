/** How long a run may take, by the pace of earlier runs of the same stack. */
import type { CostEstimate } from '../../src/core/contract/receipts.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';

/**
 * Returns the seconds that a run would take at the pace of the longest of the earlier runs, since short ones are mostly start; the
 * pace of what takes long: calls of the judge, or lines if the judge is not asked.
 *
 * @param earlier summaries of runs of the stack
 * @returns `undefined` if no earlier run tells
 */
export function expectedSeconds(
  { captures, judgeCalls }: Pick<CostEstimate, 'captures' | 'judgeCalls'>,
  earlier: readonly RunSummary[],
): number | undefined {
  const units = ({ spend, lines }: RunSummary): number => (judgeCalls > 0 ? spend.calls : lines.written);
  const [longest] = earlier
    .filter((one) => one.status === 'succeeded' && one.options?.judge === 'converse' && units(one) > 0)
    .sort((a, b) => units(b) - units(a));
  if (longest === undefined) return undefined;
  const seconds = (Date.parse(longest.endedAt) - Date.parse(longest.startedAt)) / 1_000;
  // A run takes a few seconds, however short it is.
  return Math.max(1, (judgeCalls > 0 ? judgeCalls : captures) / units(longest)) * seconds;
}

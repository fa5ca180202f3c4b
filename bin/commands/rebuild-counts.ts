/** `inference-monitor rates --rebuild`: rebuilds the counts behind `rates` from the receipts of the runs. */
import { singleLine } from '../../src/core/text/terminal-text.ts';
import { type RebuiltCounts, rebuildCounts } from '../../src/monitoring/rebuild-counts.ts';
import { dayOf } from '../../src/quality/counts-store.ts';
import { print } from '../cli/output.ts';
import { withStack } from '../cli/stack.ts';
import { instantMs } from '../cli/window.ts';
import type { RatesFlags } from './rates.ts';

/** Adds up the runs of whole days (UTC) of inference again; of all days by default. */
export async function rebuild({ from, to, dryRun = false, json, stack }: RatesFlags): Promise<void> {
  const nowMs = Date.now();
  const day = (text: string, afterMs = 0): string => dayOf(new Date(instantMs(text, nowMs) + afterMs).toISOString());
  const first = from === undefined ? undefined : day(from);
  // The day that contains the last millisecond before the end.
  const last = to === undefined ? undefined : day(to, -1);
  const isInside = (one: string): boolean =>
    (first === undefined || one >= first) && (last === undefined || one <= last);
  await withStack({ stack }, async ({ storage, outputs }) => {
    const result = await rebuildCounts({ storage, workBucket: outputs.workBucket }, isInside, !dryRun);
    print('rates', result, json, () => rebuiltText(result, dryRun));
  });
}

export function rebuiltText({ rebuilt, kept }: RebuiltCounts, dryRun: boolean): string {
  const lines = [
    ...rebuilt.map((run) => `${dryRun ? 'would be added up again' : 'added up again'}: ${run}`),
    ...Object.entries(kept).map(([run, why]) => `kept: ${run}: ${why}`),
    `${rebuilt.length} runs ${dryRun ? 'would be added up again' : 'were added up again'}; ${Object.keys(kept).length} runs kept as they were`,
  ];
  return lines.map((line) => `${singleLine(line)}\n`).join('');
}

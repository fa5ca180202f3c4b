/** `inference-monitor rebuild-counts`: makes the counts behind `rates` anew from the receipts of the runs. */
import { Command } from 'commander';
import { singleLine } from '../../src/core/text/terminal-text.ts';
import { type RebuiltCounts, rebuildCounts } from '../../src/monitoring/rebuild-counts.ts';
import { dayOf } from '../../src/quality/counts-store.ts';
import { writeJson } from '../cli/output.ts';
import { addStackOptions, type StackFlags, withStack } from '../cli/stack.ts';
import { instantMs } from '../cli/window.ts';

interface RebuildFlags extends StackFlags {
  from?: string;
  to?: string;
  dryRun?: boolean;
}

const HELP = `
Each run wrote its counts when it ended. This adds up all runs again from their receipts, and writes their counts anew. Counts of
runs whose receipts have expired (after 90 days) are kept, and named. It may run beside other runs, and be repeated.

Examples:
  inference-monitor rebuild-counts --dry-run
  inference-monitor rebuild-counts --from 2026-11-01 --to 2026-11-08`;

export function rebuildCountsCommand(): Command {
  const command = new Command('rebuild-counts')
    .option('--from <time>', 'first day of inference (UTC); default: all')
    .option('--to <time>', 'end of the days, exclusive')
    .option('--dry-run', 'only say which runs would be added up again');
  return addStackOptions(command, HELP, 'print the runs as JSON').action(rebuild);
}

async function rebuild({ from, to, dryRun = false, json, stack }: RebuildFlags): Promise<void> {
  const nowMs = Date.now();
  const day = (text: string, afterMs = 0): string => dayOf(new Date(instantMs(text, nowMs) + afterMs).toISOString());
  const first = from === undefined ? undefined : day(from);
  // The day that contains the last millisecond before the end.
  const last = to === undefined ? undefined : day(to, -1);
  const isInside = (one: string): boolean =>
    (first === undefined || one >= first) && (last === undefined || one <= last);
  await withStack({ stack }, async ({ storage, outputs }) => {
    const result = await rebuildCounts(storage, outputs.workBucket, isInside, !dryRun);
    if (json === true) writeJson('rebuild-counts', result);
    else process.stdout.write(rebuiltText(result, dryRun));
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

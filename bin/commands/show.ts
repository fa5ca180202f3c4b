/** `inference-monitor show`: what became of a run, running or ended. */
import { Command } from 'commander';
import { printReports, reportOf } from '../cli/follow-and-report.ts';
import { addStackOptions, type StackFlags, withStack } from '../cli/stack.ts';

const HELP = `
Shows what was lost, held back or quarantined, why, and which lines; failed chunks with their error; the commands that go on from
there; links. It works while the run is running: then the figures are those of complete chunks. Those of a run that was stopped are
added up from the receipts of its chunks, a request each. Receipts are kept for 90 days, quarantined lines for a year.

Examples:
  inference-monitor show files-2026-11-20T10-00-00-0a1b2c3d4e5f6071
  inference-monitor show last-week --json`;

export function showCommand(): Command {
  return addStackOptions(new Command('show').argument('<run>', 'name or ARN of the execution'), HELP).action(show);
}

async function show(run: string, flags: StackFlags): Promise<void> {
  await withStack(flags, async (stack) => {
    await printReports(stack, [await reportOf(stack, run)], flags);
  });
}

/** `inference-monitor follow`: follows a run to its end. */
import { Command } from 'commander';
import { followAndReport, printReports } from '../cli/follow-and-report.ts';
import { addStackOptions, monitoringRun, type StackFlags, withStack } from '../cli/stack.ts';
import { readRunReport } from '../operate/run-report.ts';

const HELP = `
A bar shows the lines that have an outcome, the rate, the time left, the judge's dollars and failed chunks; in a pipe, a line every
few seconds. The end is the summary, what was quarantined and why, and links. Ctrl-C leaves the run running. The exit code is 1 if
the run failed.

Examples:
  inference-monitor follow files-2026-11-20T10-00-00-0a1b2c3d4e5f6071
  inference-monitor follow last-week --json`;

export function followCommand(): Command {
  return addStackOptions(new Command('follow').argument('<run>', 'name or ARN of the execution'), HELP).action(follow);
}

async function follow(run: string, flags: StackFlags): Promise<void> {
  await withStack(flags, async (stack) => {
    const found = await monitoringRun(stack, run);
    const { name, executionArn: arn } = found;
    if (arn !== undefined) await followAndReport(stack, [{ name, arn }], flags);
    else await printReports(stack, [await readRunReport(stack.clients, stack.outputs.workBucket, found)], flags);
  });
}

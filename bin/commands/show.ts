/** `inference-monitor show`: what a run did, running or ended; it follows it, or writes its quarantined lines, on request. */
import { followAndReport, printReports } from '../cli/follow-and-report.ts';
import { command, type FlagsOf, option, options } from '../cli/options.ts';
import { monitoringRun, runArgument, stackOptions, withStack } from '../cli/stack.ts';
import { readRunReport } from '../operate/run-report.ts';
import { showLines } from './show-lines.ts';

const OPTIONS = options(
  runArgument(),
  option('--follow', 'follow the run to its end first').conflicts(['lines', 'out', 'reason']),
  option('--lines', 'only count the quarantined lines, by reason'),
  option('-o, --out <file>', 'write the quarantined lines to this new file, as they were captured'),
  option('--reason <name>', 'only quarantined lines of this reason'),
  ...stackOptions(),
);
export type ShowFlags = FlagsOf<typeof OPTIONS>;

const HELP = `
Shows what was lost, held back or quarantined, why, and which lines; failed chunks with their error; what to do next; links. While
the run is running, the figures are those of complete chunks. With --follow, the exit code is 1 if the run failed.

With --out, the lines go to a file that inspect and process read. They are never printed, since anybody may have sent them to the
endpoint. The exit code is 1 if a line is not in the file: it was too long to be kept, and its capture file is gone.

Examples:
  inference-monitor show last-week --follow
  inference-monitor show last-week --reason NotJson --out not-json.jsonl`;

export default command('show', OPTIONS, HELP, (flags) =>
  withStack(flags, async (stack) => {
    const found = await monitoringRun(stack, flags.run);
    const { name, executionArn: arn } = found;
    if (flags.lines || flags.out !== undefined || flags.reason !== undefined) await showLines(stack, found, flags);
    else if (flags.follow && arn !== undefined) await followAndReport(stack, [{ name, arn }], flags);
    else
      await printReports('show', stack, [await readRunReport(stack.clients, stack.outputs.workBucket, found)], flags);
  }),
);

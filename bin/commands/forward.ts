/** `inference-monitor forward`: puts files that are there already, or those that failed, into the queue. */
import { Command } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { writeJson } from '../cli/output.ts';
import { startProgress } from '../cli/progress.ts';
import { addStackOptions, type DeployedStack, type StackFlags, withStack } from '../cli/stack.ts';
import { FROM_OPTION, TO_OPTION, type WindowFlags, windowOfFlags } from '../cli/window.ts';
import { type Forwarding, filesToForward, findForwarding, putBack, sendEvents } from '../operate/forwarding.ts';

interface ForwardFlags extends WindowFlags, StackFlags {
  prefix?: string;
  failed?: boolean;
  dryRun?: boolean;
}

/** What `--json` prints. */
export interface ForwardReport {
  /** Files of the window, or about as many dead letters. */
  files: number;
  /** Those of the files. */
  bytes: number;
  /** `false` with `--dry-run`. */
  queued: boolean;
}

const HELP = `
New files are forwarded by themselves. This sends the events of older ones to the same queue, and ends. A file that Arthur has got
is not sent to it again for 400 days. Files are chosen by the hour of their folder.

--failed has SQS put the dead letters back into the queue. Repair the cause first: dead letters return otherwise.

The metrics ForwardedFiles and ForwardedInferences, and the alarm ForwardFailed, tell what becomes of the files.

Examples:
  inference-monitor forward --from 2026-11-01 --to 2026-11-08 --dry-run
  inference-monitor forward --from 7d --prefix my-endpoint/blue/
  inference-monitor forward --failed`;

export function forwardCommand(): Command {
  const command = new Command('forward')
    .option(...FROM_OPTION)
    .option(...TO_OPTION)
    .option('--prefix <prefix>', 'only keys that begin so')
    .option('--failed', 'put the dead letters back')
    .option('--dry-run', 'only count');
  return addStackOptions(command, HELP).action(forward);
}

async function forward(flags: ForwardFlags): Promise<void> {
  const given = flags.from !== undefined || flags.to !== undefined || flags.prefix !== undefined;
  if (flags.failed ? given : flags.from === undefined) {
    throw new PermanentError('SourceMissing', 'No captures were named', {
      expected: '--from (with --to and --prefix), or --failed alone',
    });
  }
  await withStack(flags, async (stack) => {
    const { lambda } = stack.clients;
    const forwarding = await findForwarding(lambda, stack.prefix);
    const { files, bytes } = flags.failed
      ? { files: await putBack(lambda, forwarding, flags.dryRun ?? false), bytes: 0 }
      : await queueFiles(stack, forwarding, flags);
    const report = { files, bytes, queued: !flags.dryRun };
    if (flags.json) writeJson('forward', report);
    else process.stdout.write(reportText(report, flags));
  });
}

async function queueFiles(
  { clients: { lambda }, outputs, storage }: DeployedStack,
  forwarding: Forwarding,
  flags: ForwardFlags,
): Promise<{ files: number; bytes: number }> {
  const window = { within: flags.prefix, ...windowOfFlags(flags) };
  const found = filesToForward(storage, outputs.captureBucket, forwarding, window);
  const progress = startProgress(process.stderr);
  const queue = flags.dryRun ? undefined : forwarding.queue;
  const sum = await sendEvents(lambda, queue, found, (files) =>
    progress.show(`${files.toLocaleString('en-US')} files`),
  );
  progress.end();
  return sum;
}

function reportText({ files, bytes, queued }: ForwardReport, { failed }: ForwardFlags): string {
  const [count, size] = [files, bytes].map((number) => number.toLocaleString('en-US'));
  if (failed) return `About ${count} dead letters${queued ? ': SQS is putting them back' : ''}.\n`;
  return `${count} files, ${size} bytes${queued ? ': their events are in the queue' : ''}.\n`;
}

/** `inference-monitor process`: processes captures again, or files of this machine for the first time, and follows the runs. */
import { Command } from 'commander';
import type { BackfillInput } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { jsonOption, notice } from '../cli/output.ts';
import { addRunOptions, inputOptions, type RunFlags } from '../cli/run-options.ts';
import { type DeployedStack, type StackFlags, stackOption, withStack } from '../cli/stack.ts';
import { startAndFollow } from '../cli/start-and-follow.ts';
import { type WindowFlags, windowOfFlags } from '../cli/window.ts';
import { captureSource, type StackCaptures } from '../operate/capture-source.ts';
import { processLocal } from './process-local.ts';

type ProcessFlags = RunFlags & StackFlags & WindowFlags;

const HELP = `
A source is s3://bucket/key.jsonl, s3://bucket/prefix/, a key or a prefix in the stack's capture bucket, or a file or a folder on
this machine. Without one, --from is needed. Times are instants such as 2026-11-20T09:00:00Z, days (UTC), or ages such as 12h, 7d.

Processing again is safe: what has its trace and its verdicts is left as it is. The run goes on if this command is interrupted.

Files of this machine are put into the capture bucket as SageMaker would put them. The stack's own rule then starts their runs, with
the stack's settings, and this command follows them. It starts none itself, so that nothing is judged twice: options of a run can
be given once the files are in the bucket. A file that is there with other content is refused, and never overwritten.

The exit code is 1 if a run failed, and 130 after Ctrl-C.

Examples:
  inference-monitor process s3://my-bucket/my-endpoint/AllTraffic/2026/11/20/10/a.jsonl
  inference-monitor process --from 2026-11-20 --to 2026-11-21 --dry-run
  inference-monitor process my-endpoint/blue/ --from 7d --sample-rate 0.1 --budget 5 --name last-week
  inference-monitor process ./captures`;

export function processCommand(): Command {
  const command = new Command('process')
    .argument('[source]', 'captures in S3, or a file or a folder')
    .option('--from <time>', 'captures from this time on')
    .option('--to <time>', 'captures before this time');
  return addRunOptions(command)
    .addOption(jsonOption())
    .addOption(stackOption())
    .addHelpText('after', HELP)
    .action(processCaptures);
}

async function processCaptures(source: string | undefined, flags: ProcessFlags): Promise<void> {
  const range = rangeOf(flags);
  // An empty source is a variable of the shell that is not set, and would mean all captures.
  if (source === '' || (source === undefined && range.from === undefined)) {
    throw new PermanentError('SourceMissing', 'It is not said which captures to process', {
      expected: 'a source, or --from (with --to) for all captures of the stack',
    });
  }
  await withStack(flags, async (stack) => {
    const captures = capturesOf(stack);
    const found = await captureSource(stack.storage, captures, source, range);
    if ('local' in found) return processLocal(stack, captures, found.local, flags);
    const { files, bytes, more } = found.measured;
    notice(
      `${more ? 'more than ' : ''}${files.toLocaleString('en-US')} capture file${files === 1 ? '' : 's'}, ${megabytes(bytes)}`,
    );
    await startAndFollow(stack, { ...found.input, ...inputOptions(flags) }, flags);
  });
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 0)} MB`;

const capturesOf = ({ outputs }: DeployedStack): StackCaptures => ({
  bucket: outputs.captureBucket,
  prefix: outputs.capturePrefix,
  endpoint: outputs.endpoint,
});

/** @throws PermanentError `InvalidTime` */
function rangeOf(flags: ProcessFlags): Pick<BackfillInput, 'from' | 'to'> {
  const { fromMs, toMs } = windowOfFlags(flags);
  return {
    ...(fromMs === undefined ? {} : { from: new Date(fromMs).toISOString() }),
    ...(toMs === undefined ? {} : { to: new Date(toMs).toISOString() }),
  };
}

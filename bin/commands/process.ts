/**
 * `inference-monitor process`: processes captures again, or files of this machine for the first time, and follows the
 * runs.
 */

import type { BackfillInput } from '../../src/core/contract/input.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { many, megabytes } from '../../src/core/text/figure-text.ts';
import { exact } from '../../src/core/text/page.ts';
import { followAndReport, inputOptions, runOptions, startAndFollow } from '../cli/follow-and-report.ts';
import { unlessInterrupted } from '../cli/interruption.ts';
import { argument, command, type FlagsOf, options } from '../cli/options.ts';
import { type About, notice, print, progress } from '../cli/output.ts';
import type { ProcessOutput } from '../cli/run-json.ts';
import { commandText } from '../cli/run-text.ts';
import { type DeployedStack, openStack, stackOptions } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { captureSource, planUpload, type StackCaptures, type UploadPlan } from '../operate/capture-source.ts';
import { putCaptures, startedRuns } from '../operate/process-files.ts';

const OPTIONS = options(
  argument('[source]', 'captures in S3, or a file or a folder'),
  ...windowOptions(),
  ...runOptions(),
  ...stackOptions(),
);
type ProcessFlags = FlagsOf<typeof OPTIONS>;

export type Output = About & ProcessOutput;

export default command('process', OPTIONS, async (flags) => {
  const { source } = flags;
  const range = rangeOf(flags);
  // An empty source is a variable of the shell that is not set, and would mean all captures.
  if (source === '' || (source === undefined && range.from === undefined)) {
    const facts = { expected: 'a source, or --from (with --to) for all captures of the stack' };
    throw new PermanentError('SourceMissing', 'No source is given', facts);
  }
  const stack = await openStack(flags);
  const { captureBucket: bucket, capturePrefix: prefix, endpoint } = stack.outputs;
  const captures = { bucket, prefix, endpoint };
  const found = await captureSource(stack.storage, captures, source, range);
  if ('local' in found) return processLocal(stack, captures, found.local, flags);
  const { files, bytes, more } = found.measured;
  notice(`${more ? 'more than ' : ''}${many(files, 'capture file')}, ${megabytes(bytes)}`);
  await startAndFollow(stack, { ...found.input, ...inputOptions(flags) }, flags);
});

/** @throws PermanentError `InvalidTime` */
function rangeOf(flags: ProcessFlags): Pick<BackfillInput, 'from' | 'to'> {
  const { fromMs, toMs } = windowOfFlags(flags);
  const iso = (ms: number): string => new Date(ms).toISOString();
  return { ...(fromMs !== undefined && { from: iso(fromMs) }), ...(toMs !== undefined && { to: iso(toMs) }) };
}

// ------------------------------------------------------------------------------------------- files of this machine
// They are put into the bucket, where the stack's rule starts the runs.

/**
 * Uploads capture files of this machine to the bucket, and follows the runs that the stack's rule starts.
 *
 * @throws PermanentError `OptionsNeedCaptures`, and the errors of `planUpload`
 */
async function processLocal(stack: DeployedStack, captures: StackCaptures, path: string, flags: ProcessFlags) {
  const plan = await planUpload(stack.storage, captures, path);
  const { fresh, present } = plan;
  if (fresh.length === 0) return processPresent(stack, plan, flags);
  assertNoOptions(flags, plan);
  const bytes = fresh.reduce((total, file) => total + file.bytes, 0);
  if (present.length > 0) {
    notice(`${areFiles(present)} in the bucket already, with the same content, and left out.`);
  }
  const put = `${many(fresh.length, 'file')}, ${many(bytes, 'byte')}, into s3://${captures.bucket}/${captures.prefix}`;
  notice(`${flags.dryRun ? 'would put' : 'putting'} ${put}`);
  if (flags.dryRun) {
    printFiles(stack, fresh, flags);
    notice(`What judging them would cost: ${commandText(['inspect', path])}`);
    return;
  }
  if (flags.detach) {
    await putCaptures(stack.storage, captures.bucket, fresh);
    printFiles(stack, fresh, flags);
    const next = commandText(['runs'], stack.flag);
    notice(`The files are in the bucket. The stack starts their runs within a few minutes: ${next}`);
    return;
  }
  await followFiles(stack, plan, flags);
}

function printFiles({ outputs, about }: DeployedStack, fresh: UploadPlan['fresh'], { json }: ProcessFlags): void {
  const files = fresh.map(({ path, key, bytes }) => ({ path, key, bytes }));
  const page = files.map(({ path, key }) => exact(`${path} → s3://${outputs.captureBucket}/${key}`));
  print<ProcessOutput>({ runs: [], files }, json, page, about);
}

const areFiles = ({ length }: readonly unknown[]): string => `${many(length, 'file')} ${length === 1 ? 'is' : 'are'}`;

/**
 * Options cannot reach the runs that the rule starts, which have the settings of the stack.
 *
 * @throws PermanentError `OptionsNeedCaptures`
 */
function assertNoOptions(flags: ProcessFlags, { fresh }: Pick<UploadPlan, 'fresh'>): void {
  const { dryRun: _, ...options } = inputOptions(flags);
  const given = [...Object.keys(options), ...(flags.name === undefined ? [] : ['name'])];
  if (given.length === 0 || (given.length === 1 && options.evaluate === true)) return;
  throw new PermanentError('OptionsNeedCaptures', 'These options need captures that are in the bucket', {
    got: `${given.join(', ')} for ${fresh.length} files that are not`,
    expected: "the files alone at first: the stack's rule starts their runs, with the settings of the stack",
  });
}

/** All files are in the bucket, so the run is an ordinary one. */
async function processPresent(stack: DeployedStack, { present }: UploadPlan, flags: ProcessFlags): Promise<void> {
  const { captureBucket: bucket, workBucket } = stack.outputs;
  notice(`${areFiles(present)} in the bucket already, and processed again there.`);
  const options = inputOptions(flags);
  const [only, ...others] = present;
  if (only !== undefined && others.length === 0) {
    const detail = { bucket: { name: bucket }, object: { key: only.key } };
    return startAndFollow(stack, { detail, ...options }, flags);
  }
  const key = workKeys.startList(`by-hand-${new Date().toISOString().replaceAll(':', '-')}`);
  const list = present.map((file) => `${JSON.stringify({ bucket, key: file.key })}\n`).join('');
  await stack.storage.putText(workBucket, key, list, 'application/jsonlines');
  await startAndFollow(stack, { files: { key }, ...options }, flags);
}

async function followFiles(stack: DeployedStack, { fresh }: UploadPlan, flags: ProcessFlags): Promise<void> {
  const runs = await unlessInterrupted(
    ({ signal }) => startedRuns(stack, fresh, progress.show, signal),
    () => [
      'What is in the bucket is processed without this command. To see it:',
      `  ${commandText(['runs'], stack.flag)}`,
    ],
  );
  if (runs !== undefined) await followAndReport(stack, runs, flags);
}

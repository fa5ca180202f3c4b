/** Processes capture files of this machine: puts them into the bucket, and follows the runs that the stack's rule starts. */
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { singleLine } from '../../src/core/text/terminal-text.ts';
import { comeBack, reportRuns, unlessInterrupted } from '../cli/follow-and-report.ts';
import { followDisplay } from '../cli/follow-display.ts';
import { notice, writeJson } from '../cli/output.ts';
import { commandText } from '../cli/run-hints.ts';
import { inputOptions, type RunFlags } from '../cli/run-options.ts';
import type { DeployedStack, StackFlags } from '../cli/stack.ts';
import { startAndFollow } from '../cli/start-and-follow.ts';
import type { StackCaptures } from '../operate/capture-source.ts';
import { hasEnded } from '../operate/follow-runs.ts';
import { processFiles, putCaptures, type Run } from '../operate/process-files.ts';
import { type RunProgress, RunWatcher } from '../operate/run-progress.ts';
import { planUpload, type UploadPlan } from '../operate/upload-captures.ts';

type LocalFlags = RunFlags & StackFlags;

/** Between two looks at the executions of the stack. */
const POLL_MS = 2_000;
const EMULATED_POLL_MS = 400;

/** @throws PermanentError `OptionsNeedCaptures`, and what `planUpload` throws */
export async function processLocal(
  stack: DeployedStack,
  captures: StackCaptures,
  path: string,
  flags: LocalFlags,
): Promise<void> {
  const plan = await planUpload(stack.storage, captures, path);
  const { fresh, present } = plan;
  if (fresh.length === 0) return processPresent(stack, captures, plan, flags);
  assertNoOptions(flags, plan);
  const bytes = fresh.reduce((total, file) => total + file.bytes, 0);
  if (present.length > 0) {
    notice(`${counted(present)} in the bucket already, with the same content, and left out.`);
  }
  notice(
    `${flags.dryRun ? 'would put' : 'putting'} ${fresh.length} file${fresh.length === 1 ? '' : 's'}, ${bytes.toLocaleString('en-US')} bytes, into s3://${captures.bucket}/${captures.prefix}`,
  );
  if (flags.dryRun) {
    printFiles(captures.bucket, fresh, flags);
    notice(`What judging them would cost: ${commandText(['inspect', path])}`);
    return;
  }
  if (flags.detach) {
    await putCaptures(stack.clients, captures.bucket, fresh);
    printFiles(captures.bucket, fresh, flags);
    notice(
      `The files are in the bucket. The stack starts their runs within a few minutes: ${commandText(['runs'], flags.stack)}`,
    );
    return;
  }
  await followFiles(stack, plan, flags);
}

function printFiles(bucket: string, fresh: UploadPlan['fresh'], { json }: LocalFlags): void {
  const files = fresh.map(({ path, key, bytes }) => ({ path, key, bytes }));
  const lines = files.map(({ path, key }) => `${singleLine(`${path} → s3://${bucket}/${key}`)}\n`);
  if (json) writeJson('process', { runs: [], files });
  else process.stdout.write(lines.join(''));
}

const counted = ({ length }: readonly unknown[]): string => (length === 1 ? '1 file is' : `${length} files are`);

/**
 * Options cannot reach the runs that the rule starts, which have the settings of the stack.
 *
 * @throws PermanentError `OptionsNeedCaptures`
 */
function assertNoOptions(flags: RunFlags, { fresh }: Pick<UploadPlan, 'fresh'>): void {
  const { dryRun: _, ...options } = inputOptions(flags);
  const given = [...Object.keys(options), ...(flags.name === undefined ? [] : ['name'])];
  if (given.length === 0 || (given.length === 1 && options.evaluate === true)) return;
  throw new PermanentError('OptionsNeedCaptures', 'Options of a run are for captures that are in the bucket', {
    got: `${given.join(', ')} for ${fresh.length} files that are not`,
    expected: "the files alone at first: the stack's rule starts their runs, with the settings of the stack",
  });
}

/** All files are in the bucket, so the run is an ordinary one. */
async function processPresent(
  stack: DeployedStack,
  { bucket }: StackCaptures,
  { present }: UploadPlan,
  flags: LocalFlags,
): Promise<void> {
  notice(`${counted(present)} in the bucket already, and processed again there.`);
  const options = inputOptions(flags);
  const [only, ...others] = present;
  if (only !== undefined && others.length === 0) {
    return startAndFollow(
      stack,
      { detail: { bucket: { name: bucket }, object: { key: only.key } }, ...options },
      flags,
    );
  }
  const key = workKeys.startList(`by-hand-${new Date().toISOString().replaceAll(':', '-')}`);
  const list = present.map((file) => `${JSON.stringify({ bucket, key: file.key })}\n`).join('');
  await stack.storage.putText(stack.outputs.workBucket, key, list, 'application/jsonlines');
  await startAndFollow(stack, { files: { key }, ...options }, flags);
}

async function followFiles(stack: DeployedStack, { fresh }: UploadPlan, flags: LocalFlags): Promise<void> {
  const { clients, outputs } = stack;
  const display = followDisplay(process.stderr);
  const watched = new Map<string, { watcher: RunWatcher; last?: RunProgress }>();
  const look = async (runs: readonly Run[]): Promise<void> => {
    for (const run of runs) {
      const one = watched.get(run.arn) ?? { watcher: new RunWatcher(clients, outputs.workBucket, run) };
      watched.set(run.arn, one);
      if (one.last === undefined || !hasEnded(one.last)) one.last = await one.watcher.look();
      else one.last.news = [];
    }
    const looks = [...watched.values()].flatMap(({ last }) => last ?? []);
    if (looks.length === 0) display.wait("waiting for the stack's rule to start runs, a minute or two …");
    else display.look(looks);
  };
  const runs = await unlessInterrupted(
    (signal) =>
      processFiles({
        clients,
        captureBucket: outputs.captureBucket,
        workBucket: outputs.workBucket,
        stateMachineArn: outputs.stateMachineArn,
        files: fresh,
        onProgress: ({ runs: found }) => look(found),
        signal,
        pollMs: process.env.AWS_ENDPOINT_URL ? EMULATED_POLL_MS : POLL_MS,
      }),
    () => {
      const found = [...watched.values()].flatMap(({ last }) => (last === undefined ? [] : { name: last.run }));
      const rest = 'What is in the bucket is processed without this command. To see it:';
      return found.length > 0 ? comeBack(found, flags.stack) : [rest, `  ${commandText(['runs'], flags.stack)}`];
    },
  );
  display.end();
  if (runs !== undefined) await reportRuns(stack, runs, flags);
}

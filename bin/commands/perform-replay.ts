/** Performs the replay command: source, target, replay, result files and exit code. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { decodeOptions } from '../../src/monitoring/chunk/decode-lines.ts';
import { isByCapturedTimes, scheduleSeconds } from '../../src/replay/derived-options.ts';
import type { DryRun } from '../../src/replay/dry-run.ts';
import { tooManyFailed } from '../../src/replay/finished.ts';
import { type FollowUps, openFollowUps } from '../../src/replay/follow-ups.ts';
import { ConnectionPool } from '../../src/replay/http/pool.ts';
import { checkedOptions, type ReplayOptions } from '../../src/replay/options.ts';
import { keepMasked } from '../../src/replay/request/keep.ts';
import type { Target } from '../../src/replay/request/target.ts';
import { FILES } from '../../src/replay/results/result-set.ts';
import { indexCaptures } from '../../src/replay/source/index-captures.ts';
import { openSource } from '../../src/replay/source/open-source.ts';
import type { SkippedLine } from '../../src/replay/source/types.ts';
import { type ReplayRequest, type ReplayResult, replayToDirectory } from '../../src/replay/to-directory.ts';
import { confirmed } from '../cli/confirm.ts';
import { type Interruption, unlessInterrupted } from '../cli/interruption.ts';
import { EXIT, notice, print } from '../cli/output.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { openStorage } from '../cli/storage.ts';
import { windowOfFlags } from '../cli/window.ts';
import { prepareDirectory, releaseDirectory } from './replay-directory.ts';
import type { ReplayFlags } from './replay-options.ts';
import { type ReplayStack, replayStack } from './replay-stack.ts';
import { targetOf } from './replay-target.ts';
import { dryRunPage, longWarning, printResult, showReplay } from './replay-text.ts';

/** The output with `--dry-run --json`. */
export interface DryRunOutput extends DryRun {
  /** Captured lines that are not sent, by reason. */
  skipped: Record<string, number>;
}

/** The input of a replay. */
type Captures = Pick<ReplayRequest, 'source' | 'files' | 'index' | 'skipped'>;

/** A unique name that sorts by time. */
const newRunName = (): string =>
  `replay-${new Date().toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}-${randomBytes(2).toString('hex')}`;

/** Lines that were skipped before the result directory exists are kept in memory up to this number. */
const MAX_EARLY_SKIPPED = 10_000;

/** The flags, and the options that follow from them. */
interface Asked extends ReplayFlags {
  options: ReplayOptions;
}

/** Sets the exit code of the process. @throws PermanentError when the replay could not run */
export async function performReplay(source: string, given: ReplayFlags): Promise<void> {
  const flags = { ...given, options: checkedOptions(given) };
  const stack = replayStack(flags);
  const target = flags.dryRun ? undefined : await targetOf(flags, stack.mark);
  // A dry run checks the URL as well, without reading the secret.
  if (flags.dryRun && flags.url !== undefined) await targetOf({ ...flags, headersSecret: undefined }, stack.mark);
  const performed = (interruption: Interruption): Promise<void> =>
    withCaptures(source, flags, stack, interruption.signal, (captures) =>
      target
        ? replayAndReport(captures, target, flags, stack, interruption)
        : planOnly(captures, flags, stack, interruption.signal),
    );
  await unlessInterrupted(performed, () => ['Stopped before anything was sent.']);
}

/** Opens and indexes the captures for the duration of the work. */
async function withCaptures(
  source: string,
  { options, ...flags }: Asked,
  stack: ReplayStack,
  signal: AbortSignal,
  work: (captures: Captures) => Promise<void>,
): Promise<void> {
  const window = windowOfFlags(flags);
  const { files, dispose } = await openSource(source, { ...window, storage: openStorage, signal });
  try {
    const skipped: SkippedLine[] = [];
    let dropped = 0;
    const skip = (line: SkippedLine): void => {
      if (skipped.length < MAX_EARLY_SKIPPED) skipped.push(line);
      else dropped++;
    };
    const marks = () => stack.marks();
    const needsTime = isByCapturedTimes(options);
    const index = await indexCaptures(files, { ...window, needsTime, onSkipped: skip, marks, signal });
    if (dropped > 0) {
      const message = `${dropped} more lines were skipped before the replay started`;
      skipped.push({ file: source, line: 0, reason: 'FurtherLines', message });
    }
    await work({ source, files, index, skipped });
  } finally {
    await dispose();
  }
}

async function planOnly(captures: Captures, { options, json }: Asked, stack: ReplayStack, signal: AbortSignal) {
  const { files, index, skipped } = captures;
  const { dryRun } = await import('../../src/replay/dry-run.ts');
  const reasons = new Map<string, number>();
  const count = ({ reason }: SkippedLine): void => void reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  for (const line of skipped) count(line);
  const onBatch = (): void => signal.throwIfAborted();
  const keep = keepMasked(decodeOptions(await stack.settings({})));
  const plan = await dryRun({ files, index, options, keep, onSkipped: count, onBatch });
  print<DryRunOutput>({ ...plan, skipped: Object.fromEntries(reasons) }, json, dryRunPage(plan, reasons));
  // A replay without requests ends with the same code.
  if (plan.requests === 0) process.exitCode = EXIT.found;
}

async function replayAndReport(
  captures: Captures,
  target: Target,
  flags: Asked,
  stack: ReplayStack,
  interruption: Interruption,
): Promise<void> {
  const { options } = flags;
  const { index } = captures;
  const run = flags.run ?? newRunName();
  const directory = flags.out ?? join('replays', run);
  const seconds = scheduleSeconds(options, index);
  await confirmLong(seconds, flags.yes);
  const settings = await stack.settings({ BEDROCK_MODEL_ID: flags.judgeModel, MLFLOW_TRACKING_URI: flags.trackingUri });
  const { judge, mlflow } = await connectServices(flags, settings);
  const pool = new ConnectionPool(target.origin);
  let endDisplay = (): void => {};
  let prepared = false;
  try {
    await pool.open();
    interruption.signal.throwIfAborted();
    // Prepare the directory after all services were reached: a replay that cannot run must not remove earlier results.
    await prepareDirectory(directory);
    prepared = true;
    if (target.description.kind === 'sagemaker') await stack.register(run);
    interruption.writes('Stopping: writing what was measured. Press Ctrl-C again to leave immediately.');
    const place = { run, directory };
    const { report, compare, inputs } = flags;
    const followUps = await openFollowUps({ ...place, target: target.description, report, compare, judge, mlflow });
    const result = await replayToDirectory({
      ...place,
      ...captures,
      target,
      pool,
      options,
      inputs,
      ...decodeOptions(settings),
      keepCaptured: followUps.keepCaptured,
      traceIdOf: mlflow?.traceIdOf,
      mlflow,
      signal: interruption.signal,
      read: (measured, clock) => followUps.read(measured, clock),
      onStarted: (progress, stats) => {
        const total = () =>
          Math.min(options.requestCount ?? Number.POSITIVE_INFINITY, index.total * options.repeat - progress.skipped());
        const whole = isWholeSchedule(options) ? seconds : undefined;
        if (!flags.quiet) endDisplay = showReplay({ progress, stats, total, seconds: whole });
      },
    }).catch(async (error: unknown) => {
      await followUps.abandon();
      throw error;
    });
    endDisplay();
    if (result.unwritten !== undefined) {
      await followUps.abandon();
      printResult(result, {}, flags, { directory, experiment: '' });
      throw result.unwritten;
    }
    await followUp(followUps, result, flags, interruption, { directory, experiment: mlflow?.experiment.name ?? '' });
  } finally {
    endDisplay();
    pool.close();
    mlflow?.close();
    if (prepared) await releaseDirectory(directory);
  }
}

/** A longer replay needs the user's confirmation. */
const ASK_SECONDS = 3_600;

/** @throws PermanentError `NotConfirmed` */
async function confirmLong(seconds: number, yes: boolean | undefined): Promise<void> {
  const warning = longWarning(seconds);
  if (warning === undefined) return;
  notice(warning);
  if (seconds < ASK_SECONDS || (await confirmed('The replay takes hours. Start it?', yes))) return;
  throw new PermanentError('NotConfirmed', 'Nothing was sent', { got: 'no', expected: 'y' });
}

/** Whether the replay covers the whole schedule, so that both have the same length. */
const isWholeSchedule = (options: ReplayOptions): boolean =>
  isByCapturedTimes(options) &&
  [options.fixedScheduleStartOffset, options.fixedScheduleEndOffset, options.requestCount].every(
    (limit) => limit === undefined,
  );

/** Connects to the judge and MLflow before the first request, so that an unreachable service costs nothing. */
async function connectServices(flags: ReplayFlags, settings: CommandSettings) {
  if (!flags.judge && !flags.mlflow) return {};
  const { connectPairwiseJudge, connectReplayMlflow } = await import('./replay-services.ts');
  const judge = flags.judge ? await connectPairwiseJudge(flags, settings) : undefined;
  return { judge, mlflow: flags.mlflow ? await connectReplayMlflow(settings, flags.experiment) : undefined };
}

/** Compares, reports and publishes, prints the figures, and sets the exit code. */
async function followUp(
  followUps: FollowUps,
  result: ReplayResult,
  flags: Asked,
  interruption: Interruption,
  { directory, experiment }: { directory: string; experiment: string },
): Promise<void> {
  const judging = flags.judge && !result.wasCancelled;
  interruption.writes(
    `${judging ? 'The judge is not asked any more. ' : ''}The results are being written. Press Ctrl-C again to leave immediately.`,
  );
  process.exitCode = exitCodeOf(result, flags.options);
  const followed = await followUps.finish(result, process.exitCode === EXIT.found, interruption.signal);
  const report = flags.report ? join(directory, FILES.report) : undefined;
  printResult(result, followed, flags, { directory, experiment, report });
  for (const failure of followed.failures) notice(failure);
  if (followed.judgeStopped) process.exitCode = EXIT.interrupted;
  // The judge or MLflow failed after the replay.
  else if (followed.failures.length > 0 && !result.wasCancelled) process.exitCode = EXIT.notDone;
}

function exitCodeOf(result: ReplayResult, options: ReplayOptions): number {
  if (result.wasCancelled) return EXIT.interrupted;
  const { stats } = result.results;
  const unsent = stats.completed === 0 || result.incomplete !== undefined;
  return unsent || tooManyFailed(stats, options.maxErrorRate) !== undefined ? EXIT.found : EXIT.done;
}

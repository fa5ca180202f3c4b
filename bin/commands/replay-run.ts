/** The replay command at work: source, target, run, files, and what the exit code says of it. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { ConnectionPool } from '../../src/replay/http/pool.ts';
import { tooManyFailed } from '../../src/replay/measure/error-rate.ts';
import { checkOptions, type ReplayOptions } from '../../src/replay/options.ts';
import { openSource } from '../../src/replay/source/open-source.ts';
import type { SortedIndex } from '../../src/replay/source/sorted-index.ts';
import type { SkippedLine, SourceFile } from '../../src/replay/source/types.ts';
import type { Target } from '../../src/replay/targets/target.ts';
import {
  type CaptureWindow,
  indexFor,
  overridesOf,
  type ReplayResult,
  replayToDirectory,
  scheduleOf,
  scheduleSeconds,
  timingOf,
} from '../../src/replay/to-directory.ts';
import type { Storage } from '../../src/shared/storage.ts';
import { prepareDirectory } from './replay-directory.ts';
import { ReplayDisplay } from './replay-display.ts';
import { type ExtraFlags, ReplayExtras } from './replay-extras.ts';
import { type TargetFlags, targetOf } from './replay-target.ts';
import { dryRunText, longWarning, resultText } from './replay-text.ts';
import { EXIT_STOPPED, type Stopping, stopOnSignals } from './stopping.ts';

/** The replay ran and is a failure by its own measure; that it could not run is 2. */
const EXIT_FAILED = 1;
/** As when it could not run: what was asked for after it, the judge or MLflow, is not all there. */
const EXIT_UNFINISHED = 2;
export interface ReplayFlags extends TargetFlags, ExtraFlags {
  options: ReplayOptions;
  window: CaptureWindow;
  run?: string;
  output?: string;
  dryRun: boolean;
  json: boolean;
  raw: boolean;
  inputs: boolean;
  quiet: boolean;
}

/** A name that sorts by time and is not given twice. */
const newRunName = (): string =>
  `replay-${new Date().toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}-${randomBytes(2).toString('hex')}`;

async function openStorage(): Promise<Storage> {
  const { createS3Client, Storage } = await import('../../src/shared/storage.ts');
  return new Storage(createS3Client());
}

/** Lines that are skipped before there is a directory to report them in. */
const MAX_EARLY_SKIPPED = 10_000;

export async function runReplayCommand(source: string, flags: ReplayFlags): Promise<void> {
  checkOptions(flags.options);
  // A dry run says what is wrong with the URL too; it reads no secret for that.
  const named = !flags.dryRun || flags.url !== undefined;
  const found = named ? await targetOf(flags.dryRun ? { ...flags, headersSecret: undefined } : flags) : undefined;
  const target = flags.dryRun ? undefined : found;
  const stopping = stopOnSignals();
  try {
    await runFrom(source, target, flags, stopping);
  } catch (error) {
    if (stopping.begun || !stopping.signal.aborted) throw error;
    console.error('Stopped before anything was sent.');
    process.exitCode = EXIT_STOPPED;
  } finally {
    stopping.dispose();
  }
}

async function runFrom(
  source: string,
  target: Target | undefined,
  flags: ReplayFlags,
  stopping: Stopping,
): Promise<void> {
  const { signal } = stopping;
  const { files, dispose } = await openSource(source, { ...flags.window, storage: openStorage, signal });
  try {
    const skipped: SkippedLine[] = [];
    let dropped = 0;
    const skip = (line: SkippedLine): void => {
      if (skipped.length < MAX_EARLY_SKIPPED) skipped.push(line);
      else dropped++;
    };
    const index = await indexFor(files, flags.options, flags.window, skip, { signal });
    if (dropped > 0) {
      const message = `${dropped} more lines were skipped before the replay began`;
      skipped.push({ file: source, line: 0, reason: 'FurtherLines', message });
    }
    if (target) await replay(files, index, skipped, target, flags, stopping);
    else await planOnly(files, index, skipped, flags, signal);
  } finally {
    await dispose();
  }
}

async function planOnly(
  files: readonly SourceFile[],
  index: SortedIndex,
  skipped: readonly SkippedLine[],
  { options, json }: ReplayFlags,
  signal: AbortSignal,
): Promise<void> {
  const { dryRun } = await import('../../src/replay/dry-run.ts');
  const reasons = new Map<string, number>();
  const count = (line: SkippedLine): void => {
    reasons.set(line.reason, (reasons.get(line.reason) ?? 0) + 1);
  };
  for (const line of skipped) count(line);
  const plan = await dryRun(files, index, scheduleOf(options), overridesOf(options), count, undefined, signal);
  console.log(json ? JSON.stringify({ ...plan, skipped: Object.fromEntries(reasons) }) : dryRunText(plan, reasons));
  // As the replay itself would end.
  if (plan.requests === 0) process.exitCode = EXIT_FAILED;
}

async function replay(
  files: readonly SourceFile[],
  index: SortedIndex,
  skipped: readonly SkippedLine[],
  target: Target,
  flags: ReplayFlags,
  stopping: Stopping,
): Promise<void> {
  const { options } = flags;
  const run = flags.run ?? newRunName();
  const directory = flags.output ?? join('replays', run);
  const timing = timingOf(options);
  const spanMs = index.total > 0 ? index.lastMs - index.firstMs : 0;
  const seconds = timing.kind === 'concurrency' ? 0 : scheduleSeconds(options, spanMs, index.total);
  const wholeSchedule =
    timing.kind === 'fixed' && options.startOffsetMs === undefined && options.endOffsetMs === undefined;
  const extras = await ReplayExtras.connect(flags, directory, run, target);
  const pool = new ConnectionPool(target.origin);
  let display: ReplayDisplay | undefined;
  try {
    await pool.open();
    stopping.signal.throwIfAborted();
    // Not before all can be reached: a replay that cannot run takes no earlier results away.
    await prepareDirectory(directory);
    stopping.begun = true;
    const warning = longWarning(seconds);
    if (warning !== undefined) console.error(warning);
    await extras.open();
    const result = await replayToDirectory({
      run,
      files,
      index,
      target,
      pool,
      options,
      directory,
      inputs: flags.inputs,
      raw: flags.raw,
      keepCaptured: extras.keepCaptured,
      traceIdOf: extras.traceIdOf,
      skipped,
      signal: stopping.signal,
      read: (measured, clock) => extras.read(measured, clock),
      onStarted: (progress, stats) => {
        stopping.say('Stopping: writing what was measured. Ctrl-C again to leave at once.');
        if (flags.quiet) return;
        display = new ReplayDisplay({
          out: process.stderr,
          progress,
          stats,
          total: () =>
            Math.min(
              options.requestCount ?? Number.POSITIVE_INFINITY,
              index.total * options.repeat - progress.skipped(),
            ),
          seconds: wholeSchedule && options.requestCount === undefined ? seconds : undefined,
        });
      },
    });
    display?.stop();
    const judging = flags.judge && !result.wasCancelled;
    stopping.say(
      `${judging ? 'The judge is asked no more, and the' : 'The'} results are being written. Ctrl-C again to leave at once.`,
    );
    process.exitCode = exitCodeOf(result, options);
    const failed = process.exitCode === EXIT_FAILED;
    const { lines, failures, stopped } = await extras.finish(result, options, failed, stopping.signal);
    console.log([...lines, resultText(result, directory)].join('\n'));
    for (const failure of failures) console.error(failure);
    if (stopped) process.exitCode = EXIT_STOPPED;
    else if (failures.length > 0 && !result.wasCancelled) process.exitCode = EXIT_UNFINISHED;
  } finally {
    display?.stop();
    pool.close();
    extras.close();
  }
}

function exitCodeOf(result: ReplayResult, options: ReplayOptions): number {
  if (result.wasCancelled) return EXIT_STOPPED;
  const { stats } = result.results;
  const unsent = stats.completed === 0 || result.incomplete !== undefined;
  return unsent || tooManyFailed(stats, options.maxErrorRate) !== undefined ? EXIT_FAILED : 0;
}

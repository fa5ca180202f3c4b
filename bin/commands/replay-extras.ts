/** What is done beside and after the replay itself: comparison, report, MLflow. Each is loaded only when it is asked for. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunClock } from '../../lambda/replay/clock.ts';
import type { JudgeSettings } from '../../lambda/replay/compare/judge-replies.ts';
import type { CapturedComparison, CapturedReplies } from '../../lambda/replay/compare/with-captured.ts';
import type { Measured } from '../../lambda/replay/measure/measure.ts';
import { DEFAULT_OPTIONS, type ReplayOptions } from '../../lambda/replay/options.ts';
import type { TraceSpool } from '../../lambda/replay/publish/publish.ts';
import { type ReplayResult, timingOf } from '../../lambda/replay/replay.ts';
import { FILES } from '../../lambda/replay/results/result-set.ts';
import type { Target } from '../../lambda/replay/target/target.ts';
import type { ReplayMlflow } from './replay-mlflow.ts';

export interface ExtraFlags {
  report: boolean;
  compare: boolean;
  judge: boolean;
  judgeModel?: string;
  judgeBudgetUsd: number;
  mlflow: boolean;
  trackingUri?: string;
  experiment?: string;
}

export class ReplayExtras {
  readonly #flags: ExtraFlags;
  readonly #directory: string;
  readonly #run: string;
  readonly #target: Target;
  #judging: JudgeSettings | undefined;
  #captured: CapturedReplies | undefined;
  #mlflow: ReplayMlflow | undefined;
  #spool: TraceSpool | undefined;

  private constructor(flags: ExtraFlags, directory: string, run: string, target: Target) {
    this.#flags = flags;
    this.#directory = directory;
    this.#run = run;
    this.#target = target;
  }

  /** A judge or an MLflow that cannot be reached is known before the first request, not after the last. */
  static async open(flags: ExtraFlags, directory: string, run: string, target: Target): Promise<ReplayExtras> {
    const extras = new ReplayExtras(flags, directory, run, target);
    await mkdir(directory, { recursive: true });
    if (flags.judge) {
      const { connectPairwiseJudge } = await import('./pairwise-judge.ts');
      extras.#judging = await connectPairwiseJudge(flags.judgeModel, flags.judgeBudgetUsd);
    }
    if (flags.compare || flags.judge) {
      const { CapturedReplies } = await import('../../lambda/replay/compare/with-captured.ts');
      extras.#captured = new CapturedReplies(directory);
    }
    if (flags.mlflow) {
      const { connectReplayMlflow } = await import('./replay-mlflow.ts');
      const { TraceSpool } = await import('../../lambda/replay/publish/publish.ts');
      extras.#mlflow = await connectReplayMlflow(flags);
      extras.#spool = new TraceSpool(directory, run, target.description.endpoint ?? target.description.url ?? run);
    }
    return extras;
  }

  get keepCaptured(): boolean {
    return this.#captured !== undefined;
  }

  get traceIdOf(): ((line: Buffer) => string) | undefined {
    return this.#mlflow?.traceIdOf;
  }

  measured(measured: Measured, clock: RunClock): void {
    if (measured.request.phase !== 'profiling') return;
    this.#captured?.add(measured);
    this.#spool?.add(measured, clock);
  }

  /** @returns lines to be printed above the figures */
  async finish(result: ReplayResult, options: ReplayOptions, failed: boolean): Promise<string[]> {
    const lines: string[] = [];
    // What was stopped is not judged: the person waits for the end.
    const comparison = await this.#captured?.finish(result.wasCancelled ? undefined : this.#judging);
    if (comparison) {
      const { qualityLines } = await import('../../lambda/replay/report/quality-sections.ts');
      lines.push(...qualityLines(comparison.quality).map(([name, value]) => `${name}: ${value}`));
      if (comparison.judgeUsd !== undefined) {
        lines.push(
          `judge: ${comparison.judgeUsd === null ? 'price not known' : `${comparison.judgeUsd.toFixed(4)} dollars`}`,
        );
      }
      lines.push('');
    }
    if (this.#flags.report) await this.#report(result, options, comparison);
    if (this.#mlflow) lines.push(...(await this.#publish(this.#mlflow, result, options, comparison, failed)), '');
    return lines;
  }

  close(): void {
    this.#mlflow?.close();
  }

  async #report(
    result: ReplayResult,
    options: ReplayOptions,
    comparison: CapturedComparison | undefined,
  ): Promise<void> {
    // The charting library is loaded when the run is over: it is larger than all the rest.
    const { replayReport } = await import('../../lambda/replay/report/replay-report.ts');
    const { results, outcome, startMs, wasCancelled, bottleneck } = result;
    const page = await replayReport(results.stats, results.report, {
      run: this.#run,
      target: this.#target.description,
      startMs,
      scheduled: timingOf(options).kind !== 'concurrency',
      wasCancelled,
      unsent: outcome.unsent,
      bottleneck,
      skipped: results.skippedReasons,
      ...(comparison ? { extra: await comparisonSections(comparison) } : {}),
    });
    await writeFile(join(this.#directory, FILES.report), page);
  }

  async #publish(
    mlflow: ReplayMlflow,
    result: ReplayResult,
    options: ReplayOptions,
    comparison: CapturedComparison | undefined,
    failed: boolean,
  ): Promise<string[]> {
    await this.#spool?.close();
    const { publish } = await import('../../lambda/replay/publish/publish.ts');
    const published = await publish(mlflow, {
      run: this.#run,
      directory: this.#directory,
      startMs: result.startMs,
      endMs: result.endMs,
      status: result.wasCancelled ? 'KILLED' : failed ? 'FAILED' : 'FINISHED',
      scheduled: timingOf(options).kind !== 'concurrency',
      stats: result.results.stats,
      ...(comparison ? { quality: comparison.quality } : {}),
      params: paramsOf(this.#target, options),
    });
    const { runId, traces, refused, linked, leftOut } = published;
    const lines = [`MLflow run: ${runId} in experiment ${mlflow.experiment.name}`, `MLflow traces: ${traces}`];
    if (refused > 0) lines.push(`MLflow refused: ${refused} traces`);
    if (!linked) lines.push(`The server cannot show traces under a run; find them by tag.replay_run = '${this.#run}'`);
    for (const file of leftOut) lines.push(`not put into MLflow: ${file}`);
    return lines;
  }
}

async function comparisonSections({ quality, regressions }: CapturedComparison): Promise<string> {
  const { qualitySection, regressionsSection } = await import('../../lambda/replay/report/quality-sections.ts');
  return (
    qualitySection(quality, 'Replies, compared with the captured ones') +
    regressionsSection(regressions, quality.regressed)
  );
}

/** The target, and the options that are not the default ones. */
function paramsOf(target: Target, options: ReplayOptions): Record<string, string> {
  const own = Object.entries(options).filter(
    ([key, value]) =>
      value !== undefined && JSON.stringify(value) !== JSON.stringify(DEFAULT_OPTIONS[key as keyof ReplayOptions]),
  );
  return {
    ...Object.fromEntries(Object.entries(target.description).map(([key, value]) => [`target_${key}`, value])),
    ...Object.fromEntries(own.map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)])),
  };
}

/** What is done beside and after the replay itself: comparison, report, MLflow. Each is loaded only when it is asked for. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunClock } from '../../src/replay/clock.ts';
import type { JudgeSettings } from '../../src/replay/compare/judge-replies.ts';
import type { CapturedComparison, CapturedReplies } from '../../src/replay/compare/with-captured.ts';
import type { Measured } from '../../src/replay/measure/measure.ts';
import type { ReplayOptions } from '../../src/replay/options.ts';
import type { Publication } from '../../src/replay/publish/publish.ts';
import type { TraceSpool } from '../../src/replay/publish/spool.ts';
import { FILES } from '../../src/replay/results/result-set.ts';
import type { Target } from '../../src/replay/targets/target.ts';
import { type ReplayResult, timingOf } from '../../src/replay/to-directory.ts';
import { toNamedError } from '../../src/shared/errors.ts';
import type { ReplayMlflow } from './replay-mlflow.ts';
import { unsentWarning } from './replay-text.ts';
import { stoppedBy } from './stopping.ts';

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

  /**
   * A judge or an MLflow that cannot be reached is known before the first request, not after the last; nothing is written
   * yet.
   */
  static async connect(flags: ExtraFlags, directory: string, run: string, target: Target): Promise<ReplayExtras> {
    const extras = new ReplayExtras(flags, directory, run, target);
    if (flags.judge) {
      const { connectPairwiseJudge } = await import('./pairwise-judge.ts');
      extras.#judging = await connectPairwiseJudge(flags.judgeModel, flags.judgeBudgetUsd);
    }
    if (flags.mlflow) {
      const { connectReplayMlflow } = await import('./replay-mlflow.ts');
      extras.#mlflow = await connectReplayMlflow(flags);
    }
    return extras;
  }

  /** Begins the files, in a directory that is there. */
  async open(): Promise<void> {
    if (this.#flags.compare || this.#flags.judge) {
      const { CapturedReplies } = await import('../../src/replay/compare/with-captured.ts');
      this.#captured = new CapturedReplies(this.#directory);
    }
    if (this.#mlflow) {
      const { TraceSpool, traceNameOf } = await import('../../src/replay/publish/spool.ts');
      this.#spool = new TraceSpool(this.#directory, this.#run, traceNameOf(this.#target.description, this.#run));
    }
  }

  get keepCaptured(): boolean {
    return this.#captured !== undefined;
  }

  get traceIdOf(): ((line: Buffer) => string) | undefined {
    return this.#mlflow?.traceIdOf;
  }

  /** Reads what became of a request; what it returns keeps it. */
  read(measured: Measured, clock: RunClock): () => void {
    if (measured.request.phase !== 'profiling') return () => {};
    const keep = [this.#captured?.read(measured), this.#spool?.read(measured, clock)];
    return () => {
      for (const one of keep) one?.();
    };
  }

  /**
   * Each step is done whatever became of the one before: neither a judge nor an MLflow that fails takes away what has been
   * measured and paid for.
   *
   * @param signal stops the judge
   * @returns lines to be printed above the figures, what failed, in words, and whether the judge was stopped
   */
  async finish(
    result: ReplayResult,
    options: ReplayOptions,
    failed: boolean,
    signal: AbortSignal,
  ): Promise<{ lines: string[]; failures: string[]; stopped: boolean }> {
    const lines: string[] = [];
    const failures: string[] = [];
    // What was stopped is not judged: the person waits for the end.
    const judging = result.wasCancelled ? undefined : this.#judging;
    const comparison = await this.#captured?.finish(judging && stoppedBy(signal, judging)).catch((error: unknown) => {
      const { name, message } = toNamedError(error);
      failures.push(`The replies could not be compared: ${name}: ${message}`);
      return undefined;
    });
    const stopped = signal.aborted && comparison?.judgeFailure !== undefined;
    if (comparison) {
      const { qualityLines } = await import('../../src/replay/report/quality-sections.ts');
      lines.push(...qualityLines(comparison.quality).map(([name, value]) => `${name}: ${value}`));
      if (comparison.judgeUsd !== undefined) {
        lines.push(
          `judge: ${comparison.judgeUsd === null ? 'price not known' : `${comparison.judgeUsd.toFixed(4)} dollars`}`,
        );
      }
      lines.push('');
      const failure = comparison.judgeFailure;
      if (failure) failures.push(judgeWarning(failure));
    }
    if (this.#flags.report) await this.#report(result, options, comparison);
    if (this.#mlflow) {
      const status = result.wasCancelled || stopped ? 'KILLED' : failed ? 'FAILED' : 'FINISHED';
      const published = await this.#publish(this.#mlflow, result, options, comparison, status).catch(
        (error: unknown) => ({ lines: [], failures: [error] }),
      );
      lines.push(...published.lines, '');
      for (const { name, message } of published.failures.map(toNamedError)) {
        failures.push(`Not all of the replay is in MLflow: ${name}: ${message}`);
      }
    }
    return { lines, failures, stopped };
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
    const { replayReport } = await import('../../src/replay/report/replay-report.ts');
    const { results, outcome, startMs, wasCancelled, bottleneck } = result;
    const unsent = unsentWarning(result);
    const failure = comparison?.judgeFailure;
    const page = await replayReport(results.stats, results.report, {
      run: this.#run,
      target: this.#target.description,
      startMs,
      scheduled: timingOf(options).kind !== 'concurrency',
      wasCancelled,
      unsent: outcome.unsent,
      bottleneck,
      skipped: results.skippedReasons,
      warnings: [...(unsent ? [unsent] : []), ...(failure ? [judgeWarning(failure)] : [])],
      ...(comparison ? { extra: await comparisonSections(comparison) } : {}),
    });
    await writeFile(join(this.#directory, FILES.report), page);
  }

  async #publish(
    mlflow: ReplayMlflow,
    result: ReplayResult,
    options: ReplayOptions,
    comparison: CapturedComparison | undefined,
    status: Publication['status'],
  ): Promise<{ lines: string[]; failures: unknown[] }> {
    await this.#spool?.close();
    const { publish } = await import('../../src/replay/publish/publish.ts');
    const { paramsOf } = await import('../../src/replay/publish/run-content.ts');
    const published = await publish(mlflow, {
      run: this.#run,
      directory: this.#directory,
      startMs: result.startMs,
      endMs: result.endMs,
      status,
      scheduled: timingOf(options).kind !== 'concurrency',
      stats: result.results.stats,
      ...(comparison ? { quality: comparison.quality } : {}),
      params: paramsOf(this.#target.description, options),
    });
    const { runId, traces, refused, linked, assessments, leftOut, failures } = published;
    const lines = [`MLflow run: ${runId} in experiment ${mlflow.experiment.name}`, `MLflow traces: ${traces}`];
    if (refused > 0) lines.push(`MLflow refused: ${refused} traces (refused-traces.jsonl)`);
    if (assessments) lines.push(`MLflow assessments: ${assessments.written}`);
    if (assessments && assessments.withoutTrace > 0) {
      lines.push(`verdicts without a trace in MLflow: ${assessments.withoutTrace} (judged.jsonl)`);
    }
    if (!linked) lines.push(`The server cannot show traces under a run; find them by tag.replay_run = '${this.#run}'`);
    for (const file of leftOut) lines.push(`not put into MLflow: ${file}`);
    return { lines, failures };
  }
}

const judgeWarning = ({ name, message }: { name: string; message: string }): string =>
  `Not all pairs are judged: ${name}: ${message}`;

async function comparisonSections({ quality, regressions }: CapturedComparison): Promise<string> {
  const { qualitySection, regressionsSection } = await import('../../src/replay/report/quality-sections.ts');
  return (
    qualitySection(quality, 'Replies, compared with the captured ones') +
    regressionsSection(regressions, quality.regressed)
  );
}

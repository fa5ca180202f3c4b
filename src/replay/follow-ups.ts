/** The steps that can follow a replay on the command line: comparison, report, MLflow. Each is loaded only when requested. */
import { saidBy } from '../core/errors/errors.ts';
import type { RunClock } from './clock.ts';
import { type JudgeSettings, judgeWarning, stoppedBy } from './compare/judge-replies.ts';
import type { CapturedComparison, CapturedReplies } from './compare/with-captured.ts';
import { runContentOf, writeReport } from './finish.ts';
import type { Measured } from './measure/measure.ts';
import type { ExchangeFile } from './publish/exchanges.ts';
import type { MlflowPorts, Published } from './publish/publish.ts';
import { type ReplayResult, unsentWarning } from './to-directory.ts';

export interface FollowUpOptions {
  /** Existing directory for the files. */
  directory: string;
  run: string;
  /** Description of the target, without secrets. */
  target: Record<string, string>;
  report: boolean;
  compare?: boolean;
  /** Judges the replies beside the captured ones. */
  judge?: JudgeSettings;
  mlflow?: MlflowPorts;
}

export interface FollowedUp {
  comparison?: CapturedComparison;
  published?: Published;
  /** One sentence for each failure. */
  failures: string[];
  /** Whether the judge was stopped by the signal. */
  judgeStopped: boolean;
}

export class FollowUps {
  readonly #options: FollowUpOptions;
  readonly #captured: CapturedReplies | undefined;
  readonly #exchanges: ExchangeFile | undefined;

  private constructor(options: FollowUpOptions, captured?: CapturedReplies, exchanges?: ExchangeFile) {
    this.#options = options;
    this.#captured = captured;
    this.#exchanges = exchanges;
  }

  /** Starts the files that are written during the replay. */
  static async open(options: FollowUpOptions): Promise<FollowUps> {
    const { directory, run, target, compare, judge, mlflow } = options;
    const comparing = compare || judge ? await import('./compare/with-captured.ts') : undefined;
    const tracing = mlflow ? await import('./publish/exchanges.ts') : undefined;
    return new FollowUps(
      options,
      comparing && new comparing.CapturedReplies(directory),
      tracing?.exchangeFile(directory, { run, target: tracing.traceNameOf(target, run) }),
    );
  }

  get keepCaptured(): boolean {
    return this.#captured !== undefined;
  }

  /** Reads what happened to a request. @returns keeps it */
  read(measured: Measured, clock: RunClock): () => void {
    if (measured.request.phase !== 'profiling') return () => {};
    const keep = [this.#captured?.read(measured), this.#exchanges?.read(measured, clock)];
    return () => {
      for (const one of keep) one?.();
    };
  }

  /**
   * Runs every step even if an earlier one failed: a failing judge or MLflow server must not lose what was measured and
   * paid for.
   *
   * @param failed whether the replay is a failure by its own measure
   * @param signal stops the judge
   */
  async finish(result: ReplayResult, failed: boolean, signal: AbortSignal): Promise<FollowedUp> {
    const { directory, report, judge } = this.#options;
    const failures: string[] = [];
    // A stopped replay is not judged: the user waits for it to end.
    const judging = result.wasCancelled || !judge ? undefined : stoppedBy(signal, judge);
    const comparison = await this.#captured?.finish(judging).catch((error: unknown) => {
      failures.push(`The replies could not be compared: ${saidBy(error)}`);
      return undefined;
    });
    const warnings = comparison?.judgeFailure ? [judgeWarning(comparison.judgeFailure)] : [];
    failures.push(...warnings);
    const unsent = unsentWarning(result);
    if (report) await writeReport(directory, result, [...(unsent ? [unsent] : []), ...warnings], comparison);
    const judgeStopped = signal.aborted && comparison?.judgeFailure !== undefined;
    const status = result.wasCancelled || judgeStopped ? 'KILLED' : failed ? 'FAILED' : 'FINISHED';
    const published = await this.#publish(result, status, comparison).catch((error: unknown) => {
      failures.push(mlflowFailure(error));
      return undefined;
    });
    failures.push(...(published?.failures ?? []).map(mlflowFailure));
    return { comparison, published, failures, judgeStopped };
  }

  /** Leaves whole lines in the files of a replay that has failed. Its own error matters more than another one here. */
  async abandon(): Promise<void> {
    await Promise.allSettled([this.#captured?.close(), this.#exchanges?.abandon()]);
  }

  async #publish(
    result: ReplayResult,
    status: 'KILLED' | 'FAILED' | 'FINISHED',
    comparison: CapturedComparison | undefined,
  ): Promise<Published | undefined> {
    const { mlflow, directory, run } = this.#options;
    if (!mlflow) return undefined;
    await this.#exchanges?.close();
    const { publish } = await import('./publish/publish.ts');
    const content = await runContentOf(result, status, result.endMs, comparison?.quality);
    const judged = comparison?.quality.judged !== undefined;
    return publish(mlflow, { run, directory, startMs: result.startMs, content, judged });
  }
}

function mlflowFailure(error: unknown): string {
  return `Not all of the replay is in MLflow: ${saidBy(error)}`;
}

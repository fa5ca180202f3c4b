/** The steps that can follow a replay on the command line: comparison, report, MLflow. Each is loaded only when requested. */
import { join } from 'node:path';
import { saidBy } from '../core/errors/errors.ts';
import type { RunClock } from './clock.ts';
import { type JudgeSettings, judgeWarning, stoppedBy } from './compare/judge-replies.ts';
import type { Quality } from './compare/quality.ts';
import type { Measured } from './measure/measure.ts';
import type { MlflowPorts } from './publish/publish.ts';
import { writeWhole } from './results/line-writer.ts';
import { FILES } from './results/result-set.ts';
import { type ReplayRequest, type ReplayResult, unsentWarning } from './to-directory.ts';

interface FollowUpOptions extends Pick<ReplayRequest, 'directory' | 'run'> {
  /** Description of the target, without secrets. */
  target: Record<string, string>;
  report: boolean;
  compare?: boolean;
  /** Judges each reply together with the captured reply. */
  judge?: JudgeSettings;
  mlflow?: MlflowPorts;
}

export type FollowUps = Awaited<ReturnType<typeof openFollowUps>>;
export type FollowedUp = Awaited<ReturnType<FollowUps['finish']>>;

/** Starts the files that are written during the replay. */
export async function openFollowUps(options: FollowUpOptions) {
  const { directory, run, target, report, compare, judge, mlflow } = options;
  const comparing = compare || judge ? await import('./compare/with-captured.ts') : undefined;
  const tracing = mlflow ? await import('./publish/exchanges.ts') : undefined;
  const captured = comparing?.capturedReplies(directory);
  const exchanges = tracing?.exchangeFile(directory, { run, target: tracing.traceNameOf(target, run) });

  const published = async (result: ReplayResult, status: 'KILLED' | 'FAILED' | 'FINISHED', quality?: Quality) => {
    if (!mlflow) return undefined;
    try {
      await exchanges?.close();
      const { publish } = await import('./publish/publish.ts');
      return await publish(mlflow, directory, result, status, quality);
    } finally {
      await exchanges?.discard();
    }
  };

  return {
    keepCaptured: captured !== undefined,

    /** Reads the outcome of a request. @returns functions that keep it */
    read: (measured: Measured, clock: RunClock) => [captured?.read(measured), exchanges?.read(measured, clock)],

    /**
     * Runs every step even if an earlier step failed: a failing judge or MLflow server must not lose measurements that
     * were paid for.
     *
     * @param failed whether the replay failed by its own measure
     * @param signal stops the judge
     * @returns a sentence for each failure, and whether the signal stopped the judge
     */
    finish: async (result: ReplayResult, failed: boolean, signal: AbortSignal) => {
      const failures: string[] = [];
      /** Notes the failure of a step. */
      const failing = (what: string) => (error: unknown) => {
        failures.push(`${what}: ${saidBy(error)}`);
        return undefined;
      };
      // A stopped replay is not judged: the user waits for it to end.
      const judging = result.wasCancelled || !judge ? undefined : stoppedBy(signal, judge);
      const comparison = await captured?.finish(judging).catch(failing('The replies could not be compared'));
      const warnings = comparison?.judgeFailure ? [judgeWarning(comparison.judgeFailure)] : [];
      failures.push(...warnings);
      const unsent = unsentWarning(result);
      if (report) {
        // Loaded when the replay has ended: the charting library is larger than everything else.
        const { replayReport } = await import('./report/replay-report.ts');
        const page = await replayReport(result, [...(unsent ? [unsent] : []), ...warnings], comparison);
        await writeWhole(join(directory, FILES.report), page);
      }
      const judgeStopped = signal.aborted && comparison?.judgeFailure !== undefined;
      const status = result.wasCancelled || judgeStopped ? 'KILLED' : failed ? 'FAILED' : 'FINISHED';
      const notInMlflow = failing('Not all of the replay is in MLflow');
      const done = await published(result, status, comparison?.quality).catch(notInMlflow);
      for (const failure of done?.failures ?? []) notInMlflow(failure);
      return { comparison, published: done, failures, judgeStopped };
    },

    /** Leaves whole lines in the files of a failed replay. The replay's own error matters more than an error here. */
    abandon: async (): Promise<void> => {
      await Promise.allSettled([captured?.close(), exchanges?.discard()]);
    },
  };
}

/** Prints what a replay has shown, as text or as JSON. */
import type { FollowedUp } from '../../src/replay/follow-ups.ts';
import { durationSeconds } from '../../src/replay/results/summary.ts';
import type { ReplayResult } from '../../src/replay/to-directory.ts';
import { writeJson } from '../cli/output.ts';
import { followUpText } from './quality-text.ts';
import { resultText } from './replay-text.ts';

interface Place {
  directory: string;
  /** In MLflow; empty without it. */
  experiment: string;
}

export function printText(result: ReplayResult, followed: FollowedUp, { directory, experiment }: Place): void {
  console.log([...followUpText(experiment, followed), resultText(result, directory)].join('\n'));
}

export const printJson = (...replayed: Parameters<typeof asJson>): void => writeJson('replay', asJson(...replayed));

/** What `--json` prints. */
export type ReplayOutput = ReturnType<typeof asJson>;

function asJson(result: ReplayResult, followed: FollowedUp, { directory, experiment }: Place) {
  const { stats, skippedReasons } = result.results;
  const { comparison, published, failures } = followed;
  return {
    run: result.run,
    /** Of the result files. */
    directory,
    sent: result.outcome.sent,
    succeeded: stats.succeeded,
    failed: stats.failed,
    cancelled: stats.cancelled,
    unsent: result.outcome.unsent,
    /** Captured lines that are not sent, by reason. */
    skipped: Object.fromEntries(skippedReasons),
    seconds: durationSeconds(stats),
    /** By Ctrl-C. */
    stopped: result.wasCancelled,
    /** With `--goodput`. */
    goodRequests: stats.withObjectives ? stats.good : undefined,
    /** Why the client, and not the target, may be what was measured. */
    bottleneck: result.bottleneck,
    /** AIPerf's metrics, in ms and tokens. */
    metrics: Object.fromEntries(
      [...stats.distributions].flatMap(([metric, distribution]) => {
        const summary = distribution.summary();
        return summary ? [[metric, summary]] : [];
      }),
    ),
    errors: stats.errorsByCount.map(({ error: { code, type, message }, count }) => ({ code, type, message, count })),
    /** With `--compare`. */
    comparison,
    mlflow: published && { runId: published.runId, experiment, traces: published.traces, refused: published.refused },
    /** Of the steps after the replay. */
    failures,
  };
}

/** Prints what a replay has shown, as text or as JSON. */
import type { FollowedUp } from '../../src/replay/follow-ups.ts';
import { durationSeconds } from '../../src/replay/results/summary.ts';
import type { ReplayResult } from '../../src/replay/to-directory.ts';
import { writeJson } from '../cli/output.ts';
import { replayResultJson } from '../json/replay.ts';
import { followUpText } from './quality-text.ts';
import { resultText } from './replay-text.ts';

interface Place {
  directory: string;
  /** In MLflow; empty without it. */
  experiment: string;
}

export function printText(result: ReplayResult, followed: FollowedUp, { directory, experiment }: Place): void {
  console.log([...followUpText(result.run, experiment, followed), resultText(result, directory)].join('\n'));
}

export function printJson(result: ReplayResult, followed: FollowedUp, { directory, experiment }: Place): void {
  const { stats, skippedReasons } = result.results;
  const { comparison, published, failures } = followed;
  writeJson(replayResultJson, {
    run: result.run,
    directory,
    sent: result.outcome.sent,
    succeeded: stats.succeeded,
    failed: stats.failed,
    cancelled: stats.cancelled,
    unsent: result.outcome.unsent,
    skipped: Object.fromEntries(skippedReasons),
    seconds: durationSeconds(stats),
    stopped: result.wasCancelled,
    goodRequests: stats.withObjectives ? stats.good : undefined,
    bottleneck: result.bottleneck,
    metrics: Object.fromEntries(
      [...stats.distributions].flatMap(([metric, distribution]) => {
        const summary = distribution.summary();
        return summary ? [[metric, summary]] : [];
      }),
    ),
    errors: stats.errorsByCount.map(({ error: { code, type, message }, count }) => ({ code, type, message, count })),
    comparison,
    mlflow: published && { runId: published.runId, experiment, traces: published.traces, refused: published.refused },
    failures,
  });
}

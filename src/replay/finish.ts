/** The end of a replay, the same on the command line and in the cloud: its figures, its report and its MLflow run. */
import { join } from 'node:path';
import type { RunContent } from '../mlflow/runs.ts';
import type { Experiment } from '../mlflow/types.ts';
import type { Quality } from './compare/quality.ts';
import type { CapturedComparison } from './compare/with-captured.ts';
import { timingOf } from './derived-options.ts';
import { clientBottleneck } from './measure/client-bottleneck.ts';
import type { ReplayOptions } from './options.ts';
import { inputConfigOf } from './results/input-config.ts';
import { FILES, type MeasuredRun } from './results/result-set.ts';
import type { SummaryFacts } from './results/summary.ts';
import { writeWhole } from './results/whole-file.ts';

export interface FinishedReplay {
  run: string;
  /** Description of the target, without secrets. */
  target: Record<string, string>;
  options: ReplayOptions;
  /** Where the captures are, as the user named it. */
  source: string;
  captures: { files: number; records: number; firstMs: number | null; lastMs: number | null };
  results: MeasuredRun;
  /** Epoch milliseconds. */
  startMs: number;
  endMs: number;
  sent: number;
  unsent: number;
  wasCancelled: boolean;
  /** Why a part of the schedule was not sent. */
  incomplete: string | undefined;
  maxConnections: number;
  warmFailures: number;
}

/** Whether requests have scheduled times. */
export const isScheduled = (options: ReplayOptions): boolean => timingOf(options).kind !== 'concurrency';

/** Explains why the client, rather than the target, limited the replay; `undefined` if it did not. */
export const bottleneckOf = ({ options, results }: FinishedReplay): string | undefined =>
  isScheduled(options) ? clientBottleneck(results.stats) : undefined;

/** The facts that AIPerf's summary adds to the figures. */
export const summaryFactsOf = (replay: FinishedReplay): SummaryFacts => ({
  run: replay.run,
  scheduled: isScheduled(replay.options),
  startMs: replay.startMs,
  endMs: replay.endMs,
  wasCancelled: replay.wasCancelled,
  isComplete: replay.incomplete === undefined && !replay.wasCancelled,
  incompleteReason: replay.incomplete,
  inputConfig: inputConfigOf(replay),
});

/** Where the run is logged in MLflow, for links to its traces. @param url of the server's web page */
export const mlflowFactsOf = ({ experiment, url }: { experiment: Experiment; url?: string }) => ({
  experiment: experiment.name,
  experiment_id: experiment.id,
  ...(url === undefined ? {} : { url }),
});

/** The first keys of `replay.json`, without secrets. */
export const replayFactsOf = (replay: FinishedReplay): Record<string, unknown> => ({
  target: replay.target,
  options: replay.options,
  captures: replay.captures,
  start_ms: replay.startMs,
  end_ms: replay.endMs,
  sent: replay.sent,
  unsent: replay.unsent,
  was_cancelled: replay.wasCancelled,
  client_bottleneck: bottleneckOf(replay) ?? null,
  connections: { max_open: replay.maxConnections, failed_ahead: replay.warmFailures },
});

/** Writes `report.html`. @param warnings shown above the figures, in addition to those about a stop or a bottleneck */
export async function writeReport(
  directory: string,
  replay: FinishedReplay,
  warnings: readonly string[],
  comparison: CapturedComparison | undefined,
): Promise<void> {
  // Loaded when the replay has ended: the charting library is larger than everything else.
  const { replayReport } = await import('./report/replay-report.ts');
  const { qualitySection } = await import('./report/quality-sections.ts');
  const { regressionsSection } = await import('./report/replies-section.ts');
  const { stats, report, skippedReasons } = replay.results;
  const page = await replayReport(stats, report, {
    run: replay.run,
    target: replay.target,
    startMs: replay.startMs,
    scheduled: isScheduled(replay.options),
    wasCancelled: replay.wasCancelled,
    unsent: replay.unsent,
    bottleneck: bottleneckOf(replay),
    skipped: skippedReasons,
    warnings,
    extra:
      comparison &&
      qualitySection(comparison.quality, 'Replies compared with the captured replies') +
        regressionsSection(comparison.regressions, comparison.quality.regressed),
  });
  await writeWhole(join(directory, FILES.report), page);
}

/** The content of the replay's MLflow run. */
export type ReplayRunContent = Pick<RunContent, 'endMs' | 'atMs' | 'status' | 'metrics' | 'params'>;

/** @param atMs time of the figures, epoch ms: MLflow shows the newest value of a metric */
export async function runContentOf(
  replay: FinishedReplay,
  status: RunContent['status'],
  atMs: number,
  quality: Quality | undefined,
): Promise<ReplayRunContent> {
  const { metricsOf, paramsOf } = await import('./publish/run-content.ts');
  return {
    endMs: replay.endMs,
    atMs,
    status,
    metrics: metricsOf(replay.results.stats, isScheduled(replay.options), quality),
    params: paramsOf(replay.target, replay.options),
  };
}

/** The end of a replay, the same on the command line and in the cloud: its figures, its report and its MLflow run. */
import { join } from 'node:path';
import type { RunContent } from '../mlflow/runs.ts';
import type { Experiment } from '../mlflow/types.ts';
import type { Quality } from './compare/quality.ts';
import type { CapturedComparison } from './compare/with-captured.ts';
import { isScheduled } from './derived-options.ts';
import { bottleneckOf, type FinishedReplay } from './finished.ts';
import { FILES } from './results/result-set.ts';
import { writeWhole } from './results/whole-file.ts';

/** Where the run is logged in MLflow, for links to its traces. @param url of the server's web page */
export const mlflowFactsOf = ({ experiment, url }: { experiment: Experiment; url?: string }) => ({
  experiment: experiment.name,
  experiment_id: experiment.id,
  ...(url === undefined ? {} : { url }),
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

/**
 * The last figures of a run over labels: those of the windows of objectives, as metrics, and those of each day that it has changed,
 * as files in Model Monitor's form. Only new labels lead to either.
 */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { HOUR_MS } from '../../captures/files/capture-path.ts';
import { QUALITY_DIMENSIONS, type QualityMetric } from '../../core/contract/names.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { createMetrics, logger } from '../../core/process/logging.ts';
import { dayOf, hourMs } from '../../quality/counts-store.ts';
import { keepMeasurement } from '../../quality/objective-states.ts';
import { hourOf } from '../../quality/tally.ts';
import { isMissed, readTrueObjectives, type TrueObjective } from '../../quality/true-objectives.ts';
import { labeledHours, readLabeled } from '../join/labeled-store.ts';
import { STEP_RESERVE_MS, type StepDependencies, type StepResult } from '../types.ts';
import { measureTruth } from './measure.ts';
import { modelMonitorFiles, publishModelMetrics } from './model-monitor-files.ts';

/** What is done next: an objective, by its position, or a day. */
interface Progress {
  /** The end of the windows, an hour: exclusive. */
  end: string;
  /** The objectives that are done. */
  objectives: number;
  /** The earliest day that is done; days are done from the latest one on. */
  day?: string;
}

/**
 * Measures what the run has changed, a window at a time. A window of an objective ends with the latest hour that has changed, so
 * labels that all come weeks late are measured over the time that they are of.
 *
 * @param cursor `null` at the beginning
 */
export async function measureLabels(cursor: string | null, deps: StepDependencies): Promise<StepResult> {
  const { environment } = deps;
  const changed = await changedHours(deps);
  const [latest] = changed.toReversed();
  if (latest === undefined) return { cursor: null };
  const objectives = readTrueObjectives(environment.QUALITY_OBJECTIVES);
  const progress: Progress = cursor === null ? { end: hourAfter(latest), objectives: 0 } : JSON.parse(cursor);
  while (progress.objectives < objectives.length) {
    await publishObjective(objectives[progress.objectives] as TrueObjective, progress.end, deps);
    progress.objectives += 1;
    if (deps.remainingMs() < STEP_RESERVE_MS) return { cursor: JSON.stringify(progress) };
  }
  const days = [...new Set(changed.map(dayOf))].toReversed();
  for (const day of days) {
    if (progress.day !== undefined && day >= progress.day) continue;
    await publishDay(day, day === days[0], objectives, deps);
    progress.day = day;
    if (deps.remainingMs() < STEP_RESERVE_MS) return { cursor: JSON.stringify(progress) };
  }
  return { cursor: null };
}

/**
 * Returns the hours with new labels, in order: those that were written since the run began, and those that wait to be published, for
 * example since an earlier run was killed. Inferences that are dated in the future are not among them.
 */
async function changedHours({ storage, environment, run }: StepDependencies): Promise<string[]> {
  const bucket = environment.WORK_BUCKET;
  const changed = new Set<string>();
  for await (const { key } of storage.list(bucket, truthKeys.toPublishPrefix))
    changed.add(key.slice(truthKeys.toPublishPrefix.length).split('/')[0] ?? '');
  // S3 lists whole seconds.
  const began = Date.parse(run.startTime) - 1000;
  for await (const { key, lastModifiedMs } of storage.list(bucket, truthKeys.labeledPrefix)) {
    if (lastModifiedMs >= began) changed.add(key.slice(truthKeys.labeledPrefix.length).split('.')[0] ?? '');
  }
  const now = hourOf(Date.now());
  return [...changed].filter((hour) => hour <= now).toSorted();
}

const hourAfter = (hour: string): string => hourOf(hourMs(hour) + HOUR_MS);

async function publishObjective(objective: TrueObjective, end: string, deps: StepDependencies): Promise<void> {
  const { storage, environment } = deps;
  const { id, measure: name, bound, hours, variant } = objective;
  const { SHADOW_VARIANTS: shadow } = environment;
  const from = hourOf(hourMs(end) - hours * HOUR_MS);
  const window = await labeledHours(storage, environment.WORK_BUCKET, { from, to: end });
  const labeled = () => readLabeled(storage, environment.WORK_BUCKET, window);
  const { kind, groups } = await measureTruth(labeled, environment.GROUND_TRUTH, { variant, shadow });
  const [found] = groups;
  const figure = found?.measures[name];
  const scored = found?.classes?.scored;
  const facts = { objective: id, bound, from, end, kind, rows: found?.rows ?? 0, scored, ...figure };
  if (figure === undefined || figure.value === null) {
    const why = figure?.why ?? (found === undefined ? 'no labels in the window' : `predictions are ${kind}`);
    logger.warn('An objective for true answers could not be measured', { ...facts, why });
    return;
  }
  const missed = isMissed(objective, figure.low, figure.high);
  logger[missed ? 'warn' : 'info']('An objective for true answers was measured', { ...facts, missed });
  const { value, low, high } = figure;
  const measurement = { objective: id, from, end, rows: facts.rows, missed, value, low, high };
  await keepMeasurement(storage, environment.WORK_BUCKET, measurement);
  const metrics = createMetrics(environment.STACK_PREFIX);
  metrics.addDimensions({ [QUALITY_DIMENSIONS.objective]: id });
  metrics.addMetric('TrueValue' satisfies QualityMetric, MetricUnit.NoUnit, value);
  if (missed) metrics.addMetric('QualityMissed' satisfies QualityMetric, MetricUnit.Count, 1);
  metrics.publishStoredMetrics();
}

/** Writes the files of a day. Metrics in Model Monitor's form are of the latest day alone, since they have the time of now. */
async function publishDay(
  day: string,
  isLatest: boolean,
  objectives: readonly TrueObjective[],
  { storage, environment }: StepDependencies,
): Promise<void> {
  const { WORK_BUCKET: bucket, GROUND_TRUTH: settings, SHADOW_VARIANTS: shadow } = environment;
  const to = hourOf(hourMs(`${day}T00`) + 24 * HOUR_MS);
  const hours = await labeledHours(storage, bucket, { from: day, to });
  const { kind, groups } = await measureTruth(() => readLabeled(storage, bucket, hours), settings, { shadow });
  const [figures] = groups;
  const found = figures && modelMonitorFiles(kind, figures, objectives);
  if (found === undefined) return;
  for (const [file, content] of Object.entries(found.files)) {
    await storage.putText(bucket, truthKeys.reports(day, file), JSON.stringify(content, null, 2));
  }
  if (isLatest && settings.modelMonitorSchedule !== undefined)
    publishModelMetrics(found.metrics, environment.SAGEMAKER_ENDPOINT_NAME, settings.modelMonitorSchedule);
}

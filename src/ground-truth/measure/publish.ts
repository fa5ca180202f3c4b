/**
 * The last figures of a run over labels: figures of the windows of objectives, as metrics, and figures of each changed
 * day, as files in Model Monitor's format. Both are published only for new labels.
 */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { HOUR_MS } from '../../captures/files/capture-path.ts';
import { QUALITY_DIMENSIONS, type QualityMetric } from '../../core/contract/metric-names.ts';
import { areaOf, truthKeys } from '../../core/contract/work-keys.ts';
import { createMetrics, logger } from '../../core/process/logging.ts';
import { dayOf } from '../../ledger/files.ts';
import { hourMs } from '../../quality/counts-store.ts';
import { keepMeasurement, readMeasurement, type TrueMeasurement } from '../../quality/objective-states.ts';
import { hourOf } from '../../quality/tally.ts';
import { isMissed, readTrueObjectives, type TrueObjective } from '../../quality/true-objectives.ts';
import { hourOfKey, labeledHours, readTraffic } from '../join/labeled-store.ts';
import { STEP_RESERVE_MS, type StepDependencies, type StepResult } from '../types.ts';
import { decideKind, measureTruth } from './measure.ts';
import { modelMonitorFiles, publishModelMetrics } from './model-monitor-files.ts';

/**
 * Measures the changes of the run, and publishes the state of the objectives in the newest measured window. Labels from
 * before that window correct the earlier changes.
 *
 * @param cursor `null` at the beginning
 */
export async function measureLabels(cursor: string | null, deps: StepDependencies): Promise<StepResult> {
  const { environment } = deps;
  const changed = await changedHours(deps);
  if (changed.length === 0) return { cursor: null };
  const objectives = readTrueObjectives(environment.QUALITY_OBJECTIVES);
  const measure = await measuring(changed, objectives, deps);
  /** The number of objectives that are done, and the earliest day that is; days are done from the latest one on. */
  const progress: { objectives: number; day?: string } = cursor === null ? { objectives: 0 } : JSON.parse(cursor);
  while (progress.objectives < objectives.length) {
    await publishObjective(objectives[progress.objectives] as TrueObjective, changed, measure);
    progress.objectives += 1;
    if (deps.remainingMs() < STEP_RESERVE_MS) return { cursor: JSON.stringify(progress) };
  }
  const days = [...new Set(changed.map(dayOf))].toReversed();
  for (const day of days) {
    if (progress.day !== undefined && day >= progress.day) continue;
    await publishDay(day, day === days[0], objectives, measure);
    progress.day = day;
    if (deps.remainingMs() < STEP_RESERVE_MS) return { cursor: JSON.stringify(progress) };
  }
  return { cursor: null };
}

type Measuring = Awaited<ReturnType<typeof measuring>>;

/**
 * Decides what the model predicts, for all windows and days of the run: from the newest window of the longest
 * objective, or from a day. Both must be read for the measurements anyway.
 */
async function measuring(changed: readonly string[], objectives: readonly TrueObjective[], deps: StepDependencies) {
  const { GROUND_TRUTH: settings, SHADOW_VARIANTS: shadow } = deps.environment;
  const rowsIn = async (from: string, to: string) => {
    const hours = await labeledHours(deps, { from, to });
    return () => readTraffic(deps, hours);
  };
  const end = hoursLater(changed.at(-1) as string, 1);
  const begin = hoursLater(end, -Math.max(24, ...objectives.map(({ hours }) => hours)));
  const decided = await decideKind(await rowsIn(begin, end), settings, { shadow });
  /** Measures a window of hours or days (`to` is exclusive) of one variant, or of all except shadow variants. */
  const measured = async (from: string, to: string, variant?: string) =>
    measureTruth(await rowsIn(from, to), settings, { variant, shadow }, decided);
  return { ...deps, measured };
}

/**
 * Returns the hours with new labels, in order: hours written since the run began, and hours that wait to be published,
 * for example because an earlier run was killed. Hours in the future are excluded.
 */
async function changedHours({ storage, workBucket, run }: StepDependencies): Promise<string[]> {
  const changed = new Set<string>();
  for await (const { key } of storage.list(workBucket, areaOf('truthOpen'))) changed.add(hourOfKey(key));
  // S3 lists whole seconds.
  const began = Date.parse(run.startTime) - 1000;
  for await (const { key, lastModifiedMs } of storage.list(workBucket, areaOf('truthLabeled'))) {
    if (lastModifiedMs >= began) changed.add(hourOfKey(key));
  }
  const now = hourOf(Date.now());
  return [...changed].filter((hour) => hour <= now).toSorted();
}

async function publishObjective(objective: TrueObjective, changed: string[], deps: Measuring): Promise<void> {
  let state = await readMeasurement(deps, objective.id);
  for (const end of endsOf(objective, changed, state)) {
    const measured = await measureObjective(objective, end, deps);
    if (measured !== undefined) state = await keepMeasurement(deps, measured);
  }
  if (state === undefined) return;
  const metrics = createMetrics(deps.environment.STACK_PREFIX);
  metrics.addDimensions({ [QUALITY_DIMENSIONS.objective]: objective.id });
  metrics.addMetric('TrueValue' satisfies QualityMetric, MetricUnit.NoUnit, state.value);
  if (state.missed) metrics.addMetric('QualityMissed' satisfies QualityMetric, MetricUnit.Count, 1);
  metrics.publishStoredMetrics();
}

const hoursLater = (hour: string, hours: number): string => hourOf(hourMs(hour) + hours * HOUR_MS);

/**
 * Returns the ends of the windows to measure, in order: the windows of the state and its changes that contain changed
 * hours, and the window that ends with the latest changed hour, unless another window contains that hour.
 */
function endsOf({ hours }: TrueObjective, changed: string[], state: TrueMeasurement | undefined): string[] {
  const has = (end: string, hour: string): boolean => hour < end && hour >= hoursLater(end, -hours);
  const known = state === undefined ? [] : [...state.turns.map(({ second }) => hourOf(second * 1000)), state.end];
  const latest = changed.at(-1) as string;
  const ends = known.filter((end) => changed.some((hour) => has(end, hour)));
  if (!ends.some((end) => has(end, latest))) ends.push(hoursLater(latest, 1));
  return [...new Set(ends)].toSorted();
}

async function measureObjective(objective: TrueObjective, end: string, { measured }: Measuring) {
  const { id, measure: name, bound, hours, variant } = objective;
  const from = hoursLater(end, -hours);
  const { kind, groups } = await measured(from, end, variant);
  const [found] = groups;
  const figure = found?.measures[name];
  const scored = found?.classes?.scored;
  const facts = { objective: id, bound, from, end, kind, rows: found?.rows ?? 0, scored, ...figure };
  if (figure === undefined || figure.value === null) {
    const why = figure?.why ?? (found === undefined ? 'no labels in the window' : `predictions are ${kind}`);
    logger.warn('An objective for true answers could not be measured', { ...facts, why });
    return undefined;
  }
  const { value, low, high, why } = figure;
  const missed = isMissed(objective, figure);
  logger[missed ? 'warn' : 'info']('An objective for true answers was measured', { ...facts, missed });
  return { objective: id, from, end, rows: facts.rows, missed, value, low, high, ...(why !== undefined && { why }) };
}

/** Writes the files of a day. Metrics in Model Monitor's form are of the latest day alone, since they have the time of now. */
async function publishDay(day: string, isLatest: boolean, objectives: readonly TrueObjective[], deps: Measuring) {
  const { storage, workBucket, environment, measured } = deps;
  const schedule = environment.GROUND_TRUTH.modelMonitorSchedule;
  const { kind, groups } = await measured(day, hoursLater(`${day}T00`, 24));
  const [figures] = groups;
  const found = figures && modelMonitorFiles(kind, figures, objectives);
  if (found === undefined) return;
  for (const [file, content] of Object.entries(found.files)) {
    await storage.putText(workBucket, truthKeys.reports(day, file), JSON.stringify(content, null, 2));
  }
  if (isLatest && schedule !== undefined)
    publishModelMetrics(found.metrics, environment.SAGEMAKER_ENDPOINT_NAME, schedule);
}

/** Reads people's labels from MLflow once a day, a row for each trace, scorer and person. */
import { DAY_MS } from '../captures/files/capture-path.ts';
import type { Work } from '../core/aws/storage.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';
import { logger } from '../core/process/logging.ts';
import { readLabel, type ScorerValues } from '../core/values/scorer-values.ts';
import type { Scorer } from '../judge/types.ts';
import { dayOf, isFirst, writeLabels } from '../ledger/files.ts';
import type { Row } from '../ledger/tables.ts';
import type { MlflowClient } from '../mlflow/client.ts';
import { type ExperimentSettings, findExperiment, isOfEndpoint } from '../mlflow/experiments.ts';
import {
  type AssessedTrace,
  assessedTraces,
  givenBy,
  latestByPerson,
  timeOf,
} from '../quality/calibration/assessed-traces.ts';
import { nameOf } from '../quality/cell.ts';
import { hourOf } from '../quality/tally.ts';

/** Number of days (UTC) that are read, including today. */
const DAYS = 30;
const MOST_MS = 10 * 60_000;

interface Reading {
  connect(): Promise<Pick<MlflowClient, 'rest'>>;
  settings: ExperimentSettings & { MLFLOW_EXPERIMENT_NAME: string };
  scorers: readonly Scorer[];
  nowMs: number;
  /** Whether the function has time to continue. */
  hasTime(): boolean;
}

/**
 * Reads the labels, if no run has read them today. Begins with the newest day. If the time ends, or MLflow is not available, older days are
 * not updated, and the run does not fail: a run of tomorrow reads them.
 */
export const readLabelsDaily = (work: Work, reading: Reading): Promise<void> =>
  readDays(work, reading).catch((error: unknown) =>
    logger.warn("People's labels could not be read. A run of tomorrow reads them", { error: error as Error }),
  );

async function readDays(work: Work, reading: Reading): Promise<void> {
  const { connect, settings, scorers, nowMs, hasTime } = reading;
  if (!(await isFirst(work, ledgerKeys.labelsRead(dayOf(hourOf(nowMs)))))) return;
  const { rest } = await connect();
  const experimentId = (await findExperiment(rest, settings.MLFLOW_EXPERIMENT_NAME))?.id;
  if (experimentId === undefined) return;
  const until = Date.now() + MOST_MS;
  for (let back = 0; back < DAYS; back += 1) {
    const day = dayOf(hourOf(nowMs - back * DAY_MS));
    const rows: Row<'labels'>[] = [];
    const window = { fromMs: Date.parse(day), toMs: Date.parse(day) + DAY_MS };
    for await (const trace of assessedTraces(rest, { experimentId, ...window })) {
      if (!hasTime() || Date.now() > until) {
        logger.warn('There was no time to read the labels of this day and of days before it', { day });
        return;
      }
      if (isOfEndpoint(settings, trace.tags)) rows.push(...labelsOf(trace, scorers, nowMs));
    }
    await writeLabels(work, day, rows);
  }
}

const BOOLEAN: ScorerValues = { kind: 'boolean' };

/** Returns the label of each person and scorer. */
function labelsOf(trace: AssessedTrace, scorers: readonly Scorer[], readAt: number): Row<'labels'>[] {
  const { trace_id: traceId, request_time: time, tags, assessments } = trace;
  return scorers.flatMap((scorer) =>
    latestByPerson(assessments.filter(({ assessment_name: name }) => name === scorer.name)).map((label) => {
      const value = readLabel(scorer.kind === 'judge' ? scorer.values : BOOLEAN, givenBy(label));
      return {
        ...{ hour: hourOf(Date.parse(time)), variant: tags.sagemaker_variant_name, traceId, scorer: scorer.name },
        ...{ person: nameOf(label.source.source_id), value: value === undefined ? undefined : String(value) },
        ...{ number: typeof value === 'number' ? value : undefined, labeledAt: timeOf(label), readAt },
      };
    }),
  );
}

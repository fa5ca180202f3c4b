/** Compares each trace and verdict that the ledger records as written with the traces and verdicts in MLflow. */

import { DAY_MS } from '../../src/captures/files/capture-path.ts';
import { RUN_TAG } from '../../src/captures/trace/ids.ts';
import { Storage, type Work } from '../../src/core/aws/storage.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { many } from '../../src/core/text/figure-text.ts';
import { dayOf, listFiles, readListed } from '../../src/ledger/files.ts';
import { isAbove, isTraced } from '../../src/ledger/precedence.ts';
import type { Row } from '../../src/ledger/tables.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { searchTraces, storedTrace } from '../../src/mlflow/existing-traces.ts';
import { type ExperimentSettings, findExperiment, isOfEndpoint } from '../../src/mlflow/experiments.ts';
import type { TraceInfoReply } from '../../src/mlflow/replies.ts';
import { RUN_METADATA, type StoredTrace } from '../../src/mlflow/types.ts';
import { hourOfLine } from '../../src/monitoring/outcomes/rows.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { notice } from '../cli/output.ts';
import { functionVariables } from '../operate/aws-calls.ts';
import { type CheckContext, checked, type Finding, type Found, ok, unknown, warning } from './finding.ts';
import DIFFERENCES from './ledger-differences.json' with { type: 'json' };

/** A day of a million traces takes some 20 minutes, at a hundred traces a request. */
const LIMIT_MS = DAY_MS;
const ACTION = 'lambda:GetFunctionConfiguration, and s3:ListBucket and s3:GetObject on the work bucket';

type Compared = Pick<CheckContext, 'lambda' | 's3' | 'settings'>;

/** Compares day by day (UTC), and returns the differences as findings. */
export const checkLedger = (context: Compared, window: TimeWindow): Promise<Finding[]> =>
  checked('ledger', ACTION, () => compare(context, window), LIMIT_MS);

async function compare({ lambda, s3, settings }: Compared, { fromMs, toMs }: TimeWindow): Promise<Found> {
  const { STACK_PREFIX: prefix, SAGEMAKER_ENDPOINT_NAME: endpoint, MLFLOW_EXPERIMENT_NAME: name = endpoint } = settings;
  if (prefix === undefined || name === undefined) return unknown('No stack is named.', 'give --stack');
  const { WORK_BUCKET: workBucket = '' } = await functionVariables(lambda, resourceNames(prefix).processor);
  const work = { storage: new Storage(s3), workBucket };
  notice('Comparing the ledger with MLflow, day by day.');
  const mlflow = mlflowOf(settings, s3);
  try {
    const { id = '' } = (await findExperiment(mlflow.rest, name)) ?? {};
    const differences = new Differences();
    for (let day = dayOf(hourOf(fromMs)); Date.parse(day) < toMs; day = dayOf(hourOf(Date.parse(day) + DAY_MS))) {
      await compareDay(work, mlflow, { day, experimentId: id, settings }, differences);
    }
    return differences.findings();
  } finally {
    mlflow.close();
  }
}

/** Maximum number of named traces for each kind of difference. */
const MOST_NAMED = 3;

class Differences {
  readonly compared = { traces: 0, verdicts: 0 };
  readonly #names = new Map<keyof typeof DIFFERENCES, { count: number; first: string[] }>();

  note(kind: keyof typeof DIFFERENCES, name: string): void {
    const { count = 0, first = [] } = this.#names.get(kind) ?? {};
    this.#names.set(kind, { count: count + 1, first: first.length < MOST_NAMED ? [...first, name] : first });
  }

  findings(): Found {
    const { traces, verdicts } = this.compared;
    const compared = `${many(traces, 'trace')} and ${many(verdicts, 'verdict')} of the ledger`;
    if (this.#names.size === 0) return ok(`${compared} are in MLflow, which has no others of the stack.`);
    return [...this.#names].map(([kind, { count, first }]) => {
      const named = `${first.join(', ')}${count > first.length ? ', …' : ''}`;
      return warning(`${count} ${DIFFERENCES[kind].what}: ${named}. (${compared}.)`, DIFFERENCES[kind].repair);
    });
  }
}

/** Keeps the day's rows that count and one page of MLflow's traces in memory. */
async function compareDay(
  work: Work,
  mlflow: MlflowClient,
  { day, experimentId, settings }: { day: string; experimentId: string; settings: ExperimentSettings },
  differences: Differences,
): Promise<void> {
  const { compared } = differences;
  const traces = await inForceOf(work, 'captures', day, ['outcome', 'experimentId'], ({ traceId = '' }) => traceId);
  for (const [id, row] of traces) if (!isTraced(row)) traces.delete(id);
  const subjectOf = ({ traceId, scorer }: Row<'verdicts'>): string => `${traceId} ${scorer}`;
  const verdicts = await inForceOf(work, 'verdicts', day, ['scorer', 'state', 'value'], subjectOf);
  const seen = new Set<string>();
  const add = ({ traceId, assessments }: StoredTrace): void => {
    seen.add(traceId);
    const given = assessments.filter((one) => one.sourceType !== 'HUMAN' && !one.isExpectation);
    for (const [scorer, own] of Map.groupBy(given, ({ name }) => name)) {
      // A verdict that a person has overridden still counts as written.
      const { valid, value, isEdited, metadata = {} } = own.find((one) => one.valid) ?? own.at(-1) ?? {};
      if (value === undefined) continue;
      const subject = subjectOf({ traceId, scorer });
      const row = verdicts.get(subject);
      verdicts.delete(subject);
      if (row?.state === 'given') {
        compared.verdicts += 1;
        if (!isEdited && String(value) !== row.value) differences.note('otherVerdicts', subject);
      } else if (valid && RUN_METADATA in metadata) differences.note('unknownVerdicts', subject);
    }
  };
  const experiments = new Set([experimentId, ...[...traces.values()].map((row) => row.experimentId ?? '')]);
  const filter = `timestamp_ms >= ${Date.parse(day)} AND timestamp_ms < ${Date.parse(day) + DAY_MS}`;
  for (const experiment of experiments) {
    for await (const page of searchTraces(mlflow.rest, experiment, { filter, order_by: ['timestamp_ms ASC'] })) {
      for (const info of page) {
        const isOwn = RUN_TAG in info.tags && isOfEndpoint(settings, info.tags);
        if (traces.has(info.trace_id)) add(storedTrace(info));
        else if (isOwn && dayOfRows(info) === day) differences.note('unknownTraces', info.trace_id);
      }
    }
  }
  // If the time in a line is on another day than its file, its trace is found by its id.
  const unseen = [...traces].filter(([id]) => !seen.has(id));
  for (const [experiment, rows] of Map.groupBy(unseen, ([, row]) => row.experimentId ?? '')) {
    const ids = rows.map(([id]) => id);
    for (const trace of (await mlflow.getTraces(experiment, ids)).values()) add(trace);
  }
  compared.traces += traces.size;
  for (const [id] of unseen) if (!seen.has(id)) differences.note('goneTraces', id);
  for (const [subject, { state, traceId = '' }] of verdicts) {
    if (state !== 'given' || !seen.has(traceId)) continue;
    compared.verdicts += 1;
    differences.note('goneVerdicts', subject);
  }
}

/** Returns the day under which the ledger has the rows of a trace. */
function dayOfRows({ request_time: time, tags: { s3_file_key: key = '' } }: TraceInfoReply): string {
  const ms = Date.parse(time);
  return dayOf(hourOfLine({ place: { key, objectTimeMs: ms }, facts: { time: ms } }));
}

/** Returns the rows of a day that count, by their subject. */
async function inForceOf<T extends 'captures' | 'verdicts'>(
  work: Work,
  table: T,
  day: string,
  columns: readonly (keyof Row<T> & string)[],
  subjectIn: (row: Row<T>) => string,
): Promise<Map<string, Row<T>>> {
  const found = new Map<string, Row<T>>();
  const files = await Array.fromAsync(listFiles(work, table, day, day));
  const read = ['precedence', 'attempt', 'traceId', ...columns] as const;
  for await (const rows of readListed<T, keyof Row<T>>(work, table, files, read)) {
    for (const row of rows) {
      const subject = subjectIn(row);
      if (isAbove(row, found.get(subject))) found.set(subject, row);
    }
  }
  return found;
}

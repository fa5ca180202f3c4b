/** Compares the ledger with MLflow, one by one: the traces and verdicts that rows say were written, and those that MLflow has. */
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { RUN_TAG } from '../../src/captures/trace/ids.ts';
import type { LinePlace } from '../../src/captures/types.ts';
import { Storage, type Work } from '../../src/core/aws/storage.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { many } from '../../src/core/text/figure-text.ts';
import { dayOf, listFiles, readListed } from '../../src/ledger/files.ts';
import { isAbove } from '../../src/ledger/precedence.ts';
import type { Row } from '../../src/ledger/tables.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { searchTraces, storedTrace } from '../../src/mlflow/existing-traces.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import type { TraceInfoReply } from '../../src/mlflow/replies.ts';
import { RUN_METADATA, type StoredTrace } from '../../src/mlflow/types.ts';
import { hourOfLine } from '../../src/monitoring/outcomes/rows.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { notice } from '../cli/output.ts';
import { type CheckContext, checked, type Finding, type Found, ok, unknown, warning } from './finding.ts';
import DIFFERENCES from './ledger-differences.json' with { type: 'json' };

type Kind = keyof typeof DIFFERENCES;

/** Of each kind, that many are named. */
const MOST_NAMED = 3;
const DAY_MS = 86_400_000;
/** A day of a million traces takes some 20 minutes, a hundred a request. */
const LIMIT_MS = 24 * 3_600_000;

/** Makes `compareDays` findings. */
export const checkLedger = (context: CheckContext, window: TimeWindow): Promise<Finding[]> =>
  checked(
    'ledger',
    'lambda:GetFunctionConfiguration, and s3:ListBucket and s3:GetObject on the work bucket',
    () => compareWith(context, window),
    LIMIT_MS,
  );

async function compareWith({ lambda, s3, settings }: CheckContext, window: TimeWindow): Promise<Found> {
  const { STACK_PREFIX: prefix, SAGEMAKER_ENDPOINT_NAME: endpoint, MLFLOW_EXPERIMENT_NAME: name = endpoint } = settings;
  if (prefix === undefined || name === undefined) return unknown('No stack is named.', 'give --stack');
  const { processor: FunctionName } = resourceNames(prefix);
  const { Environment } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  const { WORK_BUCKET: workBucket = '' } = Environment?.Variables ?? {};
  notice('Comparing the ledger with MLflow, day by day.');
  const mlflow = mlflowOf(settings, s3);
  try {
    const { id = '' } = (await findExperiment(mlflow.rest, name)) ?? {};
    const of = { experimentId: id, endpoint: settings.MLFLOW_EXPERIMENT_SHARED ? endpoint : undefined };
    const comparison = new Comparison({ storage: new Storage(s3), workBucket }, mlflow, of);
    for (let ms = window.fromMs; dayOf(hourOf(ms)) <= dayOf(hourOf(window.toMs - 1)); ms += DAY_MS) {
      await comparison.addDay(dayOf(hourOf(ms)));
    }
    return comparison.findings();
  } finally {
    mlflow.close();
  }
}

/** What rows say of a day: of each trace the row that counts, and of each of its scorers. */
interface Day {
  traces: Map<string, Row<'captures'>>;
  verdicts: Map<string, Map<string, Row<'verdicts'>>>;
}

class Comparison {
  readonly #work: Work;
  readonly #mlflow: MlflowClient;
  /** `endpoint`: others write to the experiment as well. */
  readonly #of: { experimentId: string; endpoint: string | undefined };
  readonly #found = new Map<Kind, { count: number; first: string[] }>();
  #traces = 0;
  #verdicts = 0;

  constructor(work: Work, mlflow: MlflowClient, of: { experimentId: string; endpoint: string | undefined }) {
    [this.#work, this.#mlflow, this.#of] = [work, mlflow, of];
  }

  #note(kind: Kind, name: string): void {
    const found = this.#found.get(kind) ?? { count: 0, first: [] };
    this.#found.set(kind, found);
    found.count += 1;
    if (found.first.length < MOST_NAMED) found.first.push(name);
  }

  /** Compares a day (UTC). The rows of the day are in memory, and a page of MLflow's traces. */
  async addDay(day: string): Promise<void> {
    const { traces, verdicts } = await rowsOfDay(this.#work, day);
    const filter = `timestamp_ms >= ${Date.parse(day)} AND timestamp_ms < ${Date.parse(day) + DAY_MS}`;
    const query = { filter, order_by: ['timestamp_ms ASC'] };
    const experiments = new Set([this.#of.experimentId, ...[...traces.values()].map((row) => row.experimentId ?? '')]);
    const seen = (trace: StoredTrace): void => {
      traces.delete(trace.traceId);
      this.#addTrace(trace, verdicts.get(trace.traceId) ?? new Map());
    };
    for (const experimentId of experiments) {
      for await (const page of searchTraces(this.#mlflow.rest, experimentId, query)) {
        for (const info of page) {
          if (traces.has(info.trace_id)) seen(storedTrace(info));
          else if (this.#isOwn(info.tags) && dayOfTrace(info) === day) this.#note('unknownTraces', info.trace_id);
        }
      }
    }
    // Those of a line that names another day than its file are found by their ids.
    for (const [experimentId, rows] of Map.groupBy(traces, ([, row]) => row.experimentId ?? '')) {
      const stored = await this.#mlflow.getTraces(
        experimentId,
        rows.map(([id]) => id),
      );
      for (const trace of stored.values()) seen(trace);
    }
    this.#traces += traces.size;
    for (const id of traces.keys()) this.#note('goneTraces', id);
  }

  #isOwn(tags: Readonly<Record<string, string>>): boolean {
    const { endpoint } = this.#of;
    return RUN_TAG in tags && (endpoint === undefined || tags.sagemaker_endpoint_name === endpoint);
  }

  #addTrace({ traceId, assessments }: StoredTrace, told: ReadonlyMap<string, Row<'verdicts'>>): void {
    this.#traces += 1;
    const stored = assessments.filter(
      ({ sourceType, isExpectation, value }) => sourceType !== 'HUMAN' && !isExpectation && value !== undefined,
    );
    for (const [scorer, { state, value }] of told) {
      if (state !== 'given') continue;
      this.#verdicts += 1;
      // A person who overrides a verdict does not take it back.
      const own = stored.filter(({ name }) => name === scorer);
      const inForce = own.some(({ valid }) => valid) ? own.filter(({ valid }) => valid) : own;
      if (own.length === 0) this.#note('goneVerdicts', `${traceId} ${scorer}`);
      else if (!inForce.some((one) => one.isEdited || String(one.value) === value))
        this.#note('otherVerdicts', `${traceId} ${scorer}`);
    }
    for (const { name, valid, metadata } of stored) {
      const isKnown = told.get(name)?.state === 'given';
      if (valid && !isKnown && RUN_METADATA in metadata) this.#note('unknownVerdicts', `${traceId} ${name}`);
    }
  }

  findings(): Found {
    const compared = `${many(this.#traces, 'trace')} and ${many(this.#verdicts, 'verdict')} of the ledger`;
    if (this.#found.size === 0)
      return ok(`${compared} are in MLflow as the ledger has them, and it knows all that are there.`);
    return [...this.#found].map(([kind, { count, first }]) => {
      const named = `${first.join(', ')}${count > first.length ? ', …' : ''}`;
      return warning(
        `${count} ${DIFFERENCES[kind].what}: ${named}. (${compared} were compared.)`,
        DIFFERENCES[kind].repair,
      );
    });
  }
}

/** Returns the day of a trace's rows. */
const dayOfTrace = ({ request_time: time, tags: { s3_file_key: key = '' } }: TraceInfoReply): string =>
  dayOf(hourOfLine({ place: { key, objectTimeMs: Date.parse(time) } as LinePlace, facts: { time: Date.parse(time) } }));

async function rowsOfDay(work: Work, day: string): Promise<Day> {
  const [traces, verdicts]: [Day['traces'], Day['verdicts']] = [new Map(), new Map()];
  const files = <T extends 'captures' | 'verdicts'>(table: T) => Array.fromAsync(listFiles(work, table, day, day));
  const columns = ['precedence', 'attempt', 'traceId'] as const;
  const ofTraces = [...columns, 'outcome', 'experimentId'] as const;
  for await (const rows of readListed(work, 'captures', await files('captures'), ofTraces)) {
    for (const row of rows) {
      const { traceId } = row;
      if (traceId !== undefined && isAbove(row, traces.get(traceId))) traces.set(traceId, row);
    }
  }
  for (const [id, { outcome }] of traces) if (outcome !== 'traced' && outcome !== 'alreadyThere') traces.delete(id);
  for await (const rows of readListed(work, 'verdicts', await files('verdicts'), [
    ...columns,
    'scorer',
    'state',
    'value',
  ])) {
    for (const row of rows) {
      const { traceId = '', scorer = '' } = row;
      const own = verdicts.get(traceId) ?? new Map<string, Row<'verdicts'>>();
      verdicts.set(traceId, own);
      if (isAbove(row, own.get(scorer))) own.set(scorer, row);
    }
  }
  return { traces, verdicts };
}

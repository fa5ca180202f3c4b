/**
 * Sends what parts of the ledger have to an OpenTelemetry receiver: the spans of captures, and verdicts. A part is sent at least once. All
 * ids follow from the trace id and the scorer, so that a receiver recognizes what it has.
 */
import { hash } from 'node:crypto';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { rootSpanIdOf } from '../../captures/trace/ids.ts';
import { cleanText } from '../../captures/trace/text.ts';
import type { OtlpMetric } from '../../core/contract/metric-names.ts';
import { ledgerKeys, SENT_TABLES } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { hidesMore, readMasking } from '../../core/settings/redact-setting.ts';
import { batches } from '../../core/values/batches.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { readFiles } from '../../ledger/files.ts';
import { readForgotten } from '../../ledger/forgotten.ts';
import { isTraced } from '../../ledger/precedence.ts';
import type { Row } from '../../ledger/tables.ts';
import type { LimitsTable } from '../../limits/table.ts';
import type { MlflowClient } from '../../mlflow/client.ts';
import { IDS_PER_READ, searchIds } from '../../mlflow/existing-traces.ts';
import { otlpLog, otlpRequest, otlpTrace } from '../../mlflow/otlp.ts';
import type { TraceInfoReply } from '../../mlflow/replies.ts';
import { eachMessage, notAnEvent, type QueueDependencies } from '../queued.ts';
import { fileIn } from '../start-run.ts';
import { sentOf } from '../write/sent-traces.ts';
import { type connectOtlp, PATHS, type Sendable } from './receiver.ts';
import { type TraceReading, tracesOf } from './row-traces.ts';

interface SendDependencies extends TraceReading, Pick<QueueDependencies, 'sqs'> {
  /** The table with what was sent to MLflow. */
  table: LimitsTable;
  mlflow(): Promise<Pick<MlflowClient, 'rest'>>;
  /** Connects to the receiver. */
  connect(): ReturnType<typeof connectOtlp>;
  count(metric: OtlpMetric, value: number): void;
}

/** A row of either table, which has the columns of its own. */
type SentRow = Row<'captures'> & Row<'verdicts'>;
/** What MLflow has of a trace; `undefined` if it never had it. */
type Known = ReadonlyMap<string, TraceInfoReply | undefined>;

/** The traces of so many rows are looked for in MLflow before the first is sent. */
const ROWS_AT_ONCE = 500;
/** https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/#event-gen_aievaluationresult */
const EVENT = 'gen_ai.evaluation.result';
const UID_DIGITS = 32;
/** Phoenix keeps this name of annotations for notes. */
const RESERVED = 'note';

/**
 * Sends the parts in the messages of the queue.
 *
 * @returns the messages that the queue delivers again
 *
 * @example
 *     const { batchItemFailures } = await sendParts(event, { ...connected, connect: () => connectOtlp(environment) });
 */
export function sendParts(event: SQSEvent, deps: SendDependencies): Promise<SQSBatchResponse> {
  const queue = { ...deps, late: () => deps.count('OtlpLate', 1), done: 'sent' };
  return eachMessage(event, queue, ({ body }) => sendPart(body, deps));
}

/**
 * @param body the event of a file of the ledger; `hours` limits it to the rows from the first to the last hour
 * @throws PermanentError `NotAnEvent`, `OtlpPartGone`; the errors of `connectOtlp`, of MLflow, of S3 and of the table
 */
async function sendPart(body: string, deps: SendDependencies): Promise<void> {
  const { environment, storage } = deps;
  const { bucket, key = '' } = fileIn(body) ?? {};
  const table = SENT_TABLES.find((name) => key.startsWith(ledgerKeys.table(name)));
  if (table === undefined || bucket !== environment.WORK_BUCKET) throw notAnEvent();
  const [first = '', last = '9'] = Object(jsonIn(body)).hours ?? [];
  const isSent = (row: SentRow): boolean =>
    String(row.hour) >= first &&
    String(row.hour) <= last &&
    (table === 'captures' ? isTraced(row) : row.state !== 'held');
  const gone = (): never => {
    const facts = { got: key, expected: 'inference-monitor retry --what otlp --from that day' };
    throw new PermanentError('OtlpPartGone', 'The part was merged and removed before it was sent', facts);
  };
  const send = await deps.connect();
  const forgotten = await readForgotten({ storage, workBucket: bucket });
  const hidden = new Set(forgotten.flatMap(({ traces }) => Object.values(traces).flat()));
  const path = table === 'verdicts' && environment.OTLP_VERDICTS === 'phoenix' ? PATHS.annotations : PATHS[table];
  for await (const group of readFiles({ storage, workBucket: bucket }, table, [key], undefined, gone)) {
    for (const some of batches<SentRow>(group.filter(isSent), ROWS_AT_ONCE)) {
      const known = await knownOf(some, deps);
      const rows = some.filter(({ traceId = '' }) => known.has(traceId) && !hidden.has(traceId));
      await send(path, path === PATHS.captures ? spansOf(rows, deps) : verdictsOf(rows, known, deps));
    }
  }
}

/** Finds the traces that may be sent. A person has deleted a trace that was sent to MLflow and is absent there. */
async function knownOf(rows: readonly SentRow[], { mlflow, table }: SendDependencies): Promise<Known> {
  const { rest } = await mlflow();
  const known = new Map<string, TraceInfoReply | undefined>();
  for (const [experimentId = '', own] of Map.groupBy(rows, (row) => row.experimentId)) {
    const ids = [...new Set(own.map(({ traceId = '' }) => traceId))];
    for (const some of batches(ids, IDS_PER_READ)) {
      for await (const page of searchIds(rest, experimentId, some)) {
        for (const info of page) known.set(info.trace_id, info);
      }
    }
    const absent = ids.filter((id) => !known.has(id));
    const deleted = await sentOf(table, absent);
    for (const id of absent) if (!deleted.has(id)) known.set(id, undefined);
  }
  return known;
}

async function* spansOf(rows: readonly SentRow[], deps: SendDependencies): AsyncGenerator<Sendable> {
  for await (const trace of tracesOf(rows, deps)) {
    const encoded = otlpTrace(trace, true, deps.environment.SAGEMAKER_ENDPOINT_NAME);
    yield { bytes: otlpRequest([encoded]), items: encoded.spans.length };
  }
}

function* verdictsOf(rows: readonly SentRow[], known: Known, { environment }: SendDependencies): Generator<Sendable> {
  const { SAGEMAKER_ENDPOINT_NAME: endpoint, OTLP_VERDICTS: form } = environment;
  for (const row of rows) {
    const { traceId = '', scorer: name = '', assessmentId, state, judge, version, number: score, value } = row;
    const { assessments } = known.get(traceId) ?? {};
    const assessment = assessments?.find(({ assessment_id: id }) => id === assessmentId);
    const isNewer = assessments?.some(
      (one) => one.assessment_name === name && one.valid && one.source.source_type !== 'HUMAN',
    );
    // A person has deleted it, or another verdict of the scorer has replaced it.
    if (assessments && assessmentId && (assessment === undefined || (!assessment.valid && isNewer))) continue;
    const label = score === undefined && state !== 'failed' ? value : undefined;
    const error = state === 'failed' ? (row.errorCode ?? '_OTHER') : undefined;
    const rationale = hidesMore(environment, readMasking(row.masking)) ? '' : cleanText(assessment?.rationale ?? '');
    const explanation = rationale === '' ? undefined : rationale;
    const uid = hash('sha256', `${traceId}\n${name}`).slice(0, UID_DIGITS);
    const spanId = assessment?.span_id ?? rootSpanIdOf(traceId);
    if (form === 'phoenix') {
      const annotation = {
        ...{ span_id: spanId, name: name === RESERVED ? `${RESERVED} (scorer)` : name, identifier: uid },
        annotator_kind: row.isCode ? 'CODE' : 'LLM',
        result: { score, label: label ?? error, explanation },
        metadata: { judge, version, error },
      };
      yield { bytes: Buffer.from(JSON.stringify(annotation)), items: 1, spanId };
      continue;
    }
    const attributes = {
      'log.record.uid': uid,
      'gen_ai.evaluation.name': name,
      'gen_ai.evaluation.score.value': score,
      'gen_ai.evaluation.score.label': label,
      'gen_ai.evaluation.explanation': explanation,
      'error.type': error,
    };
    const atMs = Date.parse(assessment?.create_time || `${row.hour}:00:00Z`);
    yield { bytes: otlpLog({ name: EVENT, traceId, spanId, atMs, attributes }, endpoint), items: 1 };
  }
}

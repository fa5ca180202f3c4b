/** Writes the exchanges of a single-process replay as traces, each with the judge's verdict on its reply. */
import { join } from 'node:path';
import { decodeLine } from '../../captures/decode.ts';
import { buildTrace } from '../../captures/trace/build.ts';
import { exchangeTraceId } from '../../captures/trace/exchange.ts';
import { assessmentIdOf } from '../../captures/trace/ids.ts';
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { ExchangeFacts } from '../../captures/types.ts';
import { PermanentError, toNamedError } from '../../core/errors/errors.ts';
import { PAIRWISE_SCORER } from '../../judge/pairwise.ts';
import type { MlflowClient } from '../../mlflow/client.ts';
import { type Experiment, JUDGE_COST, type NewAssessment, SCORER_NAME, SCORER_VERSION } from '../../mlflow/types.ts';
import { jsonLines } from '../compare/json-lines.ts';
import type { JudgedReply } from '../compare/judge-replies.ts';
import { JUDGED_FILE } from '../compare/with-captured.ts';
import { LineWriter } from '../results/line-writer.ts';
import { scanFile } from '../source/lines.ts';
import { EXCHANGES_FILE } from './exchanges.ts';

/** The file of the requests without a trace in MLflow, with the reasons. */
export const REFUSED_FILE = 'refused-traces.jsonl';

/** Two concurrent requests of 100 traces; more would only wait in memory. */
const BATCH_LINES = 200;
/** The traces of a batch are about six times as large as its lines. A single line may be larger than this. */
const BATCH_BYTES = 8 * 1024 * 1024;

export interface WrittenTraces {
  traces: number;
  /** Traces that MLflow refused, listed in `refused-traces.jsonl`. */
  refused: number;
  /** Numbers of the judge's verdicts that are in MLflow, and that are not. Absent if the judge was not asked. */
  assessments?: { written: number; missing: number };
}

/** An exchange with its trace. */
interface Traced {
  trace: TraceRecord;
  facts: ExchangeFacts | undefined;
}

/**
 * @param runId MLflow's run that shows the traces
 * @param run name of the replay
 */
export function exchangeTraces(
  client: Pick<MlflowClient, 'writeTraces'>,
  experiment: Experiment,
  runId: string,
  run: string,
  directory: string,
) {
  /** The traces written so far, even after an error. */
  const result: WrittenTraces = { traces: 0, refused: 0 };
  let refusedFile: LineWriter | undefined;

  /** Adds a line to `refused-traces.jsonl`. */
  const refuse = ({ trace, facts }: Partial<Traced>, reason: { name: string; message: string }): void => {
    const { requestId: request_id, file, line } = facts ?? {};
    const trace_id = trace?.traceId;
    refusedFile ??= new LineWriter(join(directory, REFUSED_FILE));
    refusedFile.write(JSON.stringify({ trace_id, event_id: trace?.tags.event_id, request_id, file, line, reason }));
    result.refused++;
  };

  const tracedOf = (bytes: Buffer): Traced | undefined => {
    const nowhere = { bucket: '', etag: '', line: 0, objectTimeMs: 0 };
    const raw = { bytes, place: { ...nowhere, key: EXCHANGES_FILE, start: 0, end: bytes.length - 1 } };
    const decoded = decodeLine(raw, { areExchanges: true });
    const facts = decoded.kind === 'capture' ? decoded.capture.exchange : undefined;
    try {
      if (decoded.kind !== 'capture') throw new PermanentError('NotACapture', decoded.reason.message);
      const trace = buildTrace(decoded.capture, raw, { experimentId: experiment.id, endpointName: run });
      return { trace: { ...trace, sourceRun: runId }, facts };
    } catch (error) {
      refuse({ facts }, toNamedError(error));
      return undefined;
    }
  };

  const send = async (batch: readonly Traced[], verdicts: Map<string, NewAssessment> | undefined): Promise<void> => {
    const byId = new Map(batch.map((traced) => [traced.trace.traceId, traced]));
    const assessments = new Map(
      [...byId.keys()].flatMap((traceId) => {
        const verdict = verdicts?.get(traceId);
        return verdict ? [[traceId, [verdict]] as const] : [];
      }),
    );
    const traces = batch.map(({ trace }) => trace);
    const { refused, bare } = await client.writeTraces(experiment, traces, assessments, { areAbsent: true });
    result.traces += traces.length - refused.length;
    const lacking = new Set([...bare, ...refused.map(({ traceId }) => traceId)]);
    const written = [...assessments.keys()].filter((traceId) => !lacking.has(traceId)).length;
    if (result.assessments) {
      result.assessments.written += written;
      result.assessments.missing -= written;
    }
    for (const { traceId, reason } of refused) refuse(byId.get(traceId) ?? {}, reason);
  };

  return {
    result,
    /** @throws errors of MLflow's client if the server cannot be reached or refuses everything */
    write: async (judged: boolean): Promise<void> => {
      const verdicts = judged ? await verdictsIn(directory, experiment, run) : undefined;
      if (verdicts) result.assessments = { written: 0, missing: verdicts.size };
      try {
        for await (const batch of tracedIn(directory, tracedOf)) await send(batch, verdicts);
      } finally {
        await refusedFile?.close();
      }
    },
  };
}

/** Yields the exchanges of a replay that have a trace, with their traces. */
async function* tracedIn(directory: string, tracedOf: (bytes: Buffer) => Traced | undefined): AsyncGenerator<Traced[]> {
  let batch: Traced[] = [];
  let size = 0;
  // No length limit: a line contains a request and a reply, which together may exceed the limit of a capture line.
  for await (const { bytes } of scanFile(join(directory, EXCHANGES_FILE), Number.POSITIVE_INFINITY)) {
    if (!bytes) continue;
    const traced = tracedOf(Buffer.from(bytes));
    if (traced) batch.push(traced);
    size += bytes.length;
    if (batch.length < BATCH_LINES && size < BATCH_BYTES) continue;
    yield batch;
    batch = [];
    size = 0;
  }
  yield batch;
}

/** The judge's verdicts by the ids of their traces. */
async function verdictsIn(directory: string, { id }: Experiment, run: string): Promise<Map<string, NewAssessment>> {
  const verdicts = new Map<string, NewAssessment>();
  for await (const { value } of jsonLines(join(directory, JUDGED_FILE))) {
    const judged = value as JudgedReply;
    const traceId = exchangeTraceId(id, run, judged.request_id);
    verdicts.set(traceId, pairAssessment(traceId, judged));
  }
  return verdicts;
}

function pairAssessment(traceId: string, judged: JudgedReply): NewAssessment {
  const { name, version } = PAIRWISE_SCORER;
  const { judge: sourceId, verdict, rationale, usd } = judged;
  return {
    assessmentId: assessmentIdOf(traceId, name, version, sourceId),
    traceId,
    name,
    sourceType: 'LLM_JUDGE',
    sourceId,
    createTimeMs: Date.now(),
    ...(verdict === 'failed'
      ? { error: judged.error ?? { code: 'NO_VERDICT', message: 'The judge returned no verdict on the pair' } }
      : { value: verdict }),
    ...(rationale === undefined ? {} : { rationale }),
    metadata: {
      [SCORER_NAME]: name,
      [SCORER_VERSION]: version,
      // An unknown price is omitted rather than written as 0.
      ...(usd === null ? {} : { [JUDGE_COST]: String(usd) }),
    },
  };
}

/** Remarks about the traces and verdicts of a replay that MLflow does not show as expected. */
export function mlflowRemarks({ refused, assessments }: WrittenTraces): string[] {
  const missing = assessments?.missing ?? 0;
  return [
    ...(refused > 0 ? [`Traces that MLflow refused: ${refused}, listed in ${REFUSED_FILE}`] : []),
    ...(missing > 0 ? [`Verdicts that MLflow does not have: ${missing}, listed in ${JUDGED_FILE}`] : []),
  ];
}

/** Writes the traces of a replay from its spool, in idempotent batches. */

import type { TraceRecord } from '../../captures/trace/types.ts';
import { PermanentError, toNamedError } from '../../core/errors/errors.ts';
import type { MlflowClient } from '../../mlflow/client.ts';
import { linkTraces } from '../../mlflow/runs.ts';
import type { Experiment } from '../../mlflow/types.ts';
import { replayTrace } from './replay-trace.ts';
import type { ReplayedLine } from './replayed-line.ts';

/** The file of the requests without a trace in MLflow, with the reasons. */
export const REFUSED_FILE = 'refused-traces.jsonl';

/** Two concurrent requests of 100 traces; more would only wait in memory. */
const BATCH_LINES = 200;
/** The traces of a batch are about six times as large as its lines. A single line may be larger than this. */
const BATCH_BYTES = 8 * 1024 * 1024;

export interface TracePorts {
  client: Pick<MlflowClient, 'getTraces' | 'writeTraces' | 'mendTraces' | 'rest'>;
  experiment: Experiment;
  runId: string;
}

/** A line of `refused-traces.jsonl`. */
export interface RefusedTrace {
  trace_id?: string;
  event_id?: string;
  request_id: string;
  file: string;
  line: number;
  reason: { name: string; message: string };
}

interface WrittenTraces {
  /** Traces that are in MLflow now, including those of earlier attempts. */
  traces: number;
  refused: RefusedTrace[];
  /** Whether the server shows the traces under the run. */
  linked: boolean;
}

/** Collects the lines of a spool until a batch is full. */
export class SpoolBatch {
  lines: string[] = [];
  #bytes = 0;

  /** @param line a copy, not a view of a read buffer */
  add(line: string): void {
    if (line === '') return;
    this.lines.push(line);
    this.#bytes += line.length;
  }

  get isFull(): boolean {
    return this.lines.length >= BATCH_LINES || this.#bytes >= BATCH_BYTES;
  }
}

function refusedTrace(line: string, reason: RefusedTrace['reason'], traceId?: string): RefusedTrace {
  const { replay, eventMetadata } = JSON.parse(line) as ReplayedLine;
  return {
    trace_id: traceId,
    ...(typeof eventMetadata.eventId === 'string' ? { event_id: eventMetadata.eventId } : {}),
    request_id: replay.requestId,
    file: replay.file,
    line: replay.line,
    reason,
  };
}

/**
 * @param lines lines of a spool
 * @param link `false` if the server is known not to show traces under a run
 * @throws errors of MLflow's client if the server cannot be reached or refuses everything
 */
export async function writeTraces(
  { client, experiment, runId }: TracePorts,
  lines: readonly string[],
  link = true,
): Promise<WrittenTraces> {
  const refused: RefusedTrace[] = [];
  const traces = new Map<string, { trace: TraceRecord; line: string }>();
  for (const line of lines) {
    try {
      const trace = replayTrace(line, experiment.id);
      if (!trace) throw new PermanentError('NotACapture', 'The exchange cannot be read as a capture');
      traces.set(trace.traceId, { trace, line });
    } catch (error) {
      refused.push(refusedTrace(line, toNamedError(error)));
    }
  }
  const ids = [...traces.keys()];
  const existing = await client.getTraces(experiment.id, ids);
  const all = [...traces.values()].map(({ trace }) => trace);
  const isThere = ({ traceId }: TraceRecord): boolean => existing.has(traceId);
  // An interrupted attempt may have left an incomplete file of spans.
  const unmended = await client.mendTraces(experiment, all.filter(isThere));
  const missing = all.filter((trace) => !isThere(trace));
  const result = await client.writeTraces(experiment, missing);
  for (const { traceId, reason } of [...unmended, ...result.refused]) {
    refused.push(refusedTrace(traces.get(traceId)?.line ?? '', reason, traceId));
    traces.delete(traceId);
  }
  const linked = link && (await linkTraces(client.rest, { runId }, [...traces.keys()]));
  return { traces: traces.size, refused, linked };
}

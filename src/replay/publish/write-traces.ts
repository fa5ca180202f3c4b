/** Writes the traces of a replay from its spool, a batch at a time, so that doing a batch again changes nothing. */

import type { MlflowClient } from '../../mlflow/client.ts';
import { linkTraces } from '../../mlflow/runs.ts';
import type { Experiment } from '../../mlflow/types.ts';
import { PermanentError, toNamedError } from '../../shared/errors.ts';
import type { TraceRecord } from '../../trace/types.ts';
import { replayTrace } from './replay-trace.ts';
import type { ReplayedLine } from './replayed-line.ts';

/** Requests of which MLflow has no trace, and why. */
export const REFUSED_FILE = 'refused-traces.jsonl';

/** Two requests of 100 traces, which are under way at once; more would only wait in memory. */
const BATCH_LINES = 200;
/** A batch of lines of this size is some six times that as traces; one line alone may be larger. */
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
  /** Traces that are in MLflow now, whoever wrote them. */
  traces: number;
  refused: RefusedTrace[];
  /** The server shows them under the run. */
  linked: boolean;
}

/** Lines of a spool until there are enough of them for a batch. */
export class SpoolBatch {
  lines: string[] = [];
  #bytes = 0;

  /** @param line copied by whoever reads it */
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
 * @param lines of a spool
 * @param link `false` where the server is known not to show traces under a run
 * @throws what MLflow's client throws when the server cannot be reached or takes nothing
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
  const of = (isThere: boolean): TraceRecord[] =>
    [...traces.values()].flatMap(({ trace }) => (existing.has(trace.traceId) === isThere ? [trace] : []));
  // Of an attempt that was ended in the middle, a file of spans may not be whole.
  await client.mendTraces(experiment, of(true));
  const result = await client.writeTraces(experiment, of(false));
  for (const { traceId, reason } of result.refused) {
    refused.push(refusedTrace(traces.get(traceId)?.line ?? '', reason, traceId));
    traces.delete(traceId);
  }
  const linked = link && (await linkTraces(client.rest, { runId }, [...traces.keys()]));
  return { traces: traces.size, refused, linked };
}

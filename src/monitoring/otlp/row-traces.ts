/** Builds the traces of rows of the ledger again, from the captured lines that the rows name. */
import { isOfOneFile } from '../../captures/files/capture-objects.ts';
import type { connectRedaction } from '../../captures/redact/redaction.ts';
import { RUN_TAG, rootSpanIdOf } from '../../captures/trace/ids.ts';
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { OtlpEnvironment } from '../../core/settings/environment.ts';
import { hidesMore, readMasking } from '../../core/settings/redact-setting.ts';
import type { Row } from '../../ledger/tables.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { lineId } from '../chunk/ranges.ts';
import { traceLine } from '../write/trace-line.ts';

export interface TraceReading {
  environment: OtlpEnvironment;
  storage: Storage;
  redaction: typeof connectRedaction<OtlpEnvironment>;
}

type CaptureRow = Row<'captures'>;

/** A request costs as much as so many bytes that are read for nothing. */
const GAP_BYTES = 64 * 1024;
const NO_MESSAGES = 'the captured line is gone or too large, or REDACT or CONTENT now hides more';

/** Yields the trace of each row, masked as its run has masked it. If that is not possible, the trace has no messages. */
export async function* tracesOf(rows: readonly CaptureRow[], deps: TraceReading): AsyncGenerator<TraceRecord> {
  const alike = ({ masking, experimentId, run, bucket }: CaptureRow) =>
    JSON.stringify([masking, experimentId, run, bucket]);
  for (const own of Map.groupBy(rows, alike).values()) {
    const left = new Map(own.map((row) => [idOf(row), row]));
    if (!hidesMore(deps.environment, readMasking(own[0]?.masking))) yield* builtOf(own, left, deps);
    for (const row of left.values()) yield bareTrace(row);
  }
}

/** Yields the traces of rows with the same masking, experiment, run and bucket. @param left loses those rows */
async function* builtOf(
  rows: readonly CaptureRow[],
  left: Map<string, CaptureRow>,
  { environment, storage, redaction }: TraceReading,
): AsyncGenerator<TraceRecord> {
  const [{ masking, experimentId = '', run = '', bucket = '' } = {}] = rows;
  const { keyVersion, ...hidden } = readMasking(masking);
  const masked = await redaction({ ...environment, ...hidden })(keyVersion);
  // The lines of a replay's exchanges are in the work bucket.
  const replay = bucket === environment.WORK_BUCKET ? { run, experimentId } : undefined;
  const chunk = { experimentId, lines: rows.length, ranges: rangesOf(rows) };
  try {
    for await (const line of readChunk(storage, chunk, masked, { replay }, {})) {
      if (line.kind !== 'capture') continue;
      const id = lineId(line.raw.place);
      const { trace } = traceLine(line, { run, chunk }, masked);
      if (trace === undefined || left.get(id)?.traceId !== trace.traceId) continue;
      left.delete(id);
      yield trace;
    }
  } catch (error) {
    if (!isOfOneFile(error)) throw error;
  }
}

const idOf = ({ key = '', version, etag = '', start = 0 }: CaptureRow) =>
  lineId({ key, versionId: version, etag, start });

/** Returns ranges with the lines of rows: lines that follow each other are read by one request. */
function rangesOf(rows: readonly CaptureRow[]): CaptureRange[] {
  const ranges: CaptureRange[] = [];
  const fileOf = ({ key, version, etag }: CaptureRow): string => JSON.stringify([key, version, etag]);
  for (const own of Map.groupBy(rows, fileOf).values()) {
    let open: CaptureRange | undefined;
    for (const row of own.toSorted((a, b) => Number(a.start) - Number(b.start))) {
      const { bucket = '', key = '', version: versionId, etag = '', start = 0, end = 0, line: firstLine = 1 } = row;
      if (open === undefined || start - open.end > GAP_BYTES) {
        open = { bucket, key, versionId, etag, start, end, firstLine, lines: 0, objectTimeMs: row.time ?? 0 };
        ranges.push(open);
      }
      open.end = end;
      open.lines += 1;
    }
  }
  return ranges;
}

/** Returns the trace of a row without its line: its ids, times and sizes. */
function bareTrace(row: CaptureRow): TraceRecord {
  const { traceId = '', endpoint: name = '', time: startTimeMs = 0, latencyMs = 0, run = '', variant = '' } = row;
  const time = { startTimeMs, endTimeMs: startTimeMs + Math.round(latencyMs) };
  const status = { code: (row.errorKind ?? row.failedCall) === undefined ? 'OK' : 'ERROR' } as const;
  const attributes = {
    'capture.notes': [NO_MESSAGES],
    'capture.format': row.format,
    'gen_ai.usage.input_tokens': row.inputTokens,
    'gen_ai.usage.output_tokens': row.outputTokens,
  };
  const tags = { sagemaker_endpoint_name: name, sagemaker_variant_name: variant, [RUN_TAG]: run };
  const span = { spanId: rootSpanIdOf(traceId), name, spanType: 'UNKNOWN', ...time, attributes, status };
  return { traceId, name, ...time, state: status.code, requestPreview: '', responsePreview: '', tags, spans: [span] };
}

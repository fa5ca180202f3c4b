/** Builds the trace of a line of a chunk. */

import { decodeLine } from '../../captures/decode.ts';
import { buildTrace, traceNotBuilt } from '../../captures/trace/build.ts';
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { Capture } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { NamedError } from '../../core/contract/receipts.ts';
import { isOutOfTime, timeOf, withinTime } from '../../core/process/within-time.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { type CaptureLine, decodeOptions } from '../chunk/decode-lines.ts';

type TraceRequest = Pick<ChunkRequest, 'run'> & { chunk: Pick<ChunkRequest['chunk'], 'experimentId'> };
type TraceableLine = Pick<CaptureLine, 'raw' | 'capture' | 'notTraffic'>;

/** Returns the trace of a line, or the reason why it has none. */
export function traceLine(
  line: TraceableLine,
  request: TraceRequest,
  environment: LambdaEnvironment,
): { trace: TraceRecord; refused?: never } | { trace?: never; refused: NamedError } {
  try {
    return { trace: built(line, request, environment) };
  } catch (error) {
    return { refused: traceNotBuilt(error) };
  }
}

/** If building it takes too long, the trace shows the line as captured. */
function built(
  { raw, capture, notTraffic }: TraceableLine,
  { run, chunk: { experimentId } }: TraceRequest,
  environment: LambdaEnvironment,
): TraceRecord {
  const options = { experimentId, endpointName: environment.SAGEMAKER_ENDPOINT_NAME, run, notTraffic };
  const build = (of: Capture): TraceRecord =>
    withinTime(timeOf(of, raw.bytes.length), () => buildTrace(of, raw, options));
  try {
    return build(capture);
  } catch (error) {
    if (!isOutOfTime(error)) throw error;
    const asCaptured = { keepRaw: error.message, maxWeight: Number.MAX_VALUE };
    const kept = decodeLine(raw, { ...decodeOptions(environment), ...asCaptured });
    if (kept.kind !== 'capture') throw error;
    return build(kept.capture);
  }
}

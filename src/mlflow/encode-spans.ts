/** Encodes the spans of a trace before they are sent, where that is to be done in another process. */
import type { TraceRecord } from '../captures/trace/types.ts';
import { otlpRequest, otlpTrace } from './otlp.ts';
import { spansFile } from './trace-json.ts';

/** How the server accepts spans: by OTLP, after the trace is posted with its tags; or as a file. */
export type SpansForm = 'otlp' | 'file';

/** Returns the spans for `TraceRecord.encoded`. */
export const encodeSpans = (trace: TraceRecord, form: SpansForm): Uint8Array =>
  form === 'otlp' ? otlpRequest([otlpTrace(trace, false)]) : spansFile(trace);

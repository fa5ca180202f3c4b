/** Removes everything from a trace that can quote a capture. Ids, times, sizes, tokens and variants stay. */

import ATTRIBUTES from './kept-attributes.json' with { type: 'json' };
import type { SpanRecord, TraceRecord } from './types.ts';

/** The attributes whose values the stack generates. */
const KEPT = new Set(ATTRIBUTES);

/** Returns the trace for `CONTENT=none`. */
export function withoutTexts(trace: TraceRecord): TraceRecord {
  const { capture_notes: _, ...tags } = trace.tags;
  const { model: __, ...facts } = trace;
  return { ...facts, requestPreview: '', responsePreview: '', tags, spans: trace.spans.map(spanWithoutTexts) };
}

function spanWithoutTexts({ inputs: _, outputs: __, ...span }: SpanRecord): SpanRecord {
  const attributes: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(span.attributes)) if (KEPT.has(name)) attributes[name] = value;
  for (const name of ['capture.request', 'capture.response']) {
    const { bytes, kind } = Object(span.attributes[name]);
    if (bytes !== undefined) attributes[name] = { bytes, kind };
  }
  // The class of an error is a word of the caller.
  const { error, ...call } = Object(span.attributes['capture.call']);
  if (call.endMs !== undefined) attributes['capture.call'] = { ...call, ...(error && { error: { kind: error.kind } }) };
  return { ...span, attributes, status: { code: span.status.code } };
}

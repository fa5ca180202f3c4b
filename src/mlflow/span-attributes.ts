/** The attributes of a trace's spans under MLflow's names, alike for both ways to write. */
import type { SpanRecord, TraceRecord } from '../trace/types.ts';
import { cutIdentifier, MAX_TAG_CHARS, storableText, tagKey } from './limits.ts';

const TRACE_NAME_TAG = 'mlflow.traceName';

/** Attribute values as JSON values; whoever writes them serialises each as JSON of its own. */
export function spanAttributes(trace: TraceRecord, span: SpanRecord): Record<string, unknown> {
  const isRoot = span.parentSpanId === undefined;
  return {
    ...(isRoot && trace.tokenUsage ? { 'mlflow.chat.tokenUsage': trace.tokenUsage } : {}),
    ...(isRoot && trace.model ? { 'mlflow.llm.model': trace.model } : {}),
    ...span.attributes,
    'mlflow.spanType': span.spanType,
    ...(span.inputs === undefined ? {} : { 'mlflow.spanInputs': span.inputs }),
    ...(span.outputs === undefined ? {} : { 'mlflow.spanOutputs': span.outputs }),
  };
}

/** Tags as they are stored: the trace's name is one of them. */
export function traceTags(trace: TraceRecord): Record<string, string> {
  const tags: Record<string, string> = { [TRACE_NAME_TAG]: storableText(trace.name, MAX_TAG_CHARS) };
  for (const [key, value] of Object.entries(trace.tags)) tags[tagKey(key)] = storableText(value, MAX_TAG_CHARS);
  return tags;
}

export const sessionOf = (trace: TraceRecord): string | undefined =>
  trace.sessionId === undefined ? undefined : cutIdentifier(trace.sessionId);

export const userOf = (trace: TraceRecord): string | undefined =>
  trace.userId === undefined ? undefined : cutIdentifier(trace.userId);

/** `tr-` + 32 hex digits → the 32 digits, which are the id of OpenTelemetry. */
export const otelTraceId = (traceId: string): string => traceId.replace(/^tr-/, '');

/** MLflow takes the state of a trace that comes by OTLP from its root span: the two agree. */
export const spanStatus = (trace: TraceRecord, span: SpanRecord): SpanRecord['status'] =>
  span.parentSpanId === undefined && trace.state === 'ERROR' ? { ...span.status, code: 'ERROR' } : span.status;

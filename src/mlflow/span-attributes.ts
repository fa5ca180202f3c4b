/** Builds the attributes and tags of a trace under MLflow's names, for OTLP and REST. */
import { MAX_TAG_CHARS } from '../captures/trace/text.ts';
import type { SpanRecord, TraceRecord } from '../captures/trace/types.ts';
import { storableText } from './limits.ts';

/** Returns the attributes of a span as JSON values. The writer serializes each one separately. */
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

/** Returns the tags as MLflow stores them, including the name of the trace. */
export const traceTags = ({ name, tags }: TraceRecord): Record<string, string> => ({
  'mlflow.traceName': storableText(name, MAX_TAG_CHARS),
  ...tags,
});

/** Returns the OpenTelemetry id of a trace: the 32 hex digits after `tr-`. */
export const otelTraceId = (traceId: string): string => traceId.replace(/^tr-/, '');

/** Returns the status of a span. The root span has the state of the trace, because MLflow reads it there with OTLP. */
export const spanStatus = (trace: TraceRecord, span: SpanRecord): SpanRecord['status'] =>
  span.parentSpanId === undefined && trace.state === 'ERROR' ? { ...span.status, code: 'ERROR' } : span.status;

/**
 * Converts traces and assessments for MLflow's REST API: the facts of a trace as JSON, its spans as the file
 * `traces.json`.
 */

import { exactNumber } from '../captures/json.ts';
import { fitted, MAX_METADATA_CHARS, MAX_TAG_CHARS } from '../captures/trace/text.ts';
import type { SpanRecord, TraceRecord } from '../captures/trace/types.ts';
import { MAX_CLIENT_ID_CHARS, MAX_NAME_CHARS, MAX_RATIONALE_CHARS, storableJson, storableText } from './limits.ts';
import { otelTraceId, spanAttributes, spanStatus, traceTags } from './span-attributes.ts';
import { type AssessmentValue, type NewAssessment, REPLACED_AT } from './types.ts';

const base64 = (hex: string): string => Buffer.from(hex, 'hex').toString('base64');

/** Nanoseconds exceed a JavaScript number. */
const nanoseconds = (ms: number): unknown => exactNumber(`${BigInt(Math.round(ms * 1000)) * 1000n}`);

function span(trace: TraceRecord, record: SpanRecord): Record<string, unknown> {
  const attributes: Record<string, string> = { 'mlflow.traceRequestId': JSON.stringify(trace.traceId) };
  for (const [key, value] of Object.entries(spanAttributes(trace, record))) attributes[key] = storableJson(value);
  const { parentSpanId, events = [], links } = record;
  const status = spanStatus(trace, record);
  return {
    trace_id: base64(otelTraceId(trace.traceId)),
    span_id: base64(record.spanId),
    parent_span_id: parentSpanId === undefined ? null : base64(parentSpanId),
    name: storableText(record.name, MAX_TAG_CHARS),
    start_time_unix_nano: nanoseconds(record.startTimeMs),
    end_time_unix_nano: nanoseconds(record.endTimeMs),
    events: events.map(({ name, timeMs }) => ({ name, time_unix_nano: nanoseconds(timeMs), attributes: {} })),
    links: links?.map(({ traceId, spanId }) => ({ trace_id: `tr-${traceId}`, span_id: spanId })),
    status: { code: `STATUS_CODE_${status.code}`, message: storableText(status.message ?? '', MAX_TAG_CHARS) },
    attributes,
  };
}

/** Returns the content of `traces.json`. */
export const spansFile = (trace: TraceRecord): Buffer =>
  trace.encoded ?? Buffer.from(JSON.stringify({ spans: trace.spans.map((record) => span(trace, record)) }));

/**
 * Returns the facts of a trace whose spans follow by OTLP, without facts that OTLP alone would not store. The server
 * would also take previews from the spans, but those show the JSON of a tool call.
 */
export function factsBeforeSpans(experimentId: string, trace: TraceRecord): Record<string, unknown> {
  const { client_request_id: _id, ...facts } = traceInfo(experimentId, trace);
  return facts;
}

/** Returns the facts of a trace, including facts that MLflow would compute from spans sent by OTLP. */
export function traceInfo(experimentId: string, trace: TraceRecord): Record<string, unknown> {
  return {
    trace_id: trace.traceId,
    client_request_id: trace.clientRequestId && fitted(trace.clientRequestId, MAX_CLIENT_ID_CHARS),
    trace_location: { type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: experimentId } },
    request_time: new Date(trace.startTimeMs).toISOString(),
    execution_duration: `${((trace.endTimeMs - trace.startTimeMs) / 1000).toFixed(3)}s`,
    state: trace.state,
    request_preview: trace.requestPreview,
    response_preview: trace.responsePreview,
    trace_metadata: {
      'mlflow.trace_schema.version': '3',
      'mlflow.trace.tokenUsage': trace.tokenUsage && JSON.stringify(trace.tokenUsage),
      'mlflow.trace.session': trace.sessionId,
      'mlflow.trace.user': trace.userId,
      'mlflow.sourceRun': trace.sourceRun,
    },
    tags: traceTags(trace),
  };
}

// ----------------------------------------------------------------------------------------------------- assessments

/** Returns the value as MLflow keeps it. */
export const storableValue = (value: AssessmentValue | undefined): AssessmentValue | undefined =>
  typeof value === 'string' ? storableText(value, MAX_RATIONALE_CHARS) : value;

/** Returns the field with the content of the assessment. */
function content({ value, error, isExpectation }: NewAssessment): Record<string, unknown> {
  if (isExpectation) return { expectation: { value: storableValue(value) } };
  if (error === undefined) return { feedback: { value: storableValue(value) } };
  const error_message = storableText(error.message, MAX_RATIONALE_CHARS);
  return { feedback: { error: { error_code: storableText(error.code, MAX_NAME_CHARS), error_message } } };
}

const metadata = (assessment: NewAssessment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(assessment.metadata).map(([key, value]) => [key, storableText(value, MAX_METADATA_CHARS)]),
  );

const rationale = ({ rationale: text }: NewAssessment): { rationale?: string } =>
  text === undefined ? {} : { rationale: storableText(text, MAX_RATIONALE_CHARS) };

/** Returns the body for a new assessment. */
export function assessmentJson(assessment: NewAssessment & { overrides?: string }): Record<string, unknown> {
  const time = new Date(assessment.createTimeMs).toISOString();
  return {
    assessment_id: assessment.assessmentId,
    trace_id: assessment.traceId,
    assessment_name: storableText(assessment.name, MAX_NAME_CHARS),
    span_id: assessment.spanId,
    source: { source_type: assessment.sourceType, source_id: storableText(assessment.sourceId, MAX_NAME_CHARS) },
    create_time: time,
    last_update_time: time,
    ...content(assessment),
    ...rationale(assessment),
    metadata: metadata(assessment),
    overrides: assessment.overrides,
    valid: true,
  };
}

/**
 * Returns the body that replaces the content of the assessment with the same id: an error by a verdict, or a label by a
 * later label.
 */
export function assessmentUpdateJson(assessment: NewAssessment): Record<string, unknown> {
  return {
    assessment: {
      assessment_id: assessment.assessmentId,
      trace_id: assessment.traceId,
      ...content(assessment),
      rationale: '',
      ...rationale(assessment),
      metadata: { ...metadata(assessment), [REPLACED_AT]: new Date().toISOString() },
    },
    update_mask: assessment.isExpectation ? 'expectation,metadata' : 'feedback,rationale,metadata',
  };
}

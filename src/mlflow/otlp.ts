/** Converts traces to OTLP protobuf requests. */
import type { Attributes, AttributeValue, HrTime } from '@opentelemetry/api';
import { ProtobufLogsSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { cleanText, MAX_TAG_CHARS } from '../captures/trace/text.ts';
import type { SpanRecord, TraceRecord } from '../captures/trace/types.ts';
import { storableJson, storableText } from './limits.ts';
import { otelTraceId, spanAttributes, spanStatus, traceTags } from './span-attributes.ts';

type ReadableSpan = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0][number];

/** A trace in the form of the OTLP serializer. */
export interface OtlpTrace {
  traceId: string;
  spans: ReadableSpan[];
  /** A request with its spans, if another process has made it. */
  encoded?: Buffer;
  /** The length of its texts in UTF-16 units, which approximates the bytes of the request. */
  size: number;
}

const STATUS_CODES = { OK: 1, ERROR: 2 } as const;
/** OpenTelemetry's `SpanKind.INTERNAL`. */
const INTERNAL = 0;
const SAMPLED = 1;

/** Empty, because MLflow turns resource attributes into tags of every trace. */
const RESOURCE = { attributes: {} } as ReadableSpan['resource'];
const resourceOf = (service: string | undefined): ReadableSpan['resource'] =>
  service === undefined ? RESOURCE : ({ attributes: { 'service.name': service } } as unknown as typeof RESOURCE);
const SCOPE = { name: 'sagemaker-inference-monitor' };

const hrTime = (ms: number): HrTime => {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
};

/** Matches the beginning of every text that MLflow would parse. */
const MAY_BE_JSON = /^\s*["[{]/;

/**
 * Encodes an attribute. MLflow parses a text that is a JSON object, array or string, and keeps every other text.
 * Numbers and booleans are therefore sent unchanged, and all other values as JSON, including text that happens to be
 * JSON. OpenTelemetry's own attributes have the types that its conventions define: other texts and lists of texts.
 */
function attributeValue(key: string, value: unknown): AttributeValue {
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  const isPlain = (one: unknown): one is string => typeof one === 'string' && !MAY_BE_JSON.test(one);
  const isOwn = key.startsWith('gen_ai.') && (isPlain(value) || (Array.isArray(value) && value.every(isPlain)));
  return isOwn ? (value as AttributeValue) : storableJson(value);
}

/** Encodes an attribute as other servers show it: a text as it is, a list of texts as a list, and all else as JSON. */
function plainValue(key: string, value: unknown): AttributeValue {
  if (typeof value === 'string') return cleanText(value);
  const isList = Array.isArray(value) && value.every((one) => typeof one === 'string');
  return isList ? value.map(cleanText) : attributeValue(key, value);
}

function rootAttributes(trace: TraceRecord, withTags: boolean): Record<string, string | undefined> {
  const attributes: Record<string, string | undefined> = { 'session.id': trace.sessionId, 'user.id': trace.userId };
  if (!withTags) return attributes;
  for (const [key, value] of Object.entries(traceTags(trace))) attributes[`mlflow.traceTag.${key}`] = value;
  return attributes;
}

/**
 * @param withTags `false` for a trace that MLflow has with its tags, which a person may have changed since
 * @param service the name of the service for another server than MLflow
 */
export function otlpTrace(trace: TraceRecord, withTags = true, service?: string): OtlpTrace {
  const { encoded } = trace;
  if (encoded !== undefined) return { traceId: trace.traceId, spans: [], encoded, size: encoded.length };
  const traceId = otelTraceId(trace.traceId);
  let size = 0;
  const resource = resourceOf(service);
  const spans = trace.spans.map((span) => {
    const attributes: Attributes = {};
    const own = spanAttributes(trace, span);
    const all = span.parentSpanId === undefined ? { ...own, ...rootAttributes(trace, withTags) } : own;
    for (const [key, value] of Object.entries(all)) {
      if (value === undefined || value === null) continue;
      const written = service === undefined ? attributeValue(key, value) : plainValue(key, value);
      attributes[key] = written;
      size += key.length + String(written).length;
    }
    return readableSpan(traceId, { ...span, status: spanStatus(trace, span) }, attributes, resource);
  });
  return { traceId: trace.traceId, spans, size };
}

function readableSpan(
  traceId: string,
  span: SpanRecord,
  attributes: Attributes,
  resource: ReadableSpan['resource'],
): ReadableSpan {
  const { links = [], status } = span;
  const { code, message } = status;
  const context = (spanId: string) => ({ traceId, spanId, traceFlags: SAMPLED });
  const own = context(span.spanId);
  return {
    name: storableText(span.name, MAX_TAG_CHARS),
    kind: INTERNAL,
    spanContext: () => own,
    ...(span.parentSpanId === undefined ? {} : { parentSpanContext: context(span.parentSpanId) }),
    startTime: hrTime(span.startTimeMs),
    endTime: hrTime(span.endTimeMs),
    status: { code: STATUS_CODES[code], message: message && storableText(message, MAX_TAG_CHARS) },
    attributes,
    links: links.map(({ traceId: id, spanId }) => ({ context: { traceId: id, spanId, traceFlags: SAMPLED } })),
    events: (span.events ?? []).map(({ name, timeMs }) => ({ name, time: hrTime(timeMs), attributes: {} })),
    duration: [0, 0],
    ended: true,
    resource,
    instrumentationScope: SCOPE,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

export function otlpRequest(traces: readonly OtlpTrace[]): Uint8Array {
  const encoded = traces.flatMap((trace) => trace.encoded ?? []);
  const [first] = encoded;
  if (first !== undefined && traces.length === 1) return first;
  const bytes = ProtobufTraceSerializer.serializeRequest(traces.flatMap(({ spans }) => spans));
  if (bytes === undefined) throw new Error('The OTLP serializer returned no bytes');
  // Requests one after the other are a request with the spans of all.
  return encoded.length === 0 ? bytes : Buffer.concat([bytes, ...encoded]);
}

/**
 * Returns the number of rejected spans from the reply to an OTLP request. Returns `undefined` if the reply has another
 * form, such as a gateway's page.
 */
export function rejectedSpans(reply: Uint8Array): number | undefined {
  if (reply.length === 0) return 0;
  try {
    const partial = ProtobufTraceSerializer.deserializeResponse(reply)?.partialSuccess;
    return partial && Number(partial.rejectedSpans ?? 0);
  } catch {
    return undefined;
  }
}

/** An event about a span, for another server than MLflow. */
interface OtlpEvent {
  name: string;
  traceId: string;
  spanId: string;
  /** Epoch milliseconds. */
  atMs: number;
  /** Those without a value are left out. */
  attributes: Record<string, AttributeValue | undefined>;
}

/** Returns an event as a request of OTLP. */
export function otlpLog({ name, traceId, spanId, atMs, attributes }: OtlpEvent, service: string): Uint8Array {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  const record = {
    ...{ hrTime: hrTime(atMs), hrTimeObserved: hrTime(atMs), eventName: name, attributes: Object.fromEntries(given) },
    spanContext: { traceId: otelTraceId(traceId), spanId, traceFlags: SAMPLED },
    ...{ resource: resourceOf(service), instrumentationScope: SCOPE, droppedAttributesCount: 0 },
  };
  return ProtobufLogsSerializer.serializeRequest([record as never]) ?? Buffer.alloc(0);
}

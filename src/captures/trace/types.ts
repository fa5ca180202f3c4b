/** An MLflow trace before it is written, independent of the protocol (OTLP, or artifact and REST). */
import type { ParentSpan } from '../record/traceparent.ts';

export interface SpanRecord {
  /** 16 hex digits. */
  spanId: string;
  /** `undefined` on the root span. */
  parentSpanId?: string;
  name: string;
  /** Span type in MLflow's terms: `CHAT_MODEL`, `LLM`, `EMBEDDING`, `UNKNOWN`, … */
  spanType: string;
  startTimeMs: number;
  endTimeMs: number;
  inputs?: unknown;
  outputs?: unknown;
  /** Further attributes, as JSON values. */
  attributes: Record<string, unknown>;
  status: { code: 'OK' | 'ERROR'; message?: string };
  events?: { name: string; timeMs: number }[];
  /** Spans of other traces. */
  links?: ParentSpan[];
}

/** Its texts have no character that MLflow's databases refuse. */
export interface TraceRecord extends Pick<SpanRecord, 'name' | 'startTimeMs' | 'endTimeMs'> {
  /** `tr-` and 32 hex digits. */
  traceId: string;
  state: 'OK' | 'ERROR';
  clientRequestId?: string;
  /** At most 1,000 characters. */
  requestPreview: string;
  /** At most 1,000 characters. */
  responsePreview: string;
  /** The values have at most 4,096 characters. */
  tags: Record<string, string>;
  /** At most 250 characters. */
  sessionId?: string;
  userId?: string;
  /** MLflow's run that shows the trace. */
  sourceRun?: string;
  /** Under MLflow's names. */
  tokenUsage?: { [name in `${'input' | 'output' | 'total' | 'cache_read_input'}_tokens`]?: number };
  model?: string;
  /** The root span is the first. */
  spans: SpanRecord[];
  /** The spans as the server takes them, if another process has encoded them; `spans` is empty then. */
  encoded?: Buffer;
}

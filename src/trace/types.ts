/** An MLflow trace before it is written: independent of the way (OTLP or artifact + REST) that carries it. */

export interface SpanRecord {
  /** 16 hex digits. */
  spanId: string;
  /** `undefined` on the root span. */
  parentSpanId?: string;
  name: string;
  /** MLflow's span type: `CHAT_MODEL`, `LLM`, `EMBEDDING`, `UNKNOWN`, … */
  spanType: string;
  startTimeMs: number;
  endTimeMs: number;
  inputs?: unknown;
  outputs?: unknown;
  /** Further attributes, as JSON values. */
  attributes: Record<string, unknown>;
  status: { code: 'OK' | 'ERROR'; message?: string };
}

export interface TraceRecord {
  /** `tr-` + 32 hex digits. */
  traceId: string;
  name: string;
  startTimeMs: number;
  endTimeMs: number;
  state: 'OK' | 'ERROR';
  clientRequestId?: string;
  /** At most 1,000 characters. */
  requestPreview: string;
  /** At most 1,000 characters. */
  responsePreview: string;
  /** Values at most 4,096 characters. */
  tags: Record<string, string>;
  /** At most 250 characters. */
  sessionId?: string;
  userId?: string;
  tokenUsage?: {
    input_tokens?: number;
    output_tokens?: number;
    total_tokens?: number;
    cache_read_input_tokens?: number;
  };
  model?: string;
  /** Root span first. */
  spans: SpanRecord[];
}

/** The types that decoding works with. Field names follow SageMaker Data Capture and the OpenAI message form. */
import type { ObjectVersion } from '../core/contract/execution.ts';
import type { Redaction } from '../core/settings/redact-setting.ts';
import type { ClientCall } from './client-call.ts';
import type { Item } from './redact/find.ts';
import type { Kind } from './redact/kinds.ts';

/** The location of a line, with all data for reading it again. */
export interface LinePlace extends ObjectVersion {
  /** Physical line number, from 1. */
  line: number;
  /** Byte offsets in the object, both inclusive, without the line ending. */
  start: number;
  end: number;
  /** S3's LastModified, epoch ms. */
  objectTimeMs: number;
}

/** A line of a capture file: its bytes without the line ending and without a byte order mark. */
export interface RawLine {
  bytes: Buffer;
  place: LinePlace;
}

export type CaptureFormat =
  | 'chat'
  | 'chat-stream'
  | 'completion'
  | 'text-generation'
  | 'messages'
  | 'embedding'
  | 'tabular-csv'
  | 'tabular-json'
  | 'jsonlines'
  | 'text'
  | 'json'
  | 'binary'
  | 'error'
  | 'empty';

/** One captured payload, decoded as far as its bytes allow. */
export interface Payload {
  contentType: string | null;
  encoding: string;
  /**
   * The kind of `value`. `json`: the parsed document; `text`: a string; `binary`: a summary, the bytes stay in S3; `raw`:
   * not decodable, kept as captured.
   */
  kind: 'json' | 'csv' | 'jsonlines' | 'event-stream' | 'text' | 'binary' | 'raw' | 'empty';
  /** A JSON value, which is logged and judged. */
  value: unknown;
  /** The decoded text, for text kinds. */
  text?: string;
  /** Decoded size. */
  bytes: number;
  /** Describes how the payload contradicts its content type or encoding. `undefined` if it does not. */
  problem?: string;
  /** Set if the text contains data that `value` lacks, such as duplicate keys or the events of a stream. Keep both. */
  keepText?: boolean;
  /** For a stream: whether the end marker was received. `undefined` if its wire format has no end marker. */
  ended?: boolean;
}

export interface ToolCall {
  id?: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** OpenAI message form. `content` is a string, a multi-part list, or null next to tool calls. */
export interface ChatMessage {
  role: string;
  content: string | unknown[] | null;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  name?: string;
  [extra: string]: unknown;
}

export interface TokenUsage {
  inputTokens?: number;
  outputTokens?: number;
  totalTokens?: number;
  cachedInputTokens?: number;
  /** Output tokens that the model spent on reasoning. */
  reasoningTokens?: number;
}

/** A text exchange of any wire format, in one form for viewing and judging. */
export interface Conversation {
  messages: ChatMessage[];
  /** Replies, one per choice. Empty when the reply was not captured. */
  replies: ChatMessage[];
  tools?: unknown[];
  /** Sampling parameters of the request: max_tokens, temperature, … */
  parameters: Record<string, unknown>;
  /** The request asked for JSON (`response_format`). */
  jsonRequested: boolean;
  finishReasons: string[];
}

/** One inference of a call that carried several (CSV rows, `instances`/`predictions` entries). */
export interface Inference {
  inferenceId: string;
  index: number;
  /** Features by name or by position (`"0"`, `"1"`, …). */
  features?: Record<string, unknown>;
  prediction?: unknown;
}

export interface CaptureError {
  statusCode?: number;
  message: string;
  type?: string;
}

/** The sender's facts about a request that it sent. Times are epoch ms. */
export interface ExchangeFacts {
  requestId: string;
  /** Name of the replay. */
  run: string;
  /** Name of the trace. */
  target: string;
  /** MLflow's run that shows the trace. */
  mlflowRun?: string | undefined;
  startMs: number;
  endMs: number;
  scheduledMs: number;
  status: number;
  error?: { code?: number; type: string; message: string };
  /** MLflow's id of the captured request's trace, if the replay links to it. */
  capturedTraceId?: string;
  /** The captured place, as are the next two. */
  file: string;
  bucket?: string;
  line: number;
  /** Set if the sender has masked its record. The trace has then all texts or no texts. */
  masked?: Redaction['content'];
  /** The captured line, if its reply differs and a judge can compare the two. `start` and `end` are inclusive. */
  captured?: (ObjectVersion & { start: number; end: number }) | undefined;
}

/** Facts from the record around the payloads. */
export interface RecordFacts {
  eventId?: string;
  /** `inferenceId` as captured. */
  capturedInferenceId?: string;
  /** `inferenceId`, else `eventId`, else undefined: the id that joins ground truth. */
  inferenceId?: string;
  inferenceTimeMs: number;
  /** The source of the time. Only `inferenceTime` is the captured one. */
  timeSource: 'inferenceTime' | 's3-path' | 's3-object-time';
  /** `inferenceTime` as captured, unparsed. */
  capturedInferenceTime?: string;
  eventVersion?: string;
  /** Fields of the record that Data Capture is not known to write, unchanged. */
  extraFields?: Record<string, unknown>;
  /** Set if the capture client wrote the line. */
  call?: ClientCall;
  /** Set if a replay sent the request, and the line is the sender's own. */
  exchange?: ExchangeFacts;
}

/** The inferences of a call that carried several. */
export interface Inferences {
  /** At least one entry, when present. */
  inferences?: Inference[];
  /** Number of inferences in the call. Greater than the length of `inferences` when there are too many for a span each. */
  inferenceCount?: number;
  /** Present when the numbers of inputs and outputs differ. */
  inferenceMismatch?: { inputs: number; outputs: number };
  /**
   * Set if the reply may be about one inference or several, so that no part of it is the prediction of a known
   * inference.
   */
  unclear?: true;
}

/** The meaning of a request and its reply together. */
export interface Meaning extends Inferences {
  format: CaptureFormat;
  /** The wire format within `format`, e.g. `openai-chat`, `anthropic-messages`, `tgi`. Absent when none was recognized. */
  wireFormat?: string;
  /** The reply was a stream of events and was assembled. */
  streamed?: boolean;
  response?: Payload;
  /** Present for text formats only. */
  conversation?: Conversation;
  /**
   * Set if the replies of the conversation have no words: they are numbers, markup, media, or a label that answers no
   * question.
   */
  wordless?: true;
  /** Present when the reply is an error. */
  error?: CaptureError;
  usage?: TokenUsage;
  model?: string;
}

/** The caller and the session of a request. */
export interface Identity {
  sessionId?: string;
  userId?: string;
  /** The replay run that sent the request, when a replay did. */
  replayRun?: string;
  /** The span of the application that made the request, as W3C Trace Context has it. */
  traceparent?: string;
  /** SageMaker custom attributes and `metadata.*` of the payload. */
  attributes: Record<string, string>;
}

export interface Capture extends RecordFacts, Meaning, Identity {
  request?: Payload;
  /** Facts for the reader, as text, such as a fallback that was used or a payload that did not parse. */
  notes: string[];
  /** Results of work on the content, by the name of the work; see `ofContent`. */
  results?: Map<string, unknown> | undefined;
  /** The content is in another process, and here are its results alone. */
  isApart?: true;
  /** Items that were masked, by kind, field or pattern. */
  masked?: Readonly<Record<string, number>>;
  /** `none`: the trace has no texts. */
  content?: 'none';
  /** Returns the captured text of a masked text, for counting only. */
  unmask?(text: string): string;
  /** Returns the items that masking found in a captured text; `undefined` if it did not search the text for all of these kinds. */
  found?(text: string, kinds: readonly Kind[]): readonly Item[] | undefined;
}

export interface QuarantineCause {
  /** A short stable name, counted in receipts: `NotJson`, `NotACaptureRecord`, `LineTooLong`, … */
  name: string;
  message: string;
}

export type DecodedLine = (
  | { kind: 'capture'; capture: Capture /** Estimated bytes of memory, see `weight.ts`. */; weight: number }
  | { kind: 'quarantine'; reason: QuarantineCause }
) & {
  /** The line was not decoded because its estimated memory exceeds `maxWeight`. */
  tooHeavy?: true;
};

export interface DecodeOptions {
  /** The first row of a CSV request is a header. */
  csvHeader?: boolean;
  /** Names of tabular features, in order. */
  featureNames?: string[];
  /** Time for decoding the payloads, after which they are kept as captured. Default: depends on the line's length. */
  timeMs?: number;
  /** Maximum estimated bytes of memory, see `weight.ts`. Default: as much as this process may decode. */
  maxWeight?: number;
  /** Keep the payloads as captured, for this reason. */
  keepRaw?: string;
  /** The lines are the exchanges of a replay; see `trace/exchange.ts`. */
  areExchanges?: boolean;
  /** Rules for masking captures. Absent: nothing is masked. */
  redaction?: Redaction;
}

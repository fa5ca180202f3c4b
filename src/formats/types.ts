/** What a capture line decodes to. Field names follow SageMaker Data Capture and the OpenAI message form. */

/** Where a line is; all that is needed to read it again. */
export interface LinePlace {
  bucket: string;
  key: string;
  versionId?: string;
  etag: string;
  /** Physical line number, from 1. */
  line: number;
  /** Byte offsets in the object, both inclusive, without the line ending. */
  start: number;
  end: number;
  /** S3's LastModified, epoch ms. */
  objectTimeMs: number;
}

/** A line of a capture file: its bytes without line ending and without a byte order mark. */
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
  /** `json`: `value` is the parsed document; `text`: a string; `binary`: a summary, the bytes stay in S3; `raw`: undecodable, kept as captured. */
  kind: 'json' | 'csv' | 'jsonlines' | 'event-stream' | 'text' | 'binary' | 'raw' | 'empty';
  /** What is logged and judged: a JSON value. */
  value: unknown;
  /** The decoded text, for text kinds. */
  text?: string;
  /** Decoded size. */
  bytes: number;
  /** Why the payload could not be decoded as it announced itself, in words; `undefined` when all was well. */
  problem?: string;
  /** The text says what `value` cannot (duplicate keys, a stream's events): both are worth keeping. */
  keepText?: boolean;
  /** Of a stream: whether it told its end; `undefined` where its dialect does not tell. */
  ended?: boolean;
}

export interface ToolCall {
  id?: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** OpenAI message form. `content` may be a string, the multi-part list, or null beside tool calls. */
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
  /** Of the output, what the model thought and did not say. */
  reasoningTokens?: number;
}

/** Every text exchange, whatever its wire format, in one form for viewing and judging. */
export interface Conversation {
  messages: ChatMessage[];
  /** Replies, one per choice; empty when the reply was not captured. */
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
  /** By name or by position (`"0"`, `"1"`, …). */
  features?: Record<string, unknown>;
  prediction?: unknown;
}

export interface CaptureError {
  statusCode?: number;
  message: string;
  type?: string;
}

export interface Capture {
  eventId?: string;
  /** `inferenceId` as captured. */
  capturedInferenceId?: string;
  /** `inferenceId`, else `eventId`, else undefined: the id that joins ground truth. */
  inferenceId?: string;
  inferenceTimeMs: number;
  /** Where the time was taken from; only `inferenceTime` is the captured one. */
  timeSource: 'inferenceTime' | 's3-path' | 's3-object-time';
  /** `inferenceTime` as captured, unparsed. */
  capturedInferenceTime?: string;
  eventVersion?: string;
  format: CaptureFormat;
  /** The wire format within `format`, e.g. `openai-chat`, `anthropic-messages`, `tgi`; absent when none was recognised. */
  wireFormat?: string;
  /** The reply was a stream of events, put together. */
  streamed?: boolean;
  request?: Payload;
  response?: Payload;
  /** There for text formats only. */
  conversation?: Conversation;
  /** There for tabular formats only, at least one entry. */
  inferences?: Inference[];
  /** How many inferences the call carried; more than `inferences` holds when there are too many for a span each. */
  inferenceCount?: number;
  /** The numbers of inputs and outputs differ. */
  inferenceMismatch?: { inputs: number; outputs: number };
  /** There when the reply is an error. */
  error?: CaptureError;
  usage?: TokenUsage;
  model?: string;
  sessionId?: string;
  userId?: string;
  /** SageMaker custom attributes and `metadata.*` of the payload. */
  attributes: Record<string, string>;
  /** Fields of the record that Data Capture is not known to write, as they are. */
  extraFields?: Record<string, unknown>;
  /** Replay run that caused this capture, when it carries one. */
  replayRun?: string;
  /** Things a reader should know, in words: a fallback taken, a payload that did not parse. */
  notes: string[];
}

export interface QuarantineCause {
  /** A short stable name, counted in receipts: `NotJson`, `NotACaptureRecord`, `LineTooLong`, … */
  name: string;
  message: string;
}

export type DecodedLine = (
  | { kind: 'capture'; capture: Capture /** Bytes of memory, as `weight.ts` reckons them. */; weight: number }
  | { kind: 'quarantine'; reason: QuarantineCause }
) & {
  /** It was not taken apart, since that is reckoned to take more than `maxWeight`. */
  tooHeavy?: true;
  /** The payloads were not taken apart since the time was over: the next time it may be enough, and take more memory. */
  late?: true;
};

export interface DecodeOptions {
  /** First row of a CSV request is a header. */
  csvHeader?: boolean;
  /** Names of tabular features, in order. */
  featureNames?: string[];
  /** Time for taking the payloads apart, after which they are kept as captured. Default: as its bytes need. */
  timeMs?: number;
  /** Most bytes of memory that it may become, as `weight.ts` reckons them. Default: what can be taken apart unseen. */
  maxWeight?: number;
  /** Why the payloads are kept as captured from the outset. */
  keepRaw?: string;
}

/** A wire format: how one vendor's requests, replies and streams are read, all in one form. */
import type { JsonObject } from '../json.ts';
import type { CaptureFormat, ChatMessage, TokenUsage } from '../types.ts';

/** A request that asks for text. */
export interface WirePrompt {
  /** Name of the wire format, e.g. `openai-chat`. */
  wire: string;
  format: CaptureFormat;
  messages: ChatMessage[];
  tools?: unknown[];
  parameters: Record<string, unknown>;
  jsonRequested: boolean;
  /** Prompts of a call that carries several, which have nothing to do with each other. */
  batch?: string[];
}

/** A reply that holds text (or tool calls). */
export interface WireReply {
  wire: string;
  format: CaptureFormat;
  replies: ChatMessage[];
  finishReasons: string[];
}

/** A reply put together from the events of its stream, as the same server would have sent it unstreamed. */
export interface Assembly {
  value: JsonObject;
  /** The stream told its end: a finish reason, a last event. `undefined` where its dialect does not tell. */
  ended: boolean | undefined;
}

/** What one event of a stream adds, whichever of several choices it belongs to. */
export interface Delta {
  /** What the model says. */
  output: string;
  /** What it thinks aloud. */
  reasoning: string;
  /** It holds a piece of a tool call: a name or arguments. */
  calls: boolean;
}

/** A prompt as a format reads it; what is left out is as the format has it, and `jsonRequested` is false. */
type ReadPrompt = Omit<WirePrompt, 'wire' | 'format' | 'jsonRequested'> & Partial<WirePrompt>;
/** A reply; those of `reasons` that are texts are its finish reasons. */
export type ReadReply = { replies: ChatMessage[]; reasons?: unknown[]; format?: CaptureFormat };

/**
 * One wire format. Each function answers `undefined` for a document of another format; none throws. `body` is the document
 * where that is an object, and an empty object where it is not.
 */
export interface WireFormat {
  readonly name: string;
  /** The capture format of its exchanges. */
  readonly format: CaptureFormat;
  /** Whether a request is this vendor's beyond doubt, where `request` would also read that of another one. */
  recognises?(body: JsonObject): boolean;
  request?(body: JsonObject, value: unknown): ReadPrompt | undefined;
  reply?(body: JsonObject, value: unknown): ReadReply | undefined;
  /** An error in a form that is this vendor's alone; `message` holds its text, however deep. */
  error?(body: JsonObject): { message: unknown; type?: string } | undefined;
  /** What one event of a stream adds. Of an event that is this format's but adds nothing all is empty. */
  delta?(event: JsonObject): Delta | undefined;
  /** All events of a stream put together. */
  assemble?(events: JsonObject[]): Assembly | undefined;
  /** A stream may as well be sent as one JSON list of its events. */
  readonly listsEvents?: boolean;
  /** Where a reply counts its tokens: `usage.input`; `results.*.n` is the sum over a list, `list.length` its length. */
  readonly usage?: { readonly [name in keyof TokenUsage]: readonly string[] };
}

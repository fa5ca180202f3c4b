/** What the readers of wire formats give: each vendor's request and reply in one form. */
import type { JsonObject } from '../json.ts';
import type { CaptureFormat, ChatMessage } from '../types.ts';

/** A request that asks for text. */
export interface Prompt {
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
export interface Reply {
  wire: string;
  format: CaptureFormat;
  replies: ChatMessage[];
  finishReasons: string[];
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

/** One wire format. Each function answers `undefined` for a document of another format; none throws. */
export interface WireFormat {
  readonly name: string;
  /** Whether a request is this vendor's beyond doubt, where `request` would also read that of another one. */
  recognises?(value: unknown): boolean;
  request(value: unknown): Prompt | undefined;
  reply(value: unknown): Reply | undefined;
  /** Of an event that is this format's but adds nothing, such as the last one, all is empty. */
  delta?(event: JsonObject): Delta | undefined;
}

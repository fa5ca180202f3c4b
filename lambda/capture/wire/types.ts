/** What the readers of wire formats give: each vendor's request and reply in one form. */
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

/** One wire format. Each function answers `undefined` for a document of another format; none throws. */
export interface WireFormat {
  readonly name: string;
  /** Whether a request is this vendor's beyond doubt, where `request` would also read that of another one. */
  recognises?(value: unknown): boolean;
  request(value: unknown): Prompt | undefined;
  reply(value: unknown): Reply | undefined;
}

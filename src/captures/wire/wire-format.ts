/**
 * The interface of a wire format, the forms that it reads requests, replies and streams into, and readers of JSON
 * values that may have any type.
 */

import { isObject, type JsonObject } from '../json.ts';
import type { CaptureFormat, ChatMessage, Conversation } from '../types.ts';

/** A request that asks for text. */
export interface WirePrompt extends Pick<Conversation, 'messages' | 'tools' | 'parameters' | 'jsonRequested'> {
  /** Name of the wire format, e.g. `openai-chat`. */
  wire: string;
  format: CaptureFormat;
  /** The prompts of a call with several independent prompts. */
  batch?: string[];
  /**
   * Set if the form of the prompt asks for an answer, which may be a single word. A bare text may be meant for
   * classification.
   */
  asks?: boolean;
}

/** A reply that contains text or tool calls. */
export interface WireReply extends Pick<Conversation, 'replies' | 'finishReasons'> {
  wire: string;
  format: CaptureFormat;
}

/** A reply assembled from the events of its stream, in the form that the server sends unstreamed. */
export interface Assembly {
  value: JsonObject;
  /**
   * Whether the stream has its end marker: a finish reason, a last event. `undefined` if the wire format has no end
   * marker.
   */
  ended: boolean | undefined;
}

/** A prompt as read by a format. By default, its capture format is that of the format. */
export type ReadPrompt = Omit<WirePrompt, 'wire' | 'format' | 'jsonRequested'> & Partial<Pick<WirePrompt, 'format'>>;
/** A reply as a format reads it. The strings among `reasons` are its finish reasons. */
export type ReadReply = { replies: ChatMessage[]; reasons?: unknown[]; format?: CaptureFormat };

/**
 * One wire format. Each function returns `undefined` for a document of another format, and never throws. `body` is the
 * document if it is an object, else an empty object.
 */
export interface WireFormat {
  readonly name: string;
  /** The capture format of its exchanges. */
  readonly format: CaptureFormat;
  /** Whether a request certainly belongs to this vendor, if `request` would also read requests of another vendor. */
  recognises?(body: JsonObject): boolean;
  request?(body: JsonObject, value: unknown): ReadPrompt | undefined;
  reply?(body: JsonObject, value: unknown): ReadReply | undefined;
  /** Reads an error in a form that only this vendor uses. `message` contains its text, at any depth. */
  error?(body: JsonObject): { message: unknown; type?: string } | undefined;
  /** Assembles all events of a stream, or one event by itself. */
  assemble?(events: JsonObject[]): Assembly | undefined;
  /** Fields of an event that repeat the content of earlier events. */
  readonly repeats?: readonly string[];
  /** A single event may be a row of data instead of a stream. */
  readonly streamsSeveral?: true;
  /** The vendor may also send a stream as one JSON list of its events. */
  readonly listsEvents?: boolean;
}

// ---------------------------------------------------------------------------------------------- values of any type

/** Returns the objects of a list. Returns an empty list if the value is not a list. */
export const objectsIn = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

/** Returns the value when it is an object, else an empty object. */
export const fieldsOf = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Returns the value when it is a number. */
export const numberOr = (value: unknown, fallback: number): number => (typeof value === 'number' ? value : fallback);

/** Returns the object without the named fields. */
export const without = (value: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)));

/** Returns the strings among the values, in order. */
export const textsOf = (values: unknown[]): string[] =>
  values.filter((value): value is string => typeof value === 'string');

/** Joins the strings among the values. */
export const allText = (values: unknown[]): string => textsOf(values).join('');

/** Joins the strings among a few values. A list of any length would overflow the stack: use `allText`. */
export const textIn = (...values: unknown[]): string => allText(values);

/** Appends a piece to a text; either may be another value. V8 does not copy the text, however often this is called. */
export const joined = (before: unknown, piece: unknown): string =>
  `${typeof before === 'string' ? before : ''}${typeof piece === 'string' ? piece : ''}`;

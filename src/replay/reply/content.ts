/** Reads the content of a reply, captured or live, whole or streamed, with the code that decodes captures. */
import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { isBlankMessage, isBlankValue } from '../../captures/blank.ts';
import { parseContentType } from '../../captures/content-type.ts';
import { errorReply } from '../../captures/errors/error-reply.ts';
import { isObject, parseJson, toJson } from '../../captures/json.ts';
import { meaningOf, tokenUsageOf } from '../../captures/meaning/interpret.ts';
import { payloadBytes } from '../../captures/payload/captured-data.ts';
import {
  type BinarySummary,
  DOCUMENT_KINDS,
  decodePayload,
  documentOf,
  payloadOfBytes,
} from '../../captures/payload/decode-payload.ts';
import type { ChatMessage, Conversation, Payload, TokenUsage, ToolCall } from '../../captures/types.ts';
import { Scale } from '../../captures/weight.ts';
import { readWireReply } from '../../captures/wire/registry.ts';
import { timeForContent, withinTime } from '../../core/process/within-time.ts';

/** `document`: JSON or a stream; `page`: HTML, which gateways write and models do not. */
export type ReplyKind = 'document' | 'text' | 'page' | 'bytes';

export interface ReplyContent {
  /** Text of the first choice. Empty when the reply contains no text (tool calls, tables, vectors). */
  text: string;
  /** Texts of further choices, or the answers to further prompts of the same request. */
  further?: string[];
  toolCalls?: ToolCall[];
  /** The finish reasons of all choices that have one. */
  finishReasons?: string[];
  /** Token counts from the server. */
  usage?: TokenUsage;
  /** The reply is an error, whatever its HTTP status. */
  error?: { code?: number; type?: string; message: string };
  /** The value of a reply that is not text: a table, a vector, another document. For a blank reply: all of its JSON. */
  document?: unknown;
  /** The text answers a chat but is JSON in an unknown form. */
  unread?: true;
  /** SHA-256 of a reply that is neither. */
  digest?: string;
  /** `undefined` if the reply is empty or was not decoded. */
  kind?: ReplyKind;
  /**
   * Set if the reply is empty. `message`: it has no body, or a known form without text (or with spaces only),
   * reasoning, tool call or media. `value`: JSON or a table without content.
   */
  blank?: 'message' | 'value';
  /** For a stream: whether the end marker was received. `undefined` if the wire format has no end marker. */
  ended?: boolean;
  /** Describes how the reply contradicts its content type. */
  problem?: string;
}

/** A body as it went over the wire. The functions below also accept one side of a capture record. */
export class Body {
  readonly bytes: Buffer;
  readonly contentType: string | null;

  constructor(bytes: Buffer, contentType: string | null) {
    this.bytes = bytes;
    this.contentType = contentType;
  }
}

function payloadOf(side: 'request' | 'reply', source: unknown, scale: Scale): Payload | undefined {
  const reading = { side, notes: [], scale };
  if (!(source instanceof Body)) return decodePayload(reading, source);
  return payloadOfBytes(reading, source.bytes, source.contentType);
}

/** Approximate size of a reply or request. */
export function bytesIn(source: unknown): number {
  if (source instanceof Body) return source.bytes.length;
  const { data } = isObject(source) ? source : {};
  return typeof data === 'string' ? data.length : 0;
}

/** Runs work on content of the given length. Throws when it takes longer than any capture may. */
export const timed = <T>(bytes: number, work: () => T): T => withinTime(timeForContent(bytes), work);

/**
 * Reads a reply. A reply that cannot be decoded is still a reply: its content is then a digest of its bytes.
 *
 * @param reply a `Body`, or the captured side.
 * @param request the same for the request, without which some replies cannot be interpreted.
 */
export function readReplyContent(reply: unknown, request: unknown): ReplyContent {
  try {
    return timed(bytesIn(reply), () => contentOf(reply, request));
  } catch {
    return { text: '', digest: digestOf(reply instanceof Body ? reply.bytes : payloadBytes(reply)) };
  }
}

/** Returns the conversation that a request in any form continues, for a judge to read. */
export function readConversation(request: Body): Conversation | undefined {
  try {
    const read = () => meaningOf({ request: payloadOf('request', request, new Scale()) }).conversation;
    return timed(request.bytes.length, read);
  } catch {
    return undefined;
  }
}

function contentOf(reply: unknown, request: unknown): ReplyContent {
  const scale = new Scale();
  scale.characters(bytesIn(reply));
  const response = payloadOf('reply', reply, scale);
  if (response === undefined) return { text: '' };
  const document = documentOf(response);
  const known = { usage: tokenUsageOf(document), kind: kindOf(response), ended: response.ended };
  const found = errorReply(response);
  if (found !== undefined) {
    const { statusCode: code, type, message } = found;
    return { ...known, text: '', error: { code, type, message } };
  }
  const problem = brokenPromise(response);
  // A reply in a known form is read without its request.
  const wire = readWireReply(document);
  if (wire === undefined && isBlankPayload(response)) {
    return { ...known, text: '', document: response.value, blank: 'value', problem };
  }
  const { replies = [], finishReasons = [] } =
    wire ?? meaningOf({ request: payloadOf('request', request, scale), response }).conversation ?? {};
  const [first, ...others] = replies;
  const isSilent = (wire !== undefined || first !== undefined) && replies.every(isBlankMessage);
  const isBlank = response.kind === 'empty' || isSilent;
  const blank = isBlank ? { blank: 'message' as const, document } : {};
  if (first === undefined) return { ...known, ...unspoken(response), ...blank, problem };
  const isUnread = wire === undefined && document !== undefined && first.content === toJson(document);
  return {
    ...known,
    ...blank,
    text: textOf(first),
    ...(isUnread ? { unread: true } : {}),
    ...(others.length > 0 ? { further: others.map(textOf) } : {}),
    ...(first.tool_calls?.length ? { toolCalls: first.tool_calls } : {}),
    ...(finishReasons.length > 0 ? { finishReasons } : {}),
    problem,
  };
}

/** Whether the payload is an empty value. */
const isBlankPayload = ({ kind, value }: Payload): boolean =>
  (kind === 'csv' || DOCUMENT_KINDS.has(kind)) && isBlankValue(value);

function kindOf({ kind, contentType }: Payload): ReplyKind | undefined {
  if (DOCUMENT_KINDS.has(kind)) return 'document';
  if (kind === 'binary') return 'bytes';
  if (kind !== 'text' && kind !== 'csv') return undefined;
  return parseContentType(contentType).media?.includes('html') ? 'page' : 'text';
}

/**
 * Explains why an empty reply counts as an error. Returns `undefined` if it does not, for example because both replies
 * are the same JSON: a detector without findings may answer `[]`.
 *
 * @param other the captured reply, or for a captured reply the new reply
 */
export function nothingSaid({ blank, text, document }: ReplyContent, other: ReplyContent | undefined) {
  if (blank === undefined || text !== '') return undefined;
  const isSame = document !== undefined && isDeepStrictEqual(document, other?.document);
  return isSame ? undefined : 'the reply has no content';
}

function textOf({ content }: ChatMessage): string {
  if (!Array.isArray(content)) return content ?? '';
  return content.map((part) => (isObject(part) && typeof part.text === 'string' ? part.text : '')).join('');
}

const digestOf = (bytes: Buffer | string): string => hash('sha256', bytes);

/** Returns the content of a reply without text. */
function unspoken({ kind, value, text = '' }: Payload): ReplyContent {
  if (kind === 'empty') return { text: '' };
  if (kind === 'text') return { text };
  if (kind === 'raw') return { text: '', digest: digestOf(text) };
  if (kind === 'binary') return { text: '', digest: (value as BinarySummary).sha256 };
  return { text: '', document: value };
}

/** Describes invalid JSON. JSON that is only nested too deep is not a broken reply. */
function brokenPromise({ problem, kind, contentType, text = '' }: Payload): string | undefined {
  if (problem === undefined || kind !== 'text' || parseContentType(contentType).announces !== 'json') return undefined;
  const parsed = parseJson(text);
  return parsed.ok || parsed.tooDeep ? undefined : problem;
}

/** Reads the content of a reply, captured or live, whole or streamed, with the code that decodes captures. */
import { hash } from 'node:crypto';
import { parseContentType } from '../../formats/content-type.ts';
import { errorReply } from '../../formats/errors/error-reply.ts';
import { isObject, parseJson } from '../../formats/json.ts';
import { meaningOf } from '../../formats/meaning/interpret.ts';
import { tokenUsageOf } from '../../formats/meaning/token-usage.ts';
import { payloadBytes } from '../../formats/payload/captured-data.ts';
import { type BinarySummary, decodePayload, documentOf, payloadOfBytes } from '../../formats/payload/decode-payload.ts';
import type { ChatMessage, Payload, ToolCall } from '../../formats/types.ts';
import { Scale } from '../../formats/weight.ts';
import { readWireReply } from '../../formats/wire/registry.ts';
import { toNamedError } from '../../shared/errors.ts';
import { timeForContent, withinTime } from '../../shared/within-time.ts';

/** Token counts from the server. */
export interface Usage {
  input?: number;
  output?: number;
  total?: number;
  /** Output tokens that the model spent on reasoning. */
  reasoning?: number;
}

export interface ReplyContent {
  /** Text of the first choice. Empty when the reply contains no text (tool calls, tables, vectors). */
  text: string;
  /** Texts of further choices, or the answers to further prompts of the same request. */
  further?: string[];
  toolCalls?: ToolCall[];
  finishReason?: string;
  usage?: Usage;
  /** The reply is an error, whatever its HTTP status. */
  error?: { code?: number; type?: string; message: string };
  /** The value of a reply that is not text: a table, a vector, another document. */
  document?: unknown;
  /** SHA-256 of a reply that is neither. */
  digest?: string;
  /** The reply is JSON or a stream. */
  isDocument?: boolean;
  /** For a stream: it has an end marker. `undefined` where its wire format has none. */
  ended?: boolean;
  /** How the reply differs from its content type, in words. */
  problem?: string;
  /** Why the reply was not decoded, in words. */
  notRead?: string;
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

const payloadOf = (side: 'request' | 'reply', source: unknown, scale: Scale): Payload | undefined =>
  source instanceof Body
    ? payloadOfBytes(side, source.bytes, source.contentType, [], scale)
    : decodePayload(side, source, [], scale);

function bytesIn(source: unknown): number {
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
  } catch (error) {
    const bytes = reply instanceof Body ? reply.bytes : payloadBytes(reply);
    return { text: '', digest: digestOf(bytes), notRead: `it was not decoded: ${toNamedError(error).name}` };
  }
}

/** Returns the conversation that a request continues, whatever its form, for a judge to read. */
export function readMessages(request: Body): ChatMessage[] | undefined {
  try {
    const read = () => meaningOf(payloadOf('request', request, new Scale()), undefined).conversation?.messages;
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
  const known = { usage: usageIn(document), isDocument: document !== undefined, ended: response.ended };
  const found = errorReply(response);
  if (found !== undefined) {
    const { statusCode: code, type, message } = found;
    return { ...known, text: '', error: { code, type, message } };
  }
  // A reply in a known form is read without its request.
  const { replies = [], finishReasons = [] } =
    readWireReply(document) ?? meaningOf(payloadOf('request', request, scale), response).conversation ?? {};
  const problem = brokenPromise(response);
  const [first, ...others] = replies;
  if (first === undefined) return { ...known, ...unspoken(response), problem };
  return {
    ...known,
    text: textOf(first),
    ...(others.length > 0 ? { further: others.map(textOf) } : {}),
    ...(first.tool_calls?.length ? { toolCalls: first.tool_calls } : {}),
    finishReason: finishReasons[0],
    problem,
  };
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

/** Describes a stream without an event, or invalid JSON. JSON that is only nested too deep is not a broken reply. */
function brokenPromise({ problem, kind, contentType, text = '' }: Payload): string | undefined {
  const announces = () => parseContentType(contentType).announces;
  if (kind === 'empty') return announces() === 'event-stream' ? 'the stream contained no content' : undefined;
  if (problem === undefined || kind !== 'text' || announces() !== 'json') return undefined;
  const parsed = parseJson(text);
  return parsed.ok || parsed.tooDeep ? undefined : problem;
}

/** Returns the token counts of a reply's document. */
export function usageIn(document: unknown): Usage | undefined {
  const usage = tokenUsageOf(document);
  return (
    usage && {
      input: usage.inputTokens,
      output: usage.outputTokens,
      total: usage.totalTokens,
      reasoning: usage.reasoningTokens,
    }
  );
}

/** What a reply says: captured or live, whole or streamed, it is read by what reads captures for the pipeline. */
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
import { captureTimeMs, withinTime } from '../../shared/within-time.ts';

/** Tokens as the server counted them. */
export interface Usage {
  input?: number;
  output?: number;
  total?: number;
  /** Of the output, what the model thought and did not say. */
  reasoning?: number;
}

export interface ReplyContent {
  /** What the first choice says; empty when the reply says nothing in words (tool calls, tables, vectors). */
  text: string;
  /** What further choices say, or the answers to further prompts of the same request. */
  further?: string[];
  toolCalls?: ToolCall[];
  finishReason?: string;
  usage?: Usage;
  /** The reply is an error, whatever its status. */
  error?: { code?: number; type?: string; message: string };
  /** The value of a reply that is no text: a table, a vector, another document. */
  document?: unknown;
  /** SHA-256, of a reply that is neither. */
  digest?: string;
  /** It could be taken apart: JSON, or a stream. */
  isDocument?: boolean;
  /** Of a stream: whether it told its end; `undefined` where its form does not tell. */
  ended?: boolean;
  /** It is not what its content type says, in words. */
  problem?: string;
  /** Why it was not taken apart, in words. */
  notRead?: string;
}

/** A body as it went over the wire; what is none is one side of a capture record. */
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

/** Larger ones are read with a limit of time, which costs a tenth of a millisecond. */
const MIN_TIMED_BYTES = 64 * 1024;

/** Work on content of so many bytes, broken off when it takes longer than any capture may. */
export const timed = <T>(bytes: number, work: () => T): T =>
  bytes < MIN_TIMED_BYTES ? work() : withinTime(captureTimeMs(bytes), work);

/**
 * What a reply says. Whatever it does to what reads it, it is a reply all the same: then its bytes alone are known.
 *
 * @param reply a `Body`, or the captured side; so is `request`, that it answers: what some replies are, only that tells
 */
export function readReplyContent(reply: unknown, request: unknown): ReplyContent {
  try {
    return timed(bytesIn(reply), () => contentOf(reply, request));
  } catch (error) {
    const bytes = reply instanceof Body ? reply.bytes : payloadBytes(reply);
    return { text: '', digest: digestOf(bytes), notRead: `it was not decoded: ${toNamedError(error).name}` };
  }
}

/** The conversation that a request goes on with, whatever its form, for a judge to read. */
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
  // What is in a known form is read without its request.
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

/** A reply that says nothing in words. */
function unspoken({ kind, value, text = '' }: Payload): ReplyContent {
  if (kind === 'empty') return { text: '' };
  if (kind === 'text') return { text };
  if (kind === 'raw') return { text: '', digest: digestOf(text) };
  if (kind === 'binary') return { text: '', digest: (value as BinarySummary).sha256 };
  return { text: '', document: value };
}

/** A stream without an event, or JSON that is none; where nothing but its depth is wrong with that, it is no broken reply. */
function brokenPromise({ problem, kind, contentType, text = '' }: Payload): string | undefined {
  const announces = () => parseContentType(contentType).announces;
  if (kind === 'empty') return announces() === 'event-stream' ? 'the stream contained no content' : undefined;
  if (problem === undefined || kind !== 'text' || announces() !== 'json') return undefined;
  const parsed = parseJson(text);
  return parsed.ok || parsed.tooDeep ? undefined : problem;
}

/** The counts of a document that are believed. */
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

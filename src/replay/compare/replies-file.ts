/** `replies.jsonl`: the reply to each request, kept for the comparison with the captured one and with another run's. */
import { basename } from 'node:path';
import type { ChatMessage } from '../../captures/types.ts';
import type { ReplyPair } from '../../judge/pairwise.ts';
import { bodyPreview, type Measured, sentBody } from '../measure/measure.ts';
import { Body, type ReplyContent, readConversation } from '../reply/content.ts';
import { replyMessage } from '../request/preparer.ts';
import { compareReplies, type ReplyComparison } from './compare-replies.ts';
import { jsonLines } from './json-lines.ts';
import { type ComparableReply, capturedReplyOf, replayedReply } from './reply.ts';

export const REPLIES_FILE = 'replies.jsonl';

export interface StoredReply {
  key: string;
  event_id?: string;
  /** The id that the trace of the replayed request is derived from. */
  request_id: string;
  captured_trace_id?: string;
  file: string;
  line: number;
  /** The beginning of the request's body. */
  input: string;
  /** Set for chats, which a judge can compare. */
  messages?: ChatMessage[];
  /** The request asked for JSON by `response_format`. */
  json_requested?: true;
  reply: ComparableReply;
  captured?: ComparableReply;
  comparison?: ReplyComparison;
}

/** Longer texts are truncated: neither a judge nor a person reads more. */
export const MAX_TEXT = 64 * 1024;

const cut = (reply: ComparableReply): ComparableReply =>
  reply.text.length > MAX_TEXT ? { ...reply, text: `${reply.text.slice(0, MAX_TEXT)} …` } : reply;

/** Returns the stored form of the reply to a request, compared with the captured reply if both are known. */
export function comparedReply(measured: Measured): StoredReply {
  const { request, content, cancelled, exchange } = measured;
  const { eventId, file, line, pass } = request;
  const reply = replayedReply(measured);
  // The reply to a canceled request is unknown, and so is a reply that is too large.
  const isKnown = !cancelled && !exchange.tooLarge;
  const captured = request.captured && isKnown ? capturedReplyOf(request.captured, content) : undefined;
  const sent = sentBody(request);
  const texts = request.keep?.texts ?? (<T>(value: T): T => value);
  // Reads the masked body: masking the text later would miss encoded values and cells.
  const body = request.keep ? Buffer.from(request.keep.body('endpointInput', sent)) : sent.bytes;
  const { messages, jsonRequested } = readConversation(new Body(body, sent.contentType)) ?? {};
  return {
    // The same in all runs for the same captured request, regardless of the path of its file.
    key: `${eventId ?? basename(file)}:${line}${pass === 0 ? '' : `#${pass}`}`,
    event_id: eventId,
    request_id: request.requestId,
    ...(request.capturedTraceId ? { captured_trace_id: request.capturedTraceId } : {}),
    file,
    line,
    input: bodyPreview('endpointInput', sent, request.keep),
    ...(messages ? { messages } : {}),
    ...(jsonRequested ? { json_requested: true } : {}),
    reply: cut(texts(reply)),
    ...(captured && { captured: cut(texts(captured)), comparison: texts(compareReplies(captured, reply)) }),
  };
}

/** @throws PermanentError `NotAReplay` */
export async function* readReplies(path: string): AsyncGenerator<StoredReply> {
  for await (const { value } of jsonLines(path)) yield value as StoredReply;
}

/** A reply as a chat message for the judge; `undefined` if it has neither text nor tool calls. */
export const replyMessageOf = (reply: ComparableReply): ChatMessage | undefined =>
  reply.ok ? replyMessage(reply as ReplyContent) : undefined;

/**
 * Whether the new reply is empty although a judge could read the earlier reply. It counts as worse without asking a
 * judge.
 */
export const isEmptied = ({ messages, captured, comparison }: StoredReply): boolean =>
  comparison?.emptied === true && messages !== undefined && captured !== undefined && !!replyMessageOf(captured);

/** The captured and the new reply, if the judge can compare them. Equal, failed and empty replies need no judge. */
export function pairOf({ messages, captured, reply, comparison }: StoredReply): ReplyPair | undefined {
  if (comparison?.status !== 'both-ok' || comparison.same || comparison.emptied) return undefined;
  const before = captured && replyMessageOf(captured);
  const after = replyMessageOf(reply);
  return messages && before && after ? { messages, before, after } : undefined;
}

/** A reply as text for people. */
export const replyText = (reply: ComparableReply): string => {
  if (!reply.ok) return `error ${reply.error?.code ?? ''} ${reply.error?.message ?? ''}`.replace(/ +/g, ' ');
  if (reply.notKeptBytes !== undefined) return `not kept: ${reply.notKeptBytes} bytes`;
  if (reply.text !== '') return reply.text;
  const rest = reply.document ?? reply.toolCalls ?? reply.digest ?? '';
  return (typeof rest === 'string' ? rest : JSON.stringify(rest)).slice(0, 2000);
};

/** `replies.jsonl`: what each request got, kept to be compared: with the captured reply, and with another run's. */
import { basename } from 'node:path';
import type { ChatMessage } from '../../formats/types.ts';
import { bodyPreview } from '../measure/body-preview.ts';
import { type Measured, sentBody } from '../measure/measure.ts';
import { readMessages } from '../reply/content.ts';
import type { ReplyComparison } from './compare-replies.ts';
import { jsonLines } from './json-lines.ts';
import type { ComparableReply } from './reply.ts';

export const REPLIES_FILE = 'replies.jsonl';

export interface StoredReply {
  key: string;
  event_id?: string;
  /** What the trace of the replayed request is named by. */
  request_id: string;
  captured_trace_id?: string;
  file: string;
  line: number;
  /** Beginning of the request's body. */
  input: string;
  /** There for chats: what a judge needs to see. */
  messages?: ChatMessage[];
  reply: ComparableReply;
  captured?: ComparableReply;
  comparison?: ReplyComparison;
}

/** Longer texts are cut before they are kept: a judge reads no more of them, and a person neither. */
const MAX_TEXT = 64 * 1024;

/** The same for the same captured request in any run, whatever the path its file was read from. */
const requestKey = (eventId: string | undefined, file: string, line: number, pass: number): string =>
  `${eventId ?? basename(file)}:${line}${pass === 0 ? '' : `#${pass}`}`;

const cut = (reply: ComparableReply): ComparableReply =>
  reply.text.length > MAX_TEXT ? { ...reply, text: `${reply.text.slice(0, MAX_TEXT)} …` } : reply;

export function storedReply(
  measured: Measured,
  reply: ComparableReply,
  captured?: ComparableReply,
  comparison?: ReplyComparison,
): StoredReply {
  const { request } = measured;
  const messages = readMessages(sentBody(request));
  return {
    key: requestKey(request.eventId, request.file, request.line, request.pass),
    event_id: request.eventId,
    request_id: request.requestId,
    ...(request.capturedTraceId ? { captured_trace_id: request.capturedTraceId } : {}),
    file: request.file,
    line: request.line,
    input: bodyPreview(request.wire.subarray(request.bodyAt)),
    ...(messages ? { messages } : {}),
    reply: cut(reply),
    ...(captured ? { captured: cut(captured) } : {}),
    ...(comparison ? { comparison } : {}),
  };
}

/** Without what the reply said: that it was compared, and how, stays. */
export const withoutReply = (stored: StoredReply, bytes: number): StoredReply => ({
  ...stored,
  reply: {
    ok: stored.reply.ok,
    ...(stored.reply.error ? { error: stored.reply.error } : {}),
    text: '',
    notKeptBytes: bytes,
  },
});

/** @throws PermanentError `NotAReplay` */
export async function* readReplies(path: string, onCut?: (where: string) => void): AsyncGenerator<StoredReply> {
  for await (const { value } of jsonLines(path, onCut)) yield value as StoredReply;
}

/** A reply as a message, for a judge; `undefined` when there is nothing to read. */
export const replyMessageOf = (reply: ComparableReply): ChatMessage | undefined =>
  reply.ok && (reply.text !== '' || reply.toolCalls)
    ? {
        role: 'assistant',
        content: reply.text,
        ...(reply.toolCalls ? { tool_calls: reply.toolCalls as ChatMessage['tool_calls'] } : {}),
      }
    : undefined;

/** What a person reads of a reply. */
export const replyText = (reply: ComparableReply): string => {
  if (!reply.ok) return `error ${reply.error?.code ?? ''} ${reply.error?.message ?? ''}`.replace(/ +/g, ' ');
  if (reply.notKeptBytes !== undefined) return `not kept: ${reply.notKeptBytes} bytes`;
  if (reply.text !== '') return reply.text;
  const rest = reply.document ?? reply.toolCalls ?? reply.digest ?? '';
  return (typeof rest === 'string' ? rest : JSON.stringify(rest)).slice(0, 2000);
};

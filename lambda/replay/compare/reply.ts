/** A reply as it is compared: what it says, in one form for the captured, the replayed and the stored one. */
import { parseJson } from '../json.ts';
import type { Measured } from '../measure/measure.ts';
import type { ReplyContent } from '../reply/content.ts';
import type { CapturedReply } from '../request/prepared.ts';

export interface Reply {
  ok: boolean;
  /** There when it is an error. */
  error?: { code?: number; message: string };
  /** Given up before it was there, which says nothing about it. */
  cancelled?: true;
  /** What a model said; empty for tabular and binary replies. */
  text: string;
  toolCalls?: unknown[];
  /** The document, for JSON and CSV replies that hold no text. */
  document?: unknown;
  /** SHA-256 of the bytes, for replies that are neither. */
  digest?: string;
  /** There when it was too large to be kept, after it was compared or before: its bytes. Nothing of what it said is here. */
  notKeptBytes?: number;
}

const rowsOf = (csv: string): unknown[][] =>
  csv
    .split(/\r?\n/)
    .filter((row) => row.trim() !== '')
    .map((row) =>
      row
        .split(',')
        .map((field) => (field.trim() !== '' && !Number.isNaN(Number(field)) ? Number(field) : field.trim())),
    );

/** @param digest of the bytes; called only when nothing else can be compared */
export function replyOf(
  content: ReplyContent,
  bytes: Buffer | undefined,
  contentType: string | null,
  digest: (bytes: Buffer) => string,
): Reply {
  if (content.error) {
    const { code, message } = content.error;
    return { ok: false, error: { ...(code === undefined ? {} : { code }), message }, text: '' };
  }
  const reply: Reply = { ok: true, text: content.text, ...(content.toolCalls ? { toolCalls: content.toolCalls } : {}) };
  if (content.text !== '' || content.toolCalls || !bytes || bytes.length === 0) {
    // CSV comes as text too, and its numbers are compared as numbers.
    if (contentType?.startsWith('text/csv')) return { ok: true, text: '', document: rowsOf(content.text) };
    return reply;
  }
  const text = bytes.toString('utf8');
  if (contentType?.startsWith('text/csv')) return { ...reply, document: rowsOf(text) };
  try {
    return { ...reply, document: parseJson(text) };
  } catch {
    return { ...reply, digest: digest(bytes) };
  }
}

export const capturedReply = (captured: CapturedReply, digest: (bytes: Buffer) => string): Reply =>
  replyOf(captured.content, captured.bytes, captured.contentType, digest);

export function replayedReply(
  { error, content, exchange, cancelled }: Measured,
  digest: (bytes: Buffer) => string,
): Reply {
  if (error) {
    const { code, type, message } = error;
    return {
      ok: false,
      error: { ...(code === undefined ? {} : { code }), message: `${type}: ${message}` },
      text: '',
      ...(cancelled ? { cancelled } : {}),
    };
  }
  if (exchange.tooLarge) return { ok: true, text: '', notKeptBytes: exchange.bodyBytes };
  return replyOf(
    content,
    exchange.reader ? undefined : exchange.body,
    exchange.headers.get('content-type') ?? null,
    digest,
  );
}

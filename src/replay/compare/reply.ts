/** A reply as it is compared: what it says, in one form for the captured, the replayed and the stored one. */
import type { Measured } from '../measure/measure.ts';
import type { ReplyContent } from '../reply/content.ts';

export interface ComparableReply {
  ok: boolean;
  /** There when it is an error. */
  error?: { code?: number; message: string };
  /** Given up before it was there, which says nothing about it. */
  cancelled?: true;
  /** What a model said, its first choice; empty for tabular and binary replies. */
  text: string;
  /** What its further choices said. */
  further?: string[];
  toolCalls?: unknown[];
  /** The value of a reply that holds no text. */
  document?: unknown;
  /** SHA-256 of the bytes, for replies that are neither. */
  digest?: string;
  /** Why it is compared by its bytes alone, in words. */
  notRead?: string;
  /** There when it was too large to be kept, after it was compared or before: its bytes. Nothing of what it said is here. */
  notKeptBytes?: number;
}

/** What is not what it says it is, is an error in a capture as it is live. */
export function replyOf(content: ReplyContent): ComparableReply {
  const { error, problem, text, further, toolCalls, document, digest, notRead } = content;
  if (error) return { ok: false, error: { code: error.code, message: error.message }, text: '' };
  if (problem !== undefined) return { ok: false, error: { message: problem }, text: '' };
  return { ok: true, text, further, toolCalls, document, digest, notRead };
}

export function replayedReply({ error, content, exchange, cancelled }: Measured): ComparableReply {
  if (error) {
    const { code, type, message } = error;
    return {
      ok: false,
      error: { code, message: `${type}: ${message}` },
      text: '',
      ...(cancelled ? { cancelled } : {}),
    };
  }
  if (exchange.tooLarge) return { ok: true, text: '', notKeptBytes: exchange.bodyBytes };
  return replyOf(content);
}

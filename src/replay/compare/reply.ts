/** The form in which replies are compared, for captured, replayed and stored replies. */
import { INVALID_REPLY, type Measured } from '../measure/measure.ts';
import { nothingSaid, type ReplyContent } from '../reply/content.ts';

export interface ComparableReply extends Omit<ReplyContent, 'error' | 'problem' | 'usage' | 'ended'> {
  ok: boolean;
  /** Set if the reply is an error. */
  error?: { code?: number; message: string };
  /** Set if the request was canceled, so that its reply is unknown. */
  cancelled?: true;
  /** Size in bytes of a reply that was too large to keep. Its content is not here. */
  notKeptBytes?: number;
}

/** A reply that cannot be read as its content type is an error, whether captured or live. */
function replyOf(content: ReplyContent): ComparableReply {
  const { error, problem, usage: _, ended: __, ...said } = content;
  if (error) return { ok: false, error: { code: error.code, message: error.message }, text: '' };
  if (problem !== undefined) return { ok: false, error: { message: problem }, text: '', blank: said.blank };
  return { ok: true, ...said };
}

/** Returns the captured reply. An empty value counts as an answer; an empty message does not. */
export function capturedReplyOf(captured: ReplyContent, replayed: ReplyContent): ComparableReply {
  const problem = captured.blank === 'message' ? nothingSaid(captured, replayed) : undefined;
  return replyOf({ ...captured, problem: captured.problem ?? problem });
}

export function replayedReply({ error, content, exchange, cancelled }: Measured): ComparableReply {
  if (error) {
    const { code, type, message } = error;
    return {
      ok: false,
      error: { code, message: `${type}: ${message}` },
      text: '',
      ...(type === INVALID_REPLY && content.blank ? { blank: content.blank } : {}),
      ...(cancelled ? { cancelled } : {}),
    };
  }
  if (exchange.tooLarge) return { ok: true, text: '', notKeptBytes: exchange.bodyBytes };
  return replyOf(content);
}

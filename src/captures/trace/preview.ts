/** Builds the two short texts of a trace in MLflow's list: the request and the reply. */
import { TAIL_CHARS } from '../../core/text/terminal-text.ts';
import { isObject, toJson } from '../json.ts';
import { isThere, payloadText } from '../payload/decode-payload.ts';
import { promptCount } from '../reply-text.ts';
import type { Capture, ChatMessage, Payload } from '../types.ts';
import { contentText } from './chat-view.ts';
import { cleanText, cut, MAX_PREVIEW_CHARS } from './text.ts';

/** @param tail characters of the end that are kept */
const preview = (text: string, tail = 0): string => cleanText(cut(text, MAX_PREVIEW_CHARS, '…', tail));

/** Explains why a reply has no content: for example, a filter stopped it, or it spent its tokens on reasoning. */
function unspoken({ conversation, usage = {} }: Capture): string {
  const { replies = [], finishReasons = [] } = conversation ?? {};
  const thought = replies[0]?.reasoning ?? replies[0]?.reasoning_content;
  const [reason] = finishReasons;
  // All tokens of a reply without content are reasoning.
  const tokens = usage.reasoningTokens || (thought && replies.length === 1 ? usage.outputTokens : undefined);
  if (!tokens && !thought && (reason ?? 'stop') === 'stop') return '';
  return `(no content; finish_reason ${reason ?? 'unknown'}${tokens ? `, ${tokens} tokens of reasoning` : ''})`;
}

/** Returns the text of a message, with its tool calls written as function calls. */
function messagePreview(message: ChatMessage): string {
  const text = contentText(message.content);
  const calls = Array.isArray(message.tool_calls) ? (message.tool_calls as unknown[]) : [];
  const written = calls.map((call) => {
    const inner = isObject(call) && isObject(call.function) ? call.function : {};
    return `${typeof inner.name === 'string' ? inner.name : 'unnamed'}(${typeof inner.arguments === 'string' ? inner.arguments : (toJson(inner.arguments) ?? '')})`;
  });
  return [text, ...written].filter((part) => part.trim() !== '').join('\n');
}

const payloadPreview = (payload: Payload | undefined): string => (isThere(payload) ? payloadText(payload) : '');

/** A call with several prompts shows the first prompt and the first reply, and how many there are. */
const ofSeveral = (count: number, text: string): string => (count > 1 ? `1 of ${count}: ${text}` : text);

export function requestPreview(capture: Capture): string {
  const messages = capture.conversation?.messages ?? [];
  const prompts = promptCount(capture);
  const last = messages.findLast((message) => message.role === 'user') ?? messages.at(-1);
  const asked = prompts > 1 ? messages[0] : last;
  const text = asked === undefined ? payloadPreview(capture.request) : messagePreview(asked);
  return preview(ofSeveral(prompts, text), TAIL_CHARS);
}

export function responsePreview(capture: Capture): string {
  if (capture.error !== undefined) {
    const { statusCode, message } = capture.error;
    return preview(statusCode === undefined ? `error: ${message}` : `error ${statusCode}: ${message}`);
  }
  const answered = capture.conversation?.replies[0];
  if (answered === undefined) return preview(payloadPreview(capture.response));
  const answers = capture.inferenceMismatch?.outputs ?? promptCount(capture);
  return preview(ofSeveral(answers, messagePreview(answered) || unspoken(capture)));
}

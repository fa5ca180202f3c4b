/** Decides whether a scorer applies to a capture, and extracts the text that the judge reads. */

import { isEmptyReply } from '../../captures/blank.ts';
import { ofContent } from '../../captures/content.ts';
import { isUndecoded, messageText, promptCount } from '../../captures/reply-text.ts';
import type { Capture, ChatMessage } from '../../captures/types.ts';
import type { JudgeScorer } from '../types.ts';

/**
 * A reason why a scorer does not apply to a capture. Receipts count the reasons as `notJudgeable`.
 *
 * - `errorReply`: the endpoint returned an error. LLM scorers do not judge errors.
 * - `emptyReply`: the reply is empty (see src/captures/blank.ts), and counted as such.
 * - `noResponse`: the reply was not captured, or is not in a known form of a chat.
 * - `noRequest`: the request was not captured, or contains no message.
 * - `noReplyText`: the reply contains no words, only tool calls or images.
 * - `noToolCalls`: the reply calls no tool.
 * - `noSystemPrompt`: the conversation has no system prompt.
 * - `notText`: the reply is not in words: numbers, vectors, bytes, markup, media, a label, a table, or JSON of unknown
 *   form.
 * - `notDecoded`: a payload could not be decoded, and is kept as captured.
 * - `promptsNotPaired`: a call with several prompts, whose replies cannot be assigned to them.
 * - `nothingToCompare`: the reply of a replay is the same as the captured reply, or there is no captured reply.
 */
type Applicability = { judge: true } | { notJudgeable: string };

/** The part of a capture that the judge reads. */
export interface JudgeableExchange {
  messages: readonly ChatMessage[];
  replies: readonly ChatMessage[];
  tools: readonly unknown[];
  /**
   * Set if the messages are independent prompts of one call. Each prompt has this number of replies, in order. Absent:
   * the messages are a conversation.
   */
  repliesPerPrompt?: number;
}

/**
 * Returns the exchange to judge. Returns `undefined` if it is not in words: it is unknown which words of a JSON document of unknown
 * form are the reply.
 */
export function judgeableExchange(capture: Capture): JudgeableExchange | undefined {
  const { conversation, wordless } = capture;
  if (conversation === undefined || wordless) return undefined;
  const { messages, replies, tools = [] } = conversation;
  const prompts = promptCount(capture);
  return { messages, replies, tools, ...(prompts > 1 && { repliesPerPrompt: replies.length / prompts }) };
}

export const isSystem = (message: ChatMessage): boolean => message.role === 'system' || message.role === 'developer';
const hasToolCalls = (message: ChatMessage): boolean =>
  (message.tool_calls?.length ?? 0) > 0 || (message.function_call !== undefined && message.function_call !== null);

const isEmpty = (payload: Capture['request']): boolean => payload === undefined || payload.kind === 'empty';

/** Returns whether the scorer applies to the capture, or the reason why it does not. */
export const applicability = (capture: Capture, { needs }: Pick<JudgeScorer, 'needs'>): Applicability =>
  ofContent(capture, `applicability ${needs.join()}`, () => applies(capture, new Set(needs)));

function applies(capture: Capture, needs: ReadonlySet<JudgeScorer['needs'][number]>): Applicability {
  const isFailed = capture.error !== undefined || capture.call?.ended === 'failed';
  if (isFailed || capture.format === 'error') return { notJudgeable: 'errorReply' };
  if (needs.has('captured-reply') && capture.exchange?.captured === undefined)
    return { notJudgeable: 'nothingToCompare' };
  if (isEmptyReply(capture)) return { notJudgeable: 'emptyReply' };
  if (isEmpty(capture.response)) return { notJudgeable: 'noResponse' };
  if (isUndecoded(capture.request) || isUndecoded(capture.response)) return { notJudgeable: 'notDecoded' };
  if (promptCount(capture) > 1 && capture.inferenceMismatch) return { notJudgeable: 'promptsNotPaired' };
  const exchange = judgeableExchange(capture);
  if (exchange === undefined) return { notJudgeable: 'notText' };
  if (exchange.replies.length === 0) return { notJudgeable: 'noResponse' };

  // For bytes, the message only describes their kind.
  if (needs.has('request') && (capture.request?.kind === 'binary' || exchange.messages.every(isSystem))) {
    return { notJudgeable: 'noRequest' };
  }
  if (needs.has('system-prompt') && !exchange.messages.some(isSystem)) return { notJudgeable: 'noSystemPrompt' };
  if (needs.has('tools') && !exchange.replies.some(hasToolCalls)) return { notJudgeable: 'noToolCalls' };
  if (needs.has('reply') && !exchange.replies.some((reply) => messageText(reply).trim() !== '')) {
    return { notJudgeable: 'noReplyText' };
  }
  return { judge: true };
}

/** Whether a capture has what an LLM scorer needs, and the text it is judged by. */
import type { Capture, ChatMessage } from '../../formats/types.ts';
import type { JudgeScorer } from '../types.ts';
import { messageText } from './code/text.ts';

/** Why a scorer is not asked of a capture; counted as `notJudgeable` in receipts. */
const NOT_JUDGEABLE = [
  /** The endpoint answered with an error: LLM judges do not judge errors. */
  'errorReply',
  /** The reply was not captured, or is empty. */
  'noResponse',
  /** The request was not captured, or holds no message. */
  'noRequest',
  /** There is a reply, but no words in it: tool calls or images alone. */
  'noReplyText',
  /** The reply calls no tool. */
  'noToolCalls',
  /** The conversation has no system prompt. */
  'noSystemPrompt',
  /** Numbers, vectors or bytes: nothing that can be read as text. */
  'notText',
] as const;

type NotJudgeableReason = (typeof NOT_JUDGEABLE)[number];
type Applicability = { judge: true } | { notJudgeable: NotJudgeableReason };

/** What the judge sees of a capture. */
export interface JudgeableExchange {
  messages: readonly ChatMessage[];
  replies: readonly ChatMessage[];
  tools: readonly unknown[];
}

/** A string in a JSON document is taken for language from this many words on: labels and ids have fewer. */
const MIN_WORDS_OF_PROSE = 3;
/** Documents are not searched deeper than this. */
const MAX_JSON_DEPTH = 6;

function holdsProse(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return value.trim().split(/\s+/).length >= MIN_WORDS_OF_PROSE;
  if (value === null || typeof value !== 'object' || depth >= MAX_JSON_DEPTH) return false;
  return Object.values(value).some((inner) => holdsProse(inner, depth + 1));
}

const asMessage = (role: string, text: string | undefined): ChatMessage[] =>
  text === undefined || text.trim() === '' ? [] : [{ role, content: text }];

/**
 * The exchange to be judged: the conversation, or what can be read as one in a plain-text payload and in a JSON
 * document of unknown shape whose reply holds language. `undefined` where there is nothing to read.
 */
export function judgeableExchange(capture: Capture): JudgeableExchange | undefined {
  const { conversation, request, response } = capture;
  if (conversation !== undefined) {
    return { messages: conversation.messages, replies: conversation.replies, tools: conversation.tools ?? [] };
  }
  const readable =
    capture.format === 'text' ||
    ((capture.format === 'json' || capture.format === 'jsonlines') && holdsProse(response?.value));
  if (!readable) return undefined;
  return { messages: asMessage('user', request?.text), replies: asMessage('assistant', response?.text), tools: [] };
}

const isSystem = (message: ChatMessage): boolean => message.role === 'system' || message.role === 'developer';
const hasToolCalls = (message: ChatMessage): boolean =>
  (message.tool_calls?.length ?? 0) > 0 || (message.function_call !== undefined && message.function_call !== null);

const isEmpty = (payload: Capture['request']): boolean => payload === undefined || payload.kind === 'empty';

/** Whether the scorer is asked of the capture, or the reason why not. */
export function applicability(capture: Capture, scorer: Pick<JudgeScorer, 'needs'>): Applicability {
  if (capture.error !== undefined || capture.format === 'error') return { notJudgeable: 'errorReply' };
  if (isEmpty(capture.response)) return { notJudgeable: 'noResponse' };
  const exchange = judgeableExchange(capture);
  if (exchange === undefined) return { notJudgeable: 'notText' };
  if (exchange.replies.length === 0) return { notJudgeable: 'noResponse' };

  const needs = new Set(scorer.needs);
  if (needs.has('request') && !exchange.messages.some((message) => !isSystem(message))) {
    return { notJudgeable: 'noRequest' };
  }
  if (needs.has('system-prompt') && !exchange.messages.some(isSystem)) return { notJudgeable: 'noSystemPrompt' };
  if (needs.has('tools') && !exchange.replies.some(hasToolCalls)) return { notJudgeable: 'noToolCalls' };
  if (needs.has('reply') && !exchange.replies.some((reply) => messageText(reply).trim() !== '')) {
    return { notJudgeable: 'noReplyText' };
  }
  return { judge: true };
}

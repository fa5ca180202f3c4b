/**
 * The default set of code scorers: functions of the capture that need no model and cost nothing. Add, change or remove
 * one here; the set is at the end. `code-scorer-texts.json` states what each measures and what it does not.
 */

import { isEmptyReply } from '../../captures/blank.ts';
import { ofContent } from '../../captures/content.ts';
import { countWords } from '../../captures/prose.ts';
import { messageText, promptCount, replyTexts, replyWords } from '../../captures/reply-text.ts';
import type { Capture, ChatMessage } from '../../captures/types.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { sum } from '../../core/values/sum.ts';
import reasons from '../finish-reasons.json' with { type: 'json' };
import type { CodeScorer } from '../types.ts';
import { codeScorer } from './code/code-scorer.ts';
import { replyLanguage, requestLanguage } from './code/language.ts';
import { piiDetected } from './code/pii.ts';
import { repeatedText } from './code/repetition.ts';
import { timeScorers } from './code/times.ts';

// ------------------------------------------------------------------------------------------------------------ JSON
// Whether a reply is JSON if the request asked for JSON.

/**
 * Instructions to answer in JSON. Each pattern requires an imperative or a fixed phrase, so that questions about JSON ("How do
 * I return JSON from Flask?") and requests for programs ("Write a function that returns JSON") do not match.
 */
const INSTRUCTIONS: readonly RegExp[] = [
  // "Respond only with JSON", "please return the result as a JSON object"; not "Answer in words, not JSON".
  /(?:^|[.!?:;\n]\s{0,8}|\b(?:please|must|should|shall|always|only|just|and|then)\s+)(?:respond|reply|answer|return|output)\b(?![^.!?\n]{0,60}\b(?:not|without)\b)[^.!?\n]{0,100}\bJSON\b/i,
  // "Give me valid JSON", "produce a single JSON object"; not "write a JSON parser".
  /(?:^|[.!?:;\n]\s{0,8}|\b(?:please|must|should|shall|always|only|just|and|then)\s+)(?:emit|produce|generate|provide|give|write|print|create)\s+(?:me\s+)?(?:(?:only|a|the|valid|single|raw|strict)\s+){0,4}JSON\b(?!\s+(?:parser|library|schema|file|encoder|serializer))/i,
  // "Your reply must be valid JSON", "the output should be a JSON array".
  /\b(?:answer|reply|response|output|result)\s+(?:must|should|has to|needs to|is to)\s+be\s+(?:in\s+)?(?:(?:only|a|valid|single|raw|strict)\s+){0,4}JSON\b/i,
  /\b(?:only (?:valid )?JSON|(?:valid )?JSON only|in (?:valid |strict )?JSON format)\b/i,
  // "Extract the name and the date as JSON."
  /\bas (?:a )?(?:single |valid )?JSON(?: object| array)?\s*(?:[.:\n]|$)/i,
];

/** Returns how the request asked for JSON; `undefined` if it did not. */
function jsonAskedBy(capture: Capture): 'response_format' | 'prompt' | undefined {
  const { conversation } = capture;
  if (conversation === undefined) return undefined;
  if (conversation.jsonRequested) return 'response_format';
  const system = conversation.messages.filter(({ role }) => role === 'system' || role === 'developer');
  const lastUser = conversation.messages.findLast(({ role }) => role === 'user');
  const asks = (message: ChatMessage): boolean => INSTRUCTIONS.some((pattern) => pattern.test(messageText(message)));
  // Each of several prompts has its own reply.
  if (promptCount(capture) > 1) return conversation.messages.every(asks) ? 'prompt' : undefined;
  return (lastUser === undefined ? system : [...system, lastUser]).some(asks) ? 'prompt' : undefined;
}

/** Returns the content of a text that is a single Markdown code block, otherwise `undefined`. */
export function insideFence(text: string): string | undefined {
  const whole = text.trim();
  const open = whole.indexOf('\n');
  const isFenced = open !== -1 && whole.length > open + 3 && whole.endsWith('```');
  if (!isFenced || !/^```(?:json)?$/i.test(whole.slice(0, open).trimEnd())) return undefined;
  return whole.slice(open + 1, -3);
}

function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    if (text.trim() === '') return 'it is empty';
    const fenced = insideFence(text);
    if (fenced !== undefined && jsonIn(fenced) !== undefined) return 'it is JSON inside a Markdown code fence';
    // V8's message quotes the text. Only the position is used, if the message contains one.
    const { message } = error as Error;
    const place = /position (\d+)/.exec(message)?.[1];
    const atEnd = place !== undefined && Number(place) >= text.trimEnd().length;
    if (message.startsWith('Unexpected end') || atEnd) return 'it ends before the JSON does';
    return place === undefined ? 'it is not JSON' : `it breaks at character ${place}`;
  }
}

const validJson = codeScorer('valid_json', {
  fails: false,
  bounds: [0.05, 0.2],
  score(capture) {
    const asked = jsonAskedBy(capture);
    if (asked === undefined) return { notJudgeable: 'jsonNotRequested' };
    const found = replyTexts(capture);
    if ('notJudgeable' in found) return found;
    const callsTools = capture.conversation?.replies.some((reply) => (reply.tool_calls?.length ?? 0) > 0) === true;
    if (callsTools && found.texts.every((text) => text.trim() === '')) return { notJudgeable: 'noReplyText' };
    const problem = found.texts.map(problemOf).find((text) => text !== undefined);
    const by = asked === 'prompt' ? 'in the prompt' : 'by response_format';
    if (problem === undefined) return { value: true, rationale: `JSON was asked for ${by}, and the reply is JSON.` };
    return { value: false, rationale: `JSON was asked for ${by}, but the reply does not parse: ${problem}.` };
  },
});

// --------------------------------------------------------------------------------------------------------- cut off
// Whether a reply was cut off at the token limit.

/** Finish reasons for the token limit: OpenAI (chat, Responses) and vLLM, TGI, Anthropic, Cohere and Gemini, TensorRT-LLM. */
const LENGTH_REASONS = new Set(reasons.tokenLimit);

const cutOff = codeScorer('cut_off', {
  fails: true,
  score(capture) {
    if (capture.error !== undefined) return { notJudgeable: 'errorReply' };
    const reasons = capture.conversation?.finishReasons ?? [];
    if (reasons.length === 0) return { notJudgeable: 'noFinishReason' };
    const cut = reasons.filter((reason) => LENGTH_REASONS.has(reason.toLowerCase()));
    if (cut.length === 0) return { value: false };
    return { value: true, rationale: `${cut.length} of ${reasons.length} choices ended by the limit: ${cut[0]}` };
  },
});

// ---------------------------------------------------------------------------------------------------------- counts
// Words, tokens and characters of a reply.

/** Counts Unicode code points, which are the characters of most languages. */
const countCharacters = (text: string): number => {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
};

const replySize = (name: 'response_words' | 'response_length', sizeOf: (text: string) => number) =>
  codeScorer(name, {
    score(capture) {
      const found = replyWords(capture);
      return 'notJudgeable' in found ? found : { value: sum(found.texts.map(sizeOf)) };
    },
  });

const outputTokens = codeScorer('output_tokens', {
  score(capture) {
    const tokens = capture.usage?.outputTokens;
    return tokens === undefined ? { notJudgeable: 'noUsage' } : { value: tokens };
  },
});

// --------------------------------------------------------------------------------------------------------- the set

export const codeScorers: readonly CodeScorer[] = [
  replySize('response_words', countWords),
  outputTokens,
  replySize('response_length', countCharacters),
  validJson,
  piiDetected,
  requestLanguage,
  replyLanguage,
  repeatedText,
  cutOff,
  ...timeScorers,
];

/**
 * Returns a code scorer's result on a capture, even if the capture's content is in another process. An empty reply is
 * only scored for its times.
 */
export const scoreOf = (scorer: CodeScorer, capture: Capture): ReturnType<CodeScorer['score']> =>
  ofContent(capture, `score ${scorer.name}`, () =>
    scorer.isAsked === undefined && isEmptyReply(capture) ? { notJudgeable: 'emptyReply' } : scorer.score(capture),
  );

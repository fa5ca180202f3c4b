/** Checks that a reply is JSON if the request asked for JSON. */
import { promptCount } from '../../../captures/meaning/inferences.ts';
import { messageText, replyTexts } from '../../../captures/reply-text.ts';
import type { Capture, ChatMessage } from '../../../captures/types.ts';
import type { CodeScorer } from '../../types.ts';

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

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    if (text.trim() === '') return 'it is empty';
    const fenced = insideFence(text);
    if (fenced !== undefined && parses(fenced)) return 'it is JSON inside a Markdown code fence';
    // V8's message quotes the text. Only the position is used, if the message contains one.
    const { message } = error as Error;
    const place = /position (\d+)/.exec(message)?.[1];
    const atEnd = place !== undefined && Number(place) >= text.trimEnd().length;
    if (message.startsWith('Unexpected end') || atEnd) return 'it ends before the JSON does';
    return place === undefined ? 'it is not JSON' : `it breaks at character ${place}`;
  }
}

export const validJson: CodeScorer = {
  kind: 'code',
  name: 'valid_json',
  version: '1',
  fails: false,
  description:
    'Where JSON was asked for (by `response_format`, or by an instruction in the system prompt or the last user ' +
    'message, in English), whether each choice of the reply parses as JSON as it stands; a Markdown fence around it ' +
    'does not parse. It does not check a JSON schema, and not tool-call arguments. Not judgeable where JSON was not ' +
    'asked for, and on error replies.',
  score(capture) {
    const asked = jsonAskedBy(capture);
    if (asked === undefined) return { notJudgeable: 'jsonNotRequested' };
    if (capture.error !== undefined) return { notJudgeable: 'errorReply' };
    const found = replyTexts(capture);
    if ('notJudgeable' in found) return found;
    const callsTools = capture.conversation?.replies.some((reply) => (reply.tool_calls?.length ?? 0) > 0) === true;
    if (callsTools && found.texts.every((text) => text.trim() === '')) return { notJudgeable: 'noReplyText' };
    const problem = found.texts.map(problemOf).find((text) => text !== undefined);
    const by = asked === 'prompt' ? 'in the prompt' : 'by response_format';
    if (problem === undefined) return { value: true, rationale: `JSON was asked for ${by}, and the reply is JSON.` };
    return { value: false, rationale: `JSON was asked for ${by}, but the reply does not parse: ${problem}.` };
  },
};

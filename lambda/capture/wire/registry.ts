/** The wire formats in the order in which they are tried: those that say clearly what they are come first. */
import { isObject } from '../json.ts';
import { anthropic } from './anthropic.ts';
import { bedrockText, converse } from './bedrock.ts';
import { messageList } from './message-list.ts';
import { openAiChat, openAiCompletion } from './openai.ts';
import { openAiResponses } from './openai-responses.ts';
import { textGeneration } from './text-generation.ts';
import type { Delta, Prompt, Reply, WireFormat } from './types.ts';
import { ai21, cohere, gemini, generic, ollama } from './vendors.ts';

const FORMATS: readonly WireFormat[] = [
  openAiChat,
  openAiCompletion,
  textGeneration,
  anthropic,
  converse,
  messageList,
  openAiResponses,
  gemini,
  ollama,
  cohere,
  bedrockText,
  ai21,
];

/** Formats whose requests are told from OpenAI's by more than `messages`. */
const MARKED = FORMATS.filter((format) => format.recognises !== undefined);

export function readReply(value: unknown): Reply | undefined {
  for (const format of FORMATS) {
    const reply = format.reply(value);
    if (reply !== undefined) return reply;
  }
  return undefined;
}

/** @param answeredAs wire format of the reply: where a request could be of two vendors, its own server tells. */
export function readPrompt(value: unknown, answeredAs: string | undefined): Prompt | undefined {
  const marked = MARKED.find((format) => format.recognises?.(value));
  if (marked !== undefined) return marked.request(value);
  const same = FORMATS.find((format) => format.name === answeredAs)?.request(value);
  if (same !== undefined) return same;
  for (const format of FORMATS) {
    const prompt = format.request(value);
    if (prompt !== undefined) return prompt;
  }
  return undefined;
}

/** What an event of a stream adds, bare text included; `undefined` where it is of no format. Never throws. */
export function readDelta(event: unknown): Delta | undefined {
  if (typeof event === 'string') return { output: event, reasoning: '', calls: false };
  if (!isObject(event)) return undefined;
  for (const format of FORMATS) {
    const delta = format.delta?.(event);
    if (delta !== undefined) return delta;
  }
  return generic.delta?.(event);
}

/** Texts under the usual names of home-made servers; they count only where the other side is text as well. */
export const readGenericPrompt = (value: unknown): Prompt | undefined => generic.request(value);
export const readGenericReply = (value: unknown): Reply | undefined => generic.reply(value);

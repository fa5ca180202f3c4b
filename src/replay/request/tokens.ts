/**
 * Estimates token counts, for requests whose endpoint does not count them. Every place that shows one calls it an
 * estimate.
 */
import type { LiteralRequest } from './literal.ts';

/** English text has about four characters per token in current tokenizers. */
const CHARACTERS_PER_TOKEN = 4;
/** Role and separators of a chat message. */
const TOKENS_PER_MESSAGE = 4;

export const estimateTextTokens = (text: string): number => Math.ceil(text.length / CHARACTERS_PER_TOKEN);

function charactersOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (Array.isArray(value)) return value.reduce((sum: number, part) => sum + charactersOf(part), 0);
  if (typeof value !== 'object' || value === null) return 0;
  const { text, content, tool_calls: calls } = value as { text?: unknown; content?: unknown; tool_calls?: unknown };
  return charactersOf(text) + charactersOf(content) + (calls === undefined ? 0 : JSON.stringify(calls).length);
}

/** @returns `undefined` for a request without text (tabular, binary). */
export function estimateInputTokens({ prompt, json }: Pick<LiteralRequest, 'prompt' | 'json'>): number | undefined {
  // Texts to embed are not a prompt.
  const characters = charactersOf(prompt ? prompt.messages : (json?.input ?? json?.inputs));
  const isChat = prompt?.format === 'chat' || prompt?.format === 'messages';
  if (characters === 0 && !isChat) return undefined;
  const tools = prompt?.tools === undefined ? 0 : JSON.stringify(prompt.tools).length;
  const frames = isChat ? TOKENS_PER_MESSAGE * prompt.messages.length : 0;
  return Math.ceil((characters + tools) / CHARACTERS_PER_TOKEN) + frames;
}

/** The names in OpenAI, TGI, OpenAI Responses, Converse, Gemini, Titan, and Llama on Bedrock. */
const LIMIT_NAMES = [
  ...['max_completion_tokens', 'max_tokens', 'max_new_tokens', 'max_output_tokens'],
  ...['maxTokens', 'maxOutputTokens', 'maxTokenCount', 'max_gen_len'],
];

/** A larger limit is not believable. */
const MAX_LIMIT = 1e9;

/** Returns the maximum number of output tokens that a request allows, above 0, if it sets a limit. */
export function outputLimit({ prompt }: Pick<LiteralRequest, 'prompt'>): number | undefined {
  const name = LIMIT_NAMES.find((one) => prompt?.parameters[one] !== undefined);
  const limit = name === undefined ? undefined : prompt?.parameters[name];
  const isLimit = typeof limit === 'number' && Number.isInteger(limit) && limit > 0 && limit <= MAX_LIMIT;
  return isLimit ? limit : undefined;
}

/** Estimates of token counts, for requests whose endpoint does not count them. Always named an estimate where they are shown. */
import { wholeNumber } from '../reply/content.ts';

/** English text has about four characters a token in the tokenizers of today. */
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

/** @returns `undefined` for a request that carries no text (tabular, binary). */
export function estimateInputTokens(json: Record<string, unknown> | undefined): number | undefined {
  if (!json) return undefined;
  const { messages, prompt, inputs, input, tools } = json;
  const extra = tools === undefined ? 0 : JSON.stringify(tools).length;
  if (Array.isArray(messages)) {
    return Math.ceil((charactersOf(messages) + extra) / CHARACTERS_PER_TOKEN) + TOKENS_PER_MESSAGE * messages.length;
  }
  const text = prompt ?? inputs ?? input;
  const characters = charactersOf(text);
  return characters > 0 ? Math.ceil((characters + extra) / CHARACTERS_PER_TOKEN) : undefined;
}

/** Most tokens that a request lets its reply have, where it says so. */
export function outputLimit(json: Record<string, unknown> | undefined): number | undefined {
  if (!json) return undefined;
  const inner = (json.parameters ?? {}) as Record<string, unknown>;
  const limit = json.max_completion_tokens ?? json.max_tokens ?? inner.max_new_tokens;
  return wholeNumber(limit) || undefined;
}

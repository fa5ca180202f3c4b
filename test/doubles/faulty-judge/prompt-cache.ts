/** The prompt cache of a model on Bedrock. */
import { tokensOf } from '../../../local/stand-in-judge/answer.ts';
import { type ConverseBody, inputText, type ModelCall } from '../../../local/stand-in-judge/converse.ts';
import { cacheMinimum } from '../../../src/judge/pricing/request-tokens.ts';

/** Prompt prefixes seen before a cache point, with the time of their last use. */
export type PrefixCache = Map<string, number>;

/** The minimum of models that are not listed. */
const MIN_CACHED_TOKENS = 1024;
/** Bedrock keeps a prefix for five minutes. */
const CACHE_MS = 5 * 60 * 1000;

function cacheUsage(
  body: ConverseBody,
  modelId: string,
  cache: PrefixCache,
  now: number,
): { read: number; write: number } {
  const point = body.system?.findIndex((block) => block.cachePoint) ?? -1;
  if (point < 0) return { read: 0, write: 0 };
  const prefix = JSON.stringify([modelId, body.toolConfig, body.outputConfig, body.system?.slice(0, point)]);
  const tokens = tokensOf(inputText({ ...body, system: body.system?.slice(0, point), messages: [] }));
  if (tokens < (cacheMinimum(modelId) ?? MIN_CACHED_TOKENS)) return { read: 0, write: 0 };
  const seen = cache.get(prefix);
  cache.set(prefix, now);
  return seen !== undefined && now - seen < CACHE_MS ? { read: tokens, write: 0 } : { read: 0, write: tokens };
}

/** Returns the answer to a call with the tokens that were read from the cache, or written to it, counted apart. */
export function countCached(
  { answer, ...call }: ModelCall,
  body: ConverseBody,
  modelId: string,
  cache: PrefixCache,
  now: number,
): ModelCall {
  const { read, write } = cacheUsage(body, modelId, cache, now);
  if (read + write === 0) return { ...call, answer };
  const reply = JSON.parse(answer.body) as { usage: { inputTokens: number } };
  const { inputTokens } = reply.usage;
  const usage = {
    ...reply.usage,
    inputTokens: inputTokens - Math.min(inputTokens, read + write),
    ...{ cacheReadInputTokens: read, cacheWriteInputTokens: write },
  };
  return { ...call, answer: { ...answer, body: JSON.stringify({ ...reply, usage }) } };
}

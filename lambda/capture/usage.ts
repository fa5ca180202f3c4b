/** Token counts from the places where servers put them. Nothing is estimated: what is not said stays unknown. */
import { asCount, isObject, type JsonObject } from './json.ts';
import type { TokenUsage } from './types.ts';

type Path = readonly string[];

const INPUT: readonly Path[] = [
  ['usage', 'prompt_tokens'],
  ['usage', 'input_tokens'],
  ['usage', 'inputTokens'],
  ['usage', 'promptTokens'],
  ['usage', 'tokens', 'input_tokens'],
  ['usageMetadata', 'promptTokenCount'],
  ['meta', 'tokens', 'input_tokens'],
  ['meta', 'billed_units', 'input_tokens'],
  ['details', 'input_tokens'],
  ['details', 'prompt_tokens'],
  ['prompt_token_count'],
  ['inputTextTokenCount'],
  ['prompt_eval_count'],
  ['tokens_evaluated'],
  ['meta_info', 'prompt_tokens'],
  ['headers', 'x-prompt-tokens'],
  ['x-prompt-tokens'],
];
const OUTPUT: readonly Path[] = [
  ['usage', 'completion_tokens'],
  ['usage', 'output_tokens'],
  ['usage', 'outputTokens'],
  ['usage', 'completionTokens'],
  ['usage', 'tokens', 'output_tokens'],
  ['usageMetadata', 'candidatesTokenCount'],
  ['meta', 'tokens', 'output_tokens'],
  ['meta', 'billed_units', 'output_tokens'],
  ['details', 'generated_tokens'],
  ['generation_token_count'],
  ['eval_count'],
  ['tokens_predicted'],
  ['meta_info', 'completion_tokens'],
  ['headers', 'x-generated-tokens'],
  ['x-generated-tokens'],
];
const TOTAL: readonly Path[] = [
  ['usage', 'total_tokens'],
  ['usage', 'totalTokens'],
  ['usageMetadata', 'totalTokenCount'],
  ['headers', 'x-total-tokens'],
  ['x-total-tokens'],
];
const CACHED: readonly Path[] = [
  ['usage', 'prompt_tokens_details', 'cached_tokens'],
  ['usage', 'input_tokens_details', 'cached_tokens'],
  ['usage', 'cache_read_input_tokens'],
  ['usage', 'cacheReadInputTokens'],
  ['usage', 'cached_tokens'],
  ['meta_info', 'cached_tokens'],
  ['usageMetadata', 'cachedContentTokenCount'],
];

const REASONING: readonly Path[] = [
  ['usage', 'completion_tokens_details', 'reasoning_tokens'],
  ['usage', 'output_tokens_details', 'reasoning_tokens'],
  ['usage', 'reasoning_tokens'],
  ['usageMetadata', 'thoughtsTokenCount'],
];

/** Names are compared without regard to case, `_` and `-`: headers come in many spellings. */
function step(value: unknown, name: string): unknown {
  if (!isObject(value)) return undefined;
  if (Object.hasOwn(value, name)) return value[name];
  if (!name.includes('-')) return undefined;
  const plain = (text: string): string => text.toLowerCase().replaceAll('_', '-');
  const found = Object.keys(value).find((key) => plain(key) === name);
  return found === undefined ? undefined : value[found];
}

function firstCount(body: JsonObject, paths: readonly Path[]): number | undefined {
  for (const path of paths) {
    const count = asCount(path.reduce<unknown>(step, body));
    if (count !== undefined) return count;
  }
  return undefined;
}

/** Sum of what the items say, when all of them say it. */
function sumOf(counts: (number | undefined)[]): number | undefined {
  if (counts.length === 0) return undefined;
  return counts.every((count) => count !== undefined) ? counts.reduce((sum, count) => sum + count, 0) : undefined;
}

/** TGI counts the prompt only by listing its tokens. */
function prefillOf(body: JsonObject): number | undefined {
  const prefill = isObject(body.details) ? body.details.prefill : undefined;
  return Array.isArray(prefill) && prefill.length > 0 ? prefill.length : undefined;
}

/** Titan counts per result. */
const resultTokens = (body: JsonObject): number | undefined =>
  Array.isArray(body.results)
    ? sumOf(body.results.map((result) => (isObject(result) ? asCount(result.tokenCount) : undefined)))
    : undefined;

/** @param value of the reply; for a list, the items' counts are added up. */
export function usageOf(value: unknown): TokenUsage | undefined {
  const items = (Array.isArray(value) ? value.flat(1) : [value]).filter(isObject);
  const count = (paths: readonly Path[], other?: (body: JsonObject) => number | undefined): number | undefined =>
    sumOf(items.map((body) => firstCount(body, paths) ?? other?.(body)));
  const inputTokens = count(INPUT, prefillOf);
  const outputTokens = count(OUTPUT, resultTokens);
  const cachedInputTokens = count(CACHED);
  const reasoningTokens = count(REASONING);
  const isSum = inputTokens !== undefined && outputTokens !== undefined;
  const totalTokens = count(TOTAL) ?? (isSum ? inputTokens + outputTokens : undefined);
  const usage: TokenUsage = {
    ...(inputTokens === undefined ? {} : { inputTokens }),
    ...(outputTokens === undefined ? {} : { outputTokens }),
    ...(totalTokens === undefined ? {} : { totalTokens }),
    ...(cachedInputTokens === undefined ? {} : { cachedInputTokens }),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
  return Object.keys(usage).length > 0 ? usage : undefined;
}

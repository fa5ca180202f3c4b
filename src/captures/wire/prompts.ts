/** Reads prompts without roles, and the parameters around them, as several servers accept them. */
import { isObject, type JsonObject } from '../json.ts';
import type { ChatMessage } from '../types.ts';
import { fieldsOf, without } from './values.ts';

/** Whether the request asks for JSON, in the form of OpenAI, vLLM, TGI, SGLang, NIM, Ollama, llama.cpp or Anthropic. */
export function asksForJson(request: JsonObject): boolean {
  const { response_format: format, output_format: ofClaude, format: ofOllama } = request;
  const types = [format, ofClaude, fieldsOf(request.output_config).format].map((given) => fieldsOf(given).type);
  if (types.some((type) => ['json_object', 'json_schema', 'json'].includes(type as string))) return true;
  if (ofOllama === 'json' || (isObject(ofOllama) && ('properties' in ofOllama || ofOllama.type === 'object')))
    return true;
  const { json, json_object: anyJson } = fieldsOf(request.structured_outputs);
  const { json_schema: schema } = fieldsOf(request.sampling_params);
  if (
    [request.guided_json, fieldsOf(request.nvext).guided_json, request.json_schema, json, schema].some(
      (given) => given != null,
    )
  )
    return true;
  return anyJson === true || fieldsOf(request.grammar).type === 'json';
}

/** Returns the text of one completion prompt. Token ids have no text and are counted. */
function promptText(prompt: unknown): string | undefined {
  if (typeof prompt === 'string') return prompt;
  const isTokens = Array.isArray(prompt) && prompt.length > 0 && prompt.every((item) => typeof item === 'number');
  return isTokens ? `[${prompt.length} token ids]` : undefined;
}

/** Returns one prompt, or the prompts of a batch. */
export function promptsOf(prompt: unknown): string[] | undefined {
  const single = promptText(prompt);
  if (single !== undefined) return [single];
  if (!Array.isArray(prompt) || prompt.length === 0) return undefined;
  const texts = prompt.map(promptText);
  return texts.every((text): text is string => text !== undefined) ? texts : undefined;
}

export const userMessages = (prompts: readonly string[]): ChatMessage[] =>
  prompts.map((content) => ({ role: 'user', content }));

export const batchOf = (prompts: string[]): { batch?: string[] } => (prompts.length > 1 ? { batch: prompts } : {});

/** Merges `{parameters: {…}, stream: true}` to one level. */
export const flattened = (value: JsonObject): JsonObject =>
  isObject(value.parameters) ? { ...without(value, 'parameters'), ...value.parameters } : value;

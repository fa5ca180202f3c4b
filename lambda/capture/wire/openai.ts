/** OpenAI's chat completions and completions, as vLLM, LMI, TGI and SGLang serve them too. */
import { isObject, type JsonObject } from '../json.ts';
import type { ChatMessage } from '../types.ts';
import { allMessages, chatMessages, fieldsOf, objectsIn, textIn, textsOf, without } from './messages.ts';
import type { Prompt, Reply, WireFormat } from './types.ts';

/** Whether the request asks for JSON, in the words of OpenAI, vLLM or TGI. */
export function asksForJson(request: JsonObject): boolean {
  const { response_format: format } = request;
  if (isObject(format) && (format.type === 'json_object' || format.type === 'json_schema' || format.type === 'json')) {
    return true;
  }
  if (request.guided_json !== undefined && request.guided_json !== null) return true;
  return isObject(request.grammar) && request.grammar.type === 'json';
}

export const openAiChat: WireFormat = {
  name: 'openai-chat',
  request(value) {
    if (!isObject(value) || !Array.isArray(value.messages)) return undefined;
    return {
      wire: 'openai-chat',
      format: 'chat',
      messages: allMessages(value.messages),
      ...toolsOf(value),
      parameters: without(value, 'messages', 'tools', 'functions', 'model'),
      jsonRequested: asksForJson(value),
    };
  },
  reply(value) {
    const choices = choicesOf(value, (choice) => isObject(choice.message));
    if (choices === undefined) return undefined;
    return {
      wire: 'openai-chat',
      format: 'chat',
      replies: choices.flatMap((choice) => chatMessages(choice.message, 'assistant')),
      finishReasons: textsOf(choices.map((choice) => choice.finish_reason)),
    };
  },
  delta(event) {
    const deltas = objectsIn(event.choices).flatMap(({ delta }) => (isObject(delta) ? [delta] : []));
    if (deltas.length === 0) return undefined;
    const calls = deltas.flatMap(({ tool_calls: calls, function_call: call }) => [
      ...objectsIn(calls),
      { function: call },
    ]);
    return {
      output: textIn(...deltas.map((delta) => delta.content)),
      reasoning: textIn(...deltas.map((delta) => delta.reasoning_content ?? delta.reasoning)),
      calls: calls.some((call) => textIn(fieldsOf(call.function).name, fieldsOf(call.function).arguments) !== ''),
    };
  },
};

/** `tools`, or the `functions` that they were called before. */
function toolsOf({ tools, functions }: JsonObject): { tools?: unknown[] } {
  if (Array.isArray(tools) && tools.length > 0) return { tools };
  if (!Array.isArray(functions) || functions.length === 0) return {};
  return { tools: functions.map((spec) => ({ type: 'function', function: spec })) };
}

/** Choices in the order of their index, when there are any and all are of the kind asked for. */
function choicesOf(value: unknown, isOurs: (choice: JsonObject) => boolean): JsonObject[] | undefined {
  if (!isObject(value) || !Array.isArray(value.choices) || value.choices.length === 0) return undefined;
  const choices = value.choices.filter(isObject);
  if (choices.length < value.choices.length || !choices.every(isOurs)) return undefined;
  const position = (choice: JsonObject): number => (typeof choice.index === 'number' ? choice.index : 0);
  return choices.toSorted((a, b) => position(a) - position(b));
}

/** Text of one completion prompt; token ids have none, and are only counted. */
function promptText(prompt: unknown): string | undefined {
  if (typeof prompt === 'string') return prompt;
  const isTokens = Array.isArray(prompt) && prompt.length > 0 && prompt.every((item) => typeof item === 'number');
  return isTokens ? `[${prompt.length} token ids]` : undefined;
}

/** One prompt, or the prompts of a batch. */
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

export const openAiCompletion: WireFormat = {
  name: 'openai-completion',
  request(value): Prompt | undefined {
    if (!isObject(value)) return undefined;
    const prompts = promptsOf(value.prompt);
    if (prompts === undefined) return undefined;
    return {
      wire: 'openai-completion',
      format: 'completion',
      messages: userMessages(prompts),
      parameters: without(value, 'prompt', 'model'),
      jsonRequested: asksForJson(value),
      ...batchOf(prompts),
    };
  },
  reply(value): Reply | undefined {
    const choices = choicesOf(value, (choice) => typeof choice.text === 'string');
    if (choices === undefined) return undefined;
    return {
      wire: 'openai-completion',
      format: 'completion',
      replies: choices.map((choice) => ({ role: 'assistant', content: choice.text as string })),
      finishReasons: textsOf(choices.map((choice) => choice.finish_reason)),
    };
  },
  delta(event) {
    const texts = textsOf(objectsIn(event.choices).map((choice) => choice.text));
    return texts.length === 0 ? undefined : { output: texts.join(''), reasoning: '', calls: false };
  },
};

/** `{parameters: {…}, stream: true}` as one level. */
export const flattened = (value: JsonObject): JsonObject =>
  isObject(value.parameters) ? { ...without(value, 'parameters'), ...value.parameters } : value;

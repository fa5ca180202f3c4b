/** OpenAI's chat completions, as vLLM, LMI, TGI and SGLang serve them too. */
import { isObject, type JsonObject } from '../json.ts';
import { allMessages, chatMessages, fieldsOf, joined, objectsIn, textIn, without } from './messages.ts';
import { asksForJson } from './prompts.ts';
import type { Assembly, WireFormat } from './types.ts';

export const openAiChat: WireFormat = {
  name: 'openai-chat',
  format: 'chat',
  request(body) {
    if (!Array.isArray(body.messages)) return undefined;
    return {
      messages: allMessages(body.messages),
      ...toolsOf(body),
      parameters: without(body, 'messages', 'tools', 'functions', 'model'),
      jsonRequested: asksForJson(body),
    };
  },
  reply(body) {
    const choices = choicesOf(body, (choice) => isObject(choice.message));
    return (
      choices && {
        replies: choices.flatMap((choice) => chatMessages(choice.message, 'assistant')),
        reasons: choices.map((choice) => choice.finish_reason),
      }
    );
  },
  delta(event) {
    const deltas = objectsIn(event.choices).flatMap(({ delta }) => (isObject(delta) ? [delta] : []));
    if (deltas.length === 0) return undefined;
    return {
      output: textIn(...deltas.map((delta) => delta.content)),
      reasoning: textIn(...deltas.map((delta) => delta.reasoning_content ?? delta.reasoning)),
      calls: deltas.flatMap(callsOf).some(({ function: call }) => {
        const { name, arguments: input } = fieldsOf(call);
        return textIn(name, input) !== '';
      }),
    };
  },
  assemble(events) {
    if (!events.some((event) => objectsIn(event.choices).some((choice) => isObject(choice.delta)))) return undefined;
    return assembleChoices(
      'chat.completion',
      events,
      (): ChatChoice => ({ message: {}, tools: new Map() }),
      addDelta,
      messageOf,
    );
  },
  usage: {
    inputTokens: ['usage.prompt_tokens'],
    outputTokens: ['usage.completion_tokens'],
    totalTokens: ['usage.total_tokens'],
    cachedInputTokens: ['usage.prompt_tokens_details.cached_tokens', 'usage.cached_tokens'],
    reasoningTokens: ['usage.completion_tokens_details.reasoning_tokens', 'usage.reasoning_tokens'],
  },
};

/** `tools`, or the `functions` that they were called before. */
function toolsOf({ tools, functions }: JsonObject): { tools?: unknown[] } {
  if (Array.isArray(tools) && tools.length > 0) return { tools };
  if (!Array.isArray(functions) || functions.length === 0) return {};
  return { tools: functions.map((spec) => ({ type: 'function', function: spec })) };
}

/** Choices in the order of their index, when there are any and all are of the kind asked for. */
export function choicesOf(body: JsonObject, isOurs: (choice: JsonObject) => boolean): JsonObject[] | undefined {
  const choices = objectsIn(body.choices);
  if (choices.length === 0 || choices.length < (body.choices as unknown[]).length || !choices.every(isOurs))
    return undefined;
  return choices.toSorted((a, b) => indexOf(a) - indexOf(b));
}

const indexOf = (item: JsonObject, fallback = 0): number => (typeof item.index === 'number' ? item.index : fallback);
const byIndex = <T>(map: Map<number, T>): [number, T][] => [...map].sort(([a], [b]) => a - b);

/** What chunks share: the last value of each wins, as usage comes with the last chunk. */
const COMMON_FIELDS = ['id', 'created', 'model', 'system_fingerprint', 'service_tier', 'usage'];

/**
 * @param begin what a choice begins as.
 * @param add puts the choice's part of one event to it.
 * @param finish makes the choice's content, as it is unstreamed.
 */
export function assembleChoices<T>(
  object: string,
  events: JsonObject[],
  begin: () => T,
  add: (choice: T, item: JsonObject) => void,
  finish: (choice: T) => JsonObject,
): Assembly {
  const common: JsonObject = {};
  const choices = new Map<number, { content: T; reason: unknown }>();
  for (const event of events) {
    for (const name of COMMON_FIELDS) common[name] = event[name] ?? common[name];
    for (const item of objectsIn(event.choices)) {
      const choice = choices.get(indexOf(item)) ?? { content: begin(), reason: null };
      choices.set(indexOf(item), choice);
      add(choice.content, item);
      choice.reason = item.finish_reason ?? choice.reason;
    }
  }
  const assembled = byIndex(choices).map(([index, { content, reason }]) => ({
    index,
    ...finish(content),
    finish_reason: reason,
  }));
  const said = Object.fromEntries(Object.entries(common).filter(([, value]) => value !== undefined));
  return {
    value: { object, ...said, choices: assembled },
    ended: assembled.every((choice) => choice.finish_reason !== null),
  };
}

interface ChatChoice {
  message: JsonObject;
  tools: Map<number, { id?: string; name: string; arguments: string }>;
}

/** Fields of a delta whose pieces are strung together. */
const TEXT_FIELDS = ['content', 'reasoning_content', 'reasoning', 'refusal'];

/** Pieces of calls; the older form has a single one. */
const callsOf = ({ tool_calls: calls, function_call: call }: JsonObject): JsonObject[] => [
  ...objectsIn(calls),
  ...(isObject(call) ? [{ index: 0, function: call }] : []),
];

function addDelta({ message, tools }: ChatChoice, item: JsonObject): void {
  const delta = fieldsOf(item.delta);
  if (typeof delta.role === 'string' && delta.role !== '') message.role = delta.role;
  for (const name of TEXT_FIELDS) {
    if (typeof delta[name] === 'string') message[name] = joined(message[name], delta[name]);
  }
  for (const [position, call] of callsOf(delta).entries()) {
    const index = indexOf(call, position);
    const tool = tools.get(index) ?? { name: '', arguments: '' };
    tools.set(index, tool);
    if (typeof call.id === 'string' && call.id !== '') tool.id = call.id;
    const { name, arguments: input } = fieldsOf(call.function);
    tool.name += textIn(name);
    tool.arguments += textIn(input);
  }
}

function messageOf({ message, tools }: ChatChoice): JsonObject {
  const calls = byIndex(tools).map(([, { id, ...call }], position) => ({
    id: id ?? `call_${position}`,
    type: 'function',
    function: call,
  }));
  const whole = { role: 'assistant', content: null, ...message };
  return { message: calls.length > 0 ? { ...whole, tool_calls: calls } : whole };
}

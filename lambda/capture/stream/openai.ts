/** OpenAI's chunks: chat deltas and completion texts. */
import { isObject, type JsonObject } from '../json.ts';
import type { Assembly } from './assemble.ts';

const indexOf = (item: JsonObject, fallback = 0): number => (typeof item.index === 'number' ? item.index : fallback);
const choicesOf = (event: JsonObject): JsonObject[] =>
  Array.isArray(event.choices) ? event.choices.filter(isObject) : [];
const byIndex = <T>(map: Map<number, T>): T[] => [...map].sort(([a], [b]) => a - b).map(([, item]) => item);

/** What the chunks share: the last value of each wins, as usage comes with the last chunk. */
function commonFields(events: JsonObject[]): JsonObject {
  const common: JsonObject = {};
  for (const event of events) {
    for (const name of ['id', 'created', 'model', 'system_fingerprint', 'service_tier', 'usage'] as const) {
      if (event[name] !== undefined && event[name] !== null) common[name] = event[name];
    }
  }
  return common;
}

interface ChatChoice {
  message: JsonObject;
  tools: Map<number, { id?: string; name: string; arguments: string }>;
  finishReason: unknown;
}

/** Fields of a delta whose pieces are strung together. */
const TEXT_FIELDS = ['content', 'reasoning_content', 'reasoning', 'refusal'] as const;

function addDelta(choice: ChatChoice, delta: JsonObject): void {
  for (const [name, value] of Object.entries(delta)) {
    if (value === null || value === undefined || name === 'tool_calls' || name === 'function_call') continue;
    if ((TEXT_FIELDS as readonly string[]).includes(name) && typeof value === 'string') {
      choice.message[name] = `${(choice.message[name] as string | undefined) ?? ''}${value}`;
    } else if (name === 'role' && typeof value === 'string') choice.message.role = value === '' ? 'assistant' : value;
  }
  const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls.filter(isObject) : [];
  // The older form of a single call.
  if (isObject(delta.function_call)) calls.push({ index: 0, function: delta.function_call });
  for (const [position, call] of calls.entries()) {
    const index = indexOf(call, position);
    const tool = choice.tools.get(index) ?? { name: '', arguments: '' };
    choice.tools.set(index, tool);
    if (typeof call.id === 'string' && call.id !== '') tool.id = call.id;
    if (!isObject(call.function)) continue;
    if (typeof call.function.name === 'string') tool.name += call.function.name;
    if (typeof call.function.arguments === 'string') tool.arguments += call.function.arguments;
  }
}

export function assembleChat(events: JsonObject[]): Assembly | undefined {
  if (!events.some((event) => choicesOf(event).some((choice) => isObject(choice.delta)))) return undefined;
  const choices = new Map<number, ChatChoice>();
  for (const event of events) {
    for (const item of choicesOf(event)) {
      const choice = choices.get(indexOf(item)) ?? {
        message: { role: 'assistant' },
        tools: new Map(),
        finishReason: null,
      };
      choices.set(indexOf(item), choice);
      if (isObject(item.delta)) addDelta(choice, item.delta);
      if (item.finish_reason !== null && item.finish_reason !== undefined) choice.finishReason = item.finish_reason;
    }
  }
  const assembled = [...choices]
    .sort(([a], [b]) => a - b)
    .map(([index, choice]) => {
      const calls = byIndex(choice.tools).map((tool, position) => ({
        id: tool.id ?? `call_${position}`,
        type: 'function',
        function: { name: tool.name, arguments: tool.arguments },
      }));
      const message: JsonObject = {
        content: null,
        ...choice.message,
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
      };
      return { index, message, finish_reason: choice.finishReason };
    });
  return {
    value: { object: 'chat.completion', ...commonFields(events), choices: assembled },
    ended: assembled.every((choice) => choice.finish_reason !== null),
  };
}

export function assembleCompletion(events: JsonObject[]): Assembly | undefined {
  if (!events.some((event) => choicesOf(event).some((choice) => typeof choice.text === 'string'))) return undefined;
  const choices = new Map<number, { index: number; text: string; finish_reason: unknown }>();
  for (const event of events) {
    for (const item of choicesOf(event)) {
      const index = indexOf(item);
      const choice = choices.get(index) ?? { index, text: '', finish_reason: null };
      choices.set(index, choice);
      if (typeof item.text === 'string') choice.text += item.text;
      if (item.finish_reason !== null && item.finish_reason !== undefined) choice.finish_reason = item.finish_reason;
    }
  }
  const assembled = byIndex(choices);
  return {
    value: { object: 'text_completion', ...commonFields(events), choices: assembled },
    ended: assembled.every((choice) => choice.finish_reason !== null),
  };
}

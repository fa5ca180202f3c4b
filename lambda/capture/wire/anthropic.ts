/** Anthropic's messages, and its older text completions. */
import { isObject, type JsonObject } from '../json.ts';
import type { ChatMessage } from '../types.ts';
import {
  allMessages,
  chatMessages,
  fieldsOf,
  openAiTools,
  replyMessages,
  textIn,
  textsOf,
  without,
} from './messages.ts';
import type { WireFormat } from './types.ts';

export const STREAM_EVENT = /^(?:message_(?:start|delta|stop)|content_block_(?:start|delta|stop))$/;

/** Kinds of content block that no other vendor has. */
const BLOCKS = new Set(['tool_use', 'tool_result', 'thinking', 'redacted_thinking', 'image', 'document']);

const contentOf = (message: unknown): JsonObject[] =>
  isObject(message) && Array.isArray(message.content) ? message.content.filter(isObject) : [];

export const systemMessages = (system: unknown): ChatMessage[] => {
  if (typeof system === 'string') return system === '' ? [] : [{ role: 'system', content: system }];
  return Array.isArray(system) && system.length > 0 ? chatMessages({ role: 'system', content: system }, 'system') : [];
};

export const anthropic: WireFormat = {
  name: 'anthropic-messages',
  recognises(value) {
    if (!isObject(value) || !Array.isArray(value.messages)) return false;
    if ('anthropic_version' in value || typeof value.system === 'string') return true;
    if (Array.isArray(value.tools) && value.tools.some((tool) => isObject(tool) && 'input_schema' in tool)) return true;
    return value.messages.some((message) =>
      contentOf(message).some((block) => typeof block.type === 'string' && BLOCKS.has(block.type)),
    );
  },
  request(value) {
    if (!isObject(value) || !Array.isArray(value.messages)) return undefined;
    const tools = openAiTools(value.tools);
    return {
      wire: 'anthropic-messages',
      format: 'messages',
      messages: [...systemMessages(value.system), ...allMessages(value.messages)],
      ...(tools === undefined ? {} : { tools }),
      parameters: without(value, 'messages', 'system', 'tools', 'model'),
      jsonRequested: false,
    };
  },
  reply(value) {
    if (!isObject(value) || !Array.isArray(value.content)) return undefined;
    const isMessage = value.type === 'message' || 'stop_reason' in value;
    const isBlocks = value.content.every((block) => isObject(block) && typeof block.type === 'string');
    if (!isBlocks || (!isMessage && !(value.role === 'assistant' && value.content.length > 0))) return undefined;
    return {
      wire: 'anthropic-messages',
      format: 'messages',
      replies: replyMessages(value.role, value.content),
      finishReasons: textsOf([value.stop_reason]),
    };
  },
  delta(event) {
    if (typeof event.type !== 'string' || !STREAM_EVENT.test(event.type)) return undefined;
    // What a block begins with, or more of it.
    const piece = fieldsOf(event.content_block ?? event.delta);
    return {
      output: textIn(piece.text),
      reasoning: textIn(piece.thinking),
      calls: textIn(piece.name, piece.partial_json) !== '',
    };
  },
};

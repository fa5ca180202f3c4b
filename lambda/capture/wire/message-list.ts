import { isObject } from '../json.ts';
import { allMessages, isMessageList, without } from './messages.ts';
import { asksForJson, flattened } from './openai.ts';
import type { WireFormat } from './types.ts';

/** A bare list of messages, or one under `inputs` or `input`: what JumpStart's and LMI's chat models take. */
export const messageList: WireFormat = {
  name: 'message-list',
  request(value) {
    const body = isObject(value) ? (value.inputs ?? value.input) : value;
    const list = isObject(body) && Array.isArray(body.messages) ? body.messages : unwrapped(body);
    if (!isMessageList(list)) return undefined;
    const inner = isObject(body) ? without(body, 'messages', 'tools') : {};
    const outer = isObject(value) ? without(value, 'inputs', 'input', 'model') : {};
    const parameters = { ...inner, ...flattened(outer) };
    return {
      wire: 'message-list',
      format: 'text-generation',
      messages: allMessages(list),
      ...(isObject(body) && Array.isArray(body.tools) ? { tools: body.tools } : {}),
      parameters,
      jsonRequested: asksForJson(parameters),
    };
  },
  reply(value) {
    const list = unwrapped(value);
    if (isMessageList(list)) {
      return { wire: 'message-list', format: 'text-generation', replies: allMessages(list), finishReasons: [] };
    }
    // JumpStart's older chat models: [{"generation": {"role": "assistant", "content": …}}]
    const generations = (Array.isArray(value) ? value : [value]).map((item) =>
      isObject(item) ? item.generation : undefined,
    );
    if (generations.length === 0 || !generations.every((item) => isMessageList([item]))) return undefined;
    return { wire: 'message-list', format: 'text-generation', replies: allMessages(generations), finishReasons: [] };
  },
};

/** `[[{role, …}]]` is a batch of one conversation. */
const unwrapped = (value: unknown): unknown =>
  Array.isArray(value) && value.length === 1 && Array.isArray(value[0]) ? value[0] : value;

/** Reads a bare list of messages, or one under `inputs` or `input`, which JumpStart's and LMI's chat models accept. */
import { isObject } from '../../json.ts';
import { allMessages, isMessageList } from '../messages.ts';
import { asksForJson, flattened } from '../prompts.ts';
import type { WireFormat } from '../types.ts';
import { without } from '../values.ts';

export const messageList: WireFormat = {
  name: 'message-list',
  format: 'text-generation',
  request(body, value) {
    const asked = isObject(value) ? (body.inputs ?? body.input) : value;
    const list = isObject(asked) && Array.isArray(asked.messages) ? asked.messages : unwrapped(asked);
    if (!isMessageList(list)) return undefined;
    const inner = isObject(asked) ? without(asked, 'messages', 'tools') : {};
    const parameters = { ...inner, ...flattened(without(body, 'inputs', 'input', 'model')) };
    return {
      messages: allMessages(list),
      ...(isObject(asked) && Array.isArray(asked.tools) ? { tools: asked.tools } : {}),
      parameters,
      jsonRequested: asksForJson(parameters),
    };
  },
  reply(_body, value) {
    const list = unwrapped(value);
    if (isMessageList(list)) return { replies: allMessages(list) };
    // JumpStart's older chat models: [{"generation": {"role": "assistant", "content": …}}]
    const generations = (Array.isArray(value) ? value : [value]).map((item) =>
      isObject(item) ? item.generation : undefined,
    );
    return isMessageList(generations) ? { replies: allMessages(generations) } : undefined;
  },
};

/** Returns the conversation of a batch of one: `[[{role, …}]]`. */
const unwrapped = (value: unknown): unknown =>
  Array.isArray(value) && value.length === 1 && Array.isArray(value[0]) ? value[0] : value;

/** Reads OpenAI's Responses: `input` is a text or a list of items, `output` a list of items. */
import { isObject, type JsonObject } from '../../json.ts';
import type { ChatMessage } from '../../types.ts';
import { assistantMessage, chatMessages, isTextPart, userMessages } from '../messages.ts';
import { fieldsOf, joined, objectsIn, textIn, textsOf, type WireFormat, without } from '../wire-format.ts';

const isOurs = ({ type }: JsonObject): boolean => typeof type === 'string' && type.startsWith('response.');
const LAST_EVENT = /^response\.(?:completed|incomplete|failed)$/;
const TEXT_EVENTS = ['response.output_text.delta', 'response.refusal.delta'];
const CALL_EVENTS = ['response.function_call_arguments.delta', 'response.custom_tool_call_input.delta'];
const REASONING_EVENT = /^response\.reasoning(?:_summary)?_text\.delta$/;

export const openAiResponses: WireFormat = {
  name: 'openai-responses',
  format: 'chat',
  request(body) {
    const { input } = body;
    const isItems =
      Array.isArray(input) &&
      input.length > 0 &&
      input.every((item) => isObject(item) && ('role' in item || 'type' in item));
    // Requests for embeddings also have a text, or a list of texts, as `input`.
    const isResponses =
      isItems || (typeof input === 'string' && ('instructions' in body || 'max_output_tokens' in body));
    if (!isResponses) return undefined;
    const tools = Array.isArray(body.tools) ? body.tools.map(flatTool) : [];
    return {
      messages: typeof input === 'string' ? userMessages([input]) : (input as unknown[]).flatMap(itemMessages),
      ...(tools.length > 0 ? { tools } : {}),
      parameters: without(body, 'input', 'tools', 'model'),
    };
  },
  reply({ object, output, status, incomplete_details: details }) {
    if (!Array.isArray(output)) return undefined;
    const isItem = (item: unknown): boolean => isObject(item) && typeof item.type === 'string' && item.type !== 'ai';
    if (object !== 'response' && !(output.length > 0 && output.every(isItem))) return undefined;
    const messages = output.flatMap(itemMessages);
    // All items are one turn of the assistant, which the page shows as one reply.
    const calls = messages.flatMap((message) => message.tool_calls ?? []);
    const texts = textsOf(messages.map((message) => message.content)).filter((text) => text !== '');
    const reasoning = textsOf(messages.map((message) => message.reasoning)).join('\n\n');
    const content = texts.length > 0 || calls.length === 0 ? texts.join('\n\n') : null;
    return {
      replies: [assistantMessage(content, reasoning, calls)],
      reasons: [fieldsOf(details).reason ?? status],
    };
  },
  error({ object, status, error }) {
    if (object !== 'response' || status !== 'failed' || !isObject(error)) return undefined;
    return { message: error, type: textIn(error.code) || undefined };
  },
  repeats: ['response', 'item'],
  assemble(events) {
    const ours = events.filter(isOurs);
    return ours.length === 0 ? undefined : assembleResponse(ours);
  },
};

/** Assembles a response. The last event contains the whole response, unless the stream was cut off earlier. */
function assembleResponse(events: JsonObject[]) {
  const final = events.findLast(({ type, response }) => LAST_EVENT.test(type as string) && isObject(response));
  const whole = fieldsOf(final?.response);
  // Some servers leave the output out of the last event.
  if (final !== undefined && (whole.status === 'failed' || objectsIn(whole.output).length > 0))
    return { value: whole, ended: true };
  const begun = fieldsOf(events.find((event) => isObject(event.response))?.response);
  const items = events.filter((event) => event.type === 'response.output_item.done').map((event) => event.item);
  const added = new Map<unknown, JsonObject>();
  const pieces = new Map<unknown, { kind: string; text: string }>();
  for (const { type, item_id: id, item, delta } of events) {
    if (type === 'response.output_item.added' && isObject(item)) added.set(item.id, item);
    const isText = TEXT_EVENTS.includes(type as string);
    const kind = isText ? 'text' : REASONING_EVENT.test(type as string) ? 'reasoning' : 'call';
    if (kind !== 'call' || CALL_EVENTS.includes(type as string))
      pieces.set(id, { kind, text: joined(pieces.get(id)?.text, delta) });
  }
  for (const item of items) if (isObject(item)) pieces.delete(item.id);
  const unfinished = [...pieces].map(([id, { kind, text }]) => {
    if (kind === 'call') return { type: 'function_call', ...added.get(id), arguments: text };
    if (kind === 'reasoning') return { type: 'reasoning', summary: [{ text }] };
    return { type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] };
  });
  const value = { ...begun, ...whole, object: 'response', output: [...items, ...unfinished] };
  return { value, ended: final !== undefined };
}

const flatTool = (tool: unknown): unknown =>
  isObject(tool) && tool.type === 'function' && !isObject(tool.function)
    ? { type: 'function', function: without(tool, 'type', 'strict') }
    : tool;

function itemMessages(item: unknown): ChatMessage[] {
  if (!isObject(item)) return [];
  switch (item.type) {
    case 'function_call':
    case 'custom_tool_call': {
      const call = {
        type: 'function',
        id: item.call_id ?? item.id,
        function: { name: item.name, arguments: item.arguments ?? item.input },
      };
      return chatMessages({ role: 'assistant', content: [], tool_calls: [call] }, 'assistant');
    }
    case 'function_call_output':
      return chatMessages(
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: item.call_id, content: item.output }] },
        'user',
      );
    case 'reasoning': {
      // Open models send their full reasoning, not only a summary.
      const thoughts = [item.content, item.summary].map(objectsIn).find((parts) => parts.length > 0) ?? [];
      const reasoning = textsOf(thoughts.map((part) => part.text)).join('\n\n');
      return reasoning === '' ? [] : [{ role: 'assistant', content: '', reasoning }];
    }
    default: {
      if (!('role' in item) && !('content' in item)) return [];
      // Parts named `input_text` and `output_text` are texts in chat messages.
      const content = Array.isArray(item.content) ? item.content.map(chatPart) : item.content;
      const isTexts = Array.isArray(content) && content.every(isTextPart);
      const said = isTexts ? content.map(({ text }) => text).join('\n\n') : content;
      return chatMessages({ role: item.role, content: said }, 'user');
    }
  }
}

const chatPart = (part: unknown): unknown => {
  if (!isObject(part)) return part;
  if (part.type === 'input_text' || part.type === 'output_text') return { type: 'text', text: part.text };
  if (part.type === 'refusal') return { type: 'text', text: textIn(part.refusal) };
  if (part.type === 'input_image' && typeof part.image_url === 'string') {
    return { type: 'image_url', image_url: { url: part.image_url } };
  }
  return part;
};

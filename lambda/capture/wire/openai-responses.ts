import { isObject, type JsonObject } from '../json.ts';
import type { ChatMessage } from '../types.ts';
import { chatMessages, fieldsOf, textIn, textsOf, without } from './messages.ts';
import { userMessages } from './openai.ts';
import type { WireFormat } from './types.ts';

/** OpenAI's Responses: `input` is a text or a list of items, `output` a list of items. */
export const openAiResponses: WireFormat = {
  name: 'openai-responses',
  request(value) {
    if (!isObject(value)) return undefined;
    const { input, instructions } = value;
    const isItems =
      Array.isArray(input) &&
      input.length > 0 &&
      input.every((item) => isObject(item) && ('role' in item || 'type' in item));
    // `input` as text, or a list of texts, is also what embeddings are asked with.
    const isResponses =
      isItems || (typeof input === 'string' && ('instructions' in value || 'max_output_tokens' in value));
    if (!isResponses) return undefined;
    const system = typeof instructions === 'string' ? [{ role: 'system', content: instructions }] : [];
    const messages = typeof input === 'string' ? userMessages([input]) : (input as unknown[]).flatMap(itemMessages);
    const tools = Array.isArray(value.tools) ? value.tools.map(flatTool) : [];
    const format = isObject(value.text) && isObject(value.text.format) ? value.text.format.type : undefined;
    return {
      wire: 'openai-responses',
      format: 'chat',
      messages: [...system, ...messages],
      ...(tools.length > 0 ? { tools } : {}),
      parameters: without(value, 'input', 'instructions', 'tools', 'model'),
      jsonRequested: format === 'json_object' || format === 'json_schema',
    };
  },
  reply(value) {
    if (!isObject(value) || !Array.isArray(value.output)) return undefined;
    const isItem = (item: unknown): item is JsonObject => isObject(item) && typeof item.type === 'string';
    if (value.object !== 'response' && !(value.output.length > 0 && value.output.every(isItem))) return undefined;
    const messages = value.output.flatMap(itemMessages);
    // One turn of the assistant, however many items it takes: the page shows it as one reply.
    const calls = messages.flatMap((message) => message.tool_calls ?? []);
    const texts = textsOf(messages.map((message) => message.content)).filter((text) => text !== '');
    const reasoning = textsOf(messages.map((message) => message.reasoning));
    const reply: ChatMessage = {
      role: 'assistant',
      content: texts.length > 0 || calls.length === 0 ? texts.join('\n\n') : null,
      ...(reasoning.length > 0 ? { reasoning: reasoning.join('\n\n') } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    };
    return {
      wire: 'openai-responses',
      format: 'chat',
      replies: messages.length === 0 ? [] : [reply],
      finishReasons: textsOf([value.status]),
    };
  },
  delta({ type, delta, item }) {
    if (typeof type !== 'string' || !type.startsWith('response.')) return undefined;
    const isCall =
      type === 'response.function_call_arguments.delta' || type === 'response.custom_tool_call_input.delta';
    return {
      output: type === 'response.output_text.delta' ? textIn(delta) : '',
      reasoning: /^response\.reasoning(?:_summary)?_text\.delta$/.test(type) ? textIn(delta) : '',
      calls:
        (isCall && textIn(delta) !== '') ||
        (type === 'response.output_item.added' && textIn(fieldsOf(item).name) !== ''),
    };
  },
};

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
      const summary = Array.isArray(item.summary) ? item.summary.filter(isObject).map((part) => part.text) : [];
      return [{ role: 'assistant', content: '', reasoning: textsOf(summary).join('\n\n') }].filter(
        (m) => m.reasoning !== '',
      );
    }
    default: {
      if (!('role' in item) && !('content' in item)) return [];
      // The parts are named `input_text` and `output_text`; as chat messages they are texts.
      const content = Array.isArray(item.content) ? item.content.map(chatPart) : item.content;
      return chatMessages({ role: item.role, content: isAllText(content) ? joinTexts(content) : content }, 'user');
    }
  }
}

const chatPart = (part: unknown): unknown => {
  if (!isObject(part)) return part;
  if (part.type === 'input_text' || part.type === 'output_text') return { type: 'text', text: part.text };
  if (part.type === 'input_image' && typeof part.image_url === 'string') {
    return { type: 'image_url', image_url: { url: part.image_url } };
  }
  return part;
};

const isAllText = (content: unknown): content is { text: string }[] =>
  Array.isArray(content) &&
  content.every((part) => isObject(part) && part.type === 'text' && typeof part.text === 'string');

const joinTexts = (parts: { text: string }[]): string => parts.map((part) => part.text).join('\n\n');

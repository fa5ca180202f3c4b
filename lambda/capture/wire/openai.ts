/** OpenAI's chat completions and completions, as vLLM, LMI, TGI and SGLang serve them too. */
import { isObject, type JsonObject } from '../json.ts';
import type { ChatMessage } from '../types.ts';
import { allMessages, chatMessages, isMessageList, textsOf, without } from './messages.ts';
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
      ...(Array.isArray(value.tools) && value.tools.length > 0 ? { tools: value.tools } : {}),
      parameters: without(value, 'messages', 'tools', 'model'),
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
};

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
};

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

/** `{parameters: {…}, stream: true}` as one level. */
export const flattened = (value: JsonObject): JsonObject =>
  isObject(value.parameters) ? { ...without(value, 'parameters'), ...value.parameters } : value;

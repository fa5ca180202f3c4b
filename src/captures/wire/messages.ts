/**
 * Converts messages and prompts of any vendor to the OpenAI form. A message in that form is passed on as the same
 * object.
 */

import { isObject, type JsonObject, toJson } from '../json.ts';
import type { ChatMessage, ToolCall } from '../types.ts';
import roles from './roles.json' with { type: 'json' };
import { allText, fieldsOf, objectsIn, type ReadReply, textIn, textsOf, without } from './wire-format.ts';

/** Vendors' names of roles, and OpenAI's. Other roles are kept. */
const ROLES: Record<string, string> = roles.vendors;

function roleOf(value: unknown, fallback: string): string {
  if (typeof value !== 'string' || value.trim() === '') return fallback;
  const lower = value.trim().toLowerCase();
  return (Object.hasOwn(ROLES, lower) ? ROLES[lower] : undefined) ?? lower;
}

/** Kinds of content part in the OpenAI form. */
const OPENAI_PARTS = new Set(['text', 'image_url', 'input_audio', 'input_text', 'output_text', 'file', 'refusal']);

const argumentsOf = (input: unknown): string => (typeof input === 'string' ? input : (toJson(input ?? {}) ?? '{}'));

const toolCall = (id: unknown, name: unknown, input: unknown): ToolCall => ({
  ...(typeof id === 'string' ? { id } : {}),
  type: 'function',
  function: { name: typeof name === 'string' ? name : '', arguments: argumentsOf(input) },
});

/** Returns the text of a block of thinking: a string, or a list of parts (Mistral). */
export const thinkingIn = ({ thinking }: JsonObject): string =>
  allText([thinking, ...objectsIn(thinking).map((part) => part.text)]);

/** The content of a list of content blocks. */
interface Blocks {
  parts: unknown[];
  calls: ToolCall[];
  results: ChatMessage[];
  reasoning: string[];
}

const mediaOf = (format: unknown, kind: string): string => (typeof format === 'string' ? `${kind}/${format}` : kind);

const dataUrl = (media: string, data: string): string => `data:${media};base64,${data}`;

const imagePart = (url: string): JsonObject => ({ type: 'image_url', image_url: { url } });

function imageOf(block: JsonObject): JsonObject | undefined {
  const source = fieldsOf(block.source);
  if (typeof source.data === 'string') return imagePart(dataUrl(textIn(source.media_type) || 'image', source.data));
  if (typeof source.url === 'string') return imagePart(source.url);
  // Bedrock: {image: {format, source: {bytes}}}; Gemini: {inlineData: {mimeType, data}}.
  const image = fieldsOf(block.image);
  const { bytes } = fieldsOf(image.source);
  if (typeof bytes === 'string') return imagePart(dataUrl(mediaOf(image.format, 'image'), bytes));
  const inline = fieldsOf(block.inlineData ?? block.inline_data);
  if (typeof inline.data !== 'string') return undefined;
  return imagePart(dataUrl(textIn(inline.mimeType ?? inline.mime_type) || 'image', inline.data));
}

/** Returns the text of a tool's result, in any wrapping. */
function resultText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return toJson(content ?? '') ?? '';
  return content
    .map((part) =>
      isObject(part) && typeof part.text === 'string'
        ? part.text
        : (toJson(isObject(part) ? (part.json ?? part) : part) ?? ''),
    )
    .join('\n');
}

const toolResult = (id: unknown, content: unknown): ChatMessage => ({
  role: 'tool',
  ...(typeof id === 'string' ? { tool_call_id: id } : {}),
  content: resultText(content),
});

function addBlock(blocks: Blocks, block: unknown): void {
  if (!isObject(block)) {
    blocks.parts.push({ type: 'text', text: typeof block === 'string' ? block : (toJson(block) ?? '') });
    return;
  }
  const { type } = block;
  // Anthropic, Bedrock, Gemini.
  const call = type === 'tool_use' ? block : (block.toolUse ?? block.functionCall);
  const result = type === 'tool_result' ? block : (block.toolResult ?? block.functionResponse);
  if (isObject(call)) blocks.calls.push(toolCall(call.toolUseId ?? call.id, call.name, call.input ?? call.args));
  else if (isObject(result)) {
    const id = result.toolUseId ?? result.tool_use_id ?? result.id ?? result.name;
    blocks.results.push(toolResult(id, result.content ?? result.response));
  } else if (type === 'thinking' && 'thinking' in block) blocks.reasoning.push(thinkingIn(block));
  else if (isObject(block.reasoningContent)) {
    const { text } = fieldsOf(block.reasoningContent.reasoningText);
    if (typeof text === 'string') blocks.reasoning.push(text);
  } else if (block.thought === true && typeof block.text === 'string') blocks.reasoning.push(block.text);
  else if (typeof type === 'string' && OPENAI_PARTS.has(type)) blocks.parts.push(block);
  else if (typeof block.text === 'string') blocks.parts.push({ type: 'text', text: block.text });
  else blocks.parts.push(imageOf(block) ?? block);
}

export const isTextPart = (part: unknown): part is { type: 'text'; text: string } =>
  isObject(part) && part.type === 'text' && typeof part.text === 'string';

/** Whether a call is in the OpenAI form. It may lack an id. */
export const isToolCall = (call: unknown): call is ToolCall =>
  isObject(call) &&
  isObject(call.function) &&
  typeof call.function.name === 'string' &&
  typeof call.function.arguments === 'string';

/** Whether a message is already in the OpenAI form. */
function isOpenAi(message: JsonObject): boolean {
  const { content } = message;
  if (typeof message.role !== 'string' || message.role !== roleOf(message.role, '')) return false;
  const calls = message.tool_calls ?? [];
  if (!Array.isArray(calls) || !calls.every(isToolCall)) return false;
  if (content === null || typeof content === 'string') return true;
  if (content === undefined) return Array.isArray(message.tool_calls) || isObject(message.function_call);
  return (
    Array.isArray(content) &&
    content.every((part) => isObject(part) && typeof part.type === 'string' && OPENAI_PARTS.has(part.type))
  );
}

/**
 * Converts one vendor message to OpenAI messages. Tool results become separate messages.
 *
 * @param fallbackRole role of a message without one.
 */
export function chatMessages(value: unknown, fallbackRole: string): ChatMessage[] {
  if (!isObject(value)) {
    return [{ role: fallbackRole, content: typeof value === 'string' ? value : (toJson(value) ?? '') }];
  }
  if (isOpenAi(value)) return [value as unknown as ChatMessage];
  const role = roleOf(value.role ?? value.author ?? value.from ?? value.type, fallbackRole);
  const content = value.content ?? value.parts ?? value.text ?? value.message ?? value.value;
  const blocks: Blocks = { parts: [], calls: [], results: [], reasoning: [] };
  if (Array.isArray(content)) for (const block of content) addBlock(blocks, block);
  else if (content !== undefined && content !== null) addBlock(blocks, content);

  const thought = value.reasoning ?? value.reasoning_content;
  if (typeof thought === 'string' && thought !== '') blocks.reasoning.push(thought);

  const messages: ChatMessage[] = [...blocks.results];
  const carried = Object.fromEntries(
    ['name', 'tool_call_id'].flatMap((name) => (typeof value[name] === 'string' ? [[name, value[name]]] : [])),
  );
  const calls = [...blocks.calls, ...toolCalls(value.tool_calls)];
  if (blocks.parts.length > 0 || calls.length > 0 || blocks.reasoning.length > 0 || messages.length === 0) {
    messages.push({
      role,
      ...carried,
      content: contentOf(blocks.parts, calls.length > 0, role),
      ...(blocks.reasoning.length > 0 ? { reasoning: blocks.reasoning.join('\n\n') } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    });
  }
  return messages;
}

/** Joins parts that are all text to one string: without a separator if the model wrote them, else as paragraphs. */
function contentOf(parts: unknown[], hasCalls: boolean, role: string): ChatMessage['content'] {
  if (parts.length === 0) return hasCalls ? null : '';
  if (!parts.every(isTextPart)) return parts;
  return parts.map((part) => part.text).join(role === 'assistant' ? '' : '\n\n');
}

/** Converts a reply's content blocks to OpenAI messages. Texts become one string, although OpenAI allows parts. */
export const replyMessages = (role: unknown, blocks: unknown): ChatMessage[] =>
  chatMessages({ role: roleOf(role, 'assistant'), parts: blocks }, 'assistant');

/** Converts a tool call in OpenAI's form, or in a flat form such as Ollama's (arguments as an object) and Cohere's. */
function anyToolCall(call: unknown): ToolCall {
  if (!isObject(call)) return toolCall(undefined, '', call);
  const inner = isObject(call.function) ? call.function : call;
  return toolCall(call.id, inner.name, inner.arguments ?? inner.parameters ?? inner.input);
}

/** Converts the calls of a list to OpenAI's form. */
export const toolCalls = (value: unknown): ToolCall[] => (Array.isArray(value) ? value.map(anyToolCall) : []);

/** Converts a vendor's list of messages to the OpenAI form. */
export const allMessages = (list: unknown[]): ChatMessage[] => list.flatMap((message) => chatMessages(message, 'user'));

/** Whether a value is a list of messages: objects that each have a role or an author, and content. */
export const isMessageList = (value: unknown): value is JsonObject[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every(
    (item) =>
      isObject(item) &&
      (typeof (item.role ?? item.from) === 'string' || /^(?:human|ai|system)$/.test(String(item.type))) &&
      ['content', 'parts', 'tool_calls', 'message', 'text', 'value', 'function_call'].some((name) => name in item),
  );

/** Converts the tools of Anthropic, Bedrock, Gemini or Cohere to OpenAI's form. */
export function openAiTools(value: unknown): unknown[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  return value.flatMap((tool) => {
    if (!isObject(tool) || isObject(tool.function)) return [tool];
    const declarations = tool.functionDeclarations ?? tool.function_declarations;
    if (Array.isArray(declarations)) return declarations.map(functionTool);
    return isObject(tool.toolSpec) ? [functionTool(tool.toolSpec)] : [functionTool(tool)];
  });
}

function functionTool(spec: unknown): unknown {
  if (!isObject(spec) || typeof spec.name !== 'string') return spec;
  const schema = isObject(spec.inputSchema) ? (spec.inputSchema.json ?? spec.inputSchema) : undefined;
  const parameters = spec.parameters ?? spec.input_schema ?? schema ?? spec.parameter_definitions;
  return {
    type: 'function',
    function: {
      name: spec.name,
      ...(typeof spec.description === 'string' ? { description: spec.description } : {}),
      ...(parameters === undefined ? {} : { parameters }),
    },
  };
}

/** Returns an assistant message, with reasoning and tool calls where there are some. */
export const assistantMessage = (
  content: ChatMessage['content'],
  reasoning: string,
  calls: unknown[],
): ChatMessage => ({
  role: 'assistant',
  content,
  ...(reasoning === '' ? {} : { reasoning }),
  ...(calls.length > 0 ? { tool_calls: calls as ToolCall[] } : {}),
});

/** Returns an assistant message for each of the texts. */
export const assistantMessages = (texts: unknown[]): ChatMessage[] =>
  textsOf(texts).map((content) => ({ role: 'assistant', content }));

/** Converts a system prompt next to the messages: a text, or a list of blocks. */
export const systemMessages = (system: unknown): ChatMessage[] => {
  if (typeof system === 'string') return system === '' ? [] : [{ role: 'system', content: system }];
  return Array.isArray(system) && system.length > 0 ? chatMessages({ role: 'system', content: system }, 'system') : [];
};

/** Reads a list whose items all have a text under `name`, and may have a finish reason under `reason`. */
export function answersIn(list: unknown, name: string, reason: string): ReadReply | undefined {
  const items = objectsIn(list);
  if (items.length === 0 || items.length < (list as unknown[]).length) return undefined;
  if (!items.every((item: JsonObject) => typeof item[name] === 'string')) return undefined;
  return { replies: assistantMessages(items.map((item) => item[name])), reasons: items.map((item) => item[reason]) };
}

// --------------------------------------------------------------------------------------------------------- prompts
// Without roles, and the parameters around them, as several servers accept them.

/** Whether parameters ask for JSON, as those of OpenAI, vLLM, TGI, SGLang, NIM, Ollama, llama.cpp, Anthropic and Gemini do. */
export function asksForJson(request: JsonObject): boolean {
  const { response_format: format, output_format: ofClaude, format: ofOllama } = request;
  const formats = [format, ofClaude, fieldsOf(request.output_config).format, fieldsOf(request.text).format];
  const types = formats.map((given) => fieldsOf(given).type);
  if ((request.responseMimeType ?? request.response_mime_type) === 'application/json') return true;
  if (types.some((type) => ['json_object', 'json_schema', 'json'].includes(type as string))) return true;
  if (ofOllama === 'json' || (isObject(ofOllama) && ('properties' in ofOllama || ofOllama.type === 'object')))
    return true;
  const { json, json_object: anyJson } = fieldsOf(request.structured_outputs);
  const { json_schema: schema } = fieldsOf(request.sampling_params);
  const schemas = [request.guided_json, fieldsOf(request.nvext).guided_json, request.json_schema, json, schema];
  if (schemas.some((given) => given != null)) return true;
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

/** Merges `{parameters: {…}, stream: true}` to one level; MLflow calls them `params`. */
export function flattened(value: JsonObject): JsonObject {
  const inner = value.parameters ?? value.params;
  return isObject(inner) ? { ...without(value, 'parameters', 'params'), ...inner } : value;
}

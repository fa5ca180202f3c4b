/**
 * Converts messages to the form that MLflow's page can render. Its trace view renders a conversation only if every
 * message has one of four roles, parts of three kinds, and tool calls with an id and arguments as text. A single other
 * message makes it show the whole conversation as JSON.
 */
import { isObject, type JsonObject, toJson } from '../json.ts';
import type { ChatMessage, ToolCall } from '../types.ts';
import { isToolCall } from '../wire/messages.ts';
import roles from '../wire/roles.json' with { type: 'json' };

/** Maps the roles of the wire formats to the roles of MLflow's page. */
const PAGE_ROLES: Record<string, string> = roles.page;

const isAbsent = (value: unknown): boolean => value === undefined || value === null;

const isTextPart = (part: JsonObject): boolean =>
  (part.type === 'text' || part.type === 'input_text' || part.type === 'output_text') && typeof part.text === 'string';

const isImagePart = ({ type, image_url: image }: JsonObject): boolean =>
  type === 'image_url' &&
  isObject(image) &&
  typeof image.url === 'string' &&
  (isAbsent(image.detail) || ['auto', 'low', 'high'].includes(image.detail as string));

const isAudioPart = ({ type, input_audio: audio }: JsonObject): boolean =>
  type === 'input_audio' &&
  isObject(audio) &&
  typeof audio.data === 'string' &&
  (isAbsent(audio.format) || audio.format === 'wav' || audio.format === 'mp3');

function viewPart(part: unknown): unknown {
  if (!isObject(part)) return { type: 'text', text: typeof part === 'string' ? part : (toJson(part) ?? '') };
  if (isTextPart(part) || isImagePart(part) || isAudioPart(part)) return part;
  if (part.type === 'image_url') {
    const url = isObject(part.image_url) ? part.image_url.url : part.image_url;
    if (typeof url === 'string') return { type: 'image_url', image_url: { url } };
  }
  const text = part.text ?? part.refusal;
  if (typeof text === 'string') return { type: 'text', text };
  return { type: 'text', text: `[${typeof part.type === 'string' ? part.type : Object.keys(part).join(', ')}]` };
}

const partText = (part: unknown): string => {
  const view = viewPart(part) as JsonObject;
  return typeof view.text === 'string' ? view.text : `[${view.type === 'image_url' ? 'image' : 'audio'}]`;
};

/** Returns the text of a message's content, with a word in brackets for an image or a sound. */
export function contentText(content: ChatMessage['content'] | undefined): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map(partText).join('\n\n') : '';
}

const isViewableCall = (call: unknown): boolean => isToolCall(call) && typeof call.id === 'string' && call.id !== '';

function viewCall(call: unknown, position: number): unknown {
  if (isViewableCall(call)) return call;
  const fields = isObject(call) ? call : {};
  const inner = isObject(fields.function) ? fields.function : fields;
  const given = inner.arguments;
  return {
    id: typeof fields.id === 'string' && fields.id !== '' ? fields.id : `call_${position}`,
    type: 'function',
    function: {
      name: typeof inner.name === 'string' ? inner.name : 'unnamed',
      arguments: typeof given === 'string' ? given : (toJson(given ?? {}) ?? '{}'),
    },
  };
}

/**
 * Returns the message in the form that the page renders; the same object if it needs no change.
 *
 * @param isReply the content of a reply must be a single text
 */
export function viewMessage(message: ChatMessage, isReply: boolean): ChatMessage {
  const view: ChatMessage = { ...message };
  const role = Object.hasOwn(PAGE_ROLES, message.role) ? (PAGE_ROLES[message.role] as string) : undefined;
  if (role !== message.role) {
    view.role = role ?? (isReply ? 'assistant' : 'user');
    if (message.name === undefined) view.name = message.role;
  }
  if (message.content === undefined) view.content = null;
  if (Array.isArray(message.content)) {
    const parts = message.content.map(viewPart);
    if (isReply) view.content = contentText(message.content);
    else if (parts.some((part, index) => part !== message.content?.[index])) view.content = parts;
  } else if (message.content !== undefined && message.content !== null && typeof message.content !== 'string') {
    view.content = toJson(message.content) ?? '';
  }
  // The page shows the model's reasoning from `reasoning`. vLLM and others use another name.
  if (message.reasoning == null && typeof message.reasoning_content === 'string' && message.reasoning_content !== '') {
    view.reasoning = message.reasoning_content;
  }
  const legacy = isObject(message.function_call) ? [{ function: message.function_call }] : undefined;
  const calls = Array.isArray(message.tool_calls) ? (message.tool_calls as unknown[]) : legacy;
  if (calls !== undefined && (calls === legacy || !calls.every(isViewableCall))) {
    view.tool_calls = calls.map(viewCall) as ToolCall[];
  } else if (message.tool_calls != null && calls === undefined) delete view.tool_calls;
  const isSame = Object.keys({ ...message, ...view }).every((name) => view[name] === message[name]);
  return isSame ? message : view;
}

/** Returns the tools that the page can list. A single other tool would make it list no tools. */
export const viewTools = (tools: readonly unknown[] | undefined): unknown[] =>
  (tools ?? []).filter((tool) => {
    if (!isObject(tool) || tool.type !== 'function' || !isObject(tool.function)) return false;
    if (typeof tool.function.name !== 'string') return false;
    const { parameters } = tool.function;
    if (isAbsent(parameters)) return true;
    if (!isObject(parameters)) return false;
    const { required, properties } = parameters;
    const isList = Array.isArray(required) && required.every((name) => typeof name === 'string');
    return (
      (isAbsent(required) || isList) && (!isObject(properties) || Object.values(properties).every(isViewableProperty))
    );
  });

const isViewableProperty = (property: unknown): boolean =>
  isObject(property) &&
  (isAbsent(property.type) || typeof property.type === 'string') &&
  (isAbsent(property.description) || typeof property.description === 'string') &&
  (isAbsent(property.enum) || Array.isArray(property.enum));

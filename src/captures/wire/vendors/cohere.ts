/** Reads Cohere's chat (versions 1 and 2) and generate. */
import { isObject, type JsonObject } from '../../json.ts';
import { answersIn, chatMessages, openAiTools, replyMessages, userMessages } from '../messages.ts';
import { allText, fieldsOf, joined, objectsIn, textIn, type WireFormat, without } from '../wire-format.ts';

/** Events of version 2. */
const STREAM_EVENT = /^(?:message|content|tool-call|citation)-(?:start|delta|end)$|^tool-plan-delta$/;
/** Events of version 1 that belong to a text or to tool calls. */
const OLDER_EVENTS = ['text-generation', 'tool-calls-generation', 'stream-end'];
/** Fields of a version 1 reply next to its `text`. */
const REPLY_NAMES = ['generation_id', 'response_id', 'chat_history', 'is_finished'];

const messageOf = ({ delta }: JsonObject): JsonObject => fieldsOf(fieldsOf(delta).message);

export const cohere: WireFormat = {
  name: 'cohere',
  format: 'messages',
  request(body) {
    if (typeof body.message !== 'string') return undefined;
    return {
      messages: userMessages([body.message]),
      tools: openAiTools(body.tools),
      parameters: without(body, 'message', 'tools', 'model'),
    };
  },
  reply(body) {
    const { message, text } = body;
    if (isObject(message) && typeof message.role === 'string' && !('done' in body)) {
      const hasBlocks = Array.isArray(message.content) && !Array.isArray(message.tool_calls);
      const plan = textIn(message.tool_plan);
      const said = plan === '' ? message : { ...message, reasoning: plan };
      const thoughts = plan === '' ? [] : [{ type: 'thinking', thinking: plan }];
      const blocks = [thoughts, message.content].flat();
      const replies = hasBlocks ? replyMessages('assistant', blocks) : chatMessages(said, 'assistant');
      return { replies, reasons: [body.finish_reason] };
    }
    if (typeof text === 'string' && REPLY_NAMES.some((name) => name in body)) {
      const calls = Array.isArray(body.tool_calls) ? { tool_calls: body.tool_calls } : {};
      const replies = chatMessages({ role: 'assistant', content: [text], ...calls }, 'assistant');
      return { replies, reasons: [body.finish_reason] };
    }
    const generated = answersIn(body.generations, 'text', 'finish_reason');
    return generated && { format: 'completion', ...generated };
  },
  repeats: ['response'],
  assemble(events) {
    if (events.some((event) => OLDER_EVENTS.includes(event.event_type as string))) {
      const end = events.find((event) => event.event_type === 'stream-end');
      const text = allText(events.filter((event) => event.event_type === 'text-generation').map((event) => event.text));
      const calls = events.flatMap((event) => objectsIn(event.tool_calls));
      const value = {
        text,
        is_finished: end !== undefined,
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
        ...(typeof end?.finish_reason === 'string' ? { finish_reason: end.finish_reason } : {}),
        ...fieldsOf(end?.response),
      };
      return { value, ended: end !== undefined };
    }
    if (!events.some(({ type }) => typeof type === 'string' && STREAM_EVENT.test(type))) return undefined;
    const end = events.find((event) => event.type === 'message-end');
    return { value: { message: assembledMessage(events), ...fieldsOf(end?.delta) }, ended: end !== undefined };
  },
};

/** Assembles texts, reasoning and tool calls of version 2. A call begins with its name; pieces of its arguments follow. */
function assembledMessage(events: JsonObject[]): JsonObject {
  const pieces = events.map((event) => fieldsOf(messageOf(event).content));
  const text = allText(pieces.map((piece) => piece.text));
  const thinking = allText(pieces.map((piece) => piece.thinking));
  const calls = new Map<unknown, JsonObject>();
  for (const event of events.filter(({ type }) => type === 'tool-call-start' || type === 'tool-call-delta')) {
    const piece = fieldsOf(messageOf(event).tool_calls);
    const call = event.type === 'tool-call-start' ? { ...piece, function: {} } : calls.get(event.index);
    const begun = fieldsOf(call?.function);
    const { arguments: input, ...named } = fieldsOf(piece.function);
    calls.set(event.index, { ...call, function: { ...begun, ...named, arguments: joined(begun.arguments, input) } });
  }
  const content = [
    ...(thinking === '' ? [] : [{ type: 'thinking', thinking }]),
    ...(text === '' && calls.size > 0 ? [] : [{ type: 'text', text }]),
  ];
  const plan = allText(events.map((event) => messageOf(event).tool_plan));
  const planned = plan === '' ? {} : { tool_plan: plan };
  return { role: 'assistant', ...planned, content, ...(calls.size > 0 ? { tool_calls: [...calls.values()] } : {}) };
}

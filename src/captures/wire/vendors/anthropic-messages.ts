/** Reads Anthropic's messages. */
import { isObject, type JsonObject } from '../../json.ts';
import { StreamedBlocks } from '../content-blocks.ts';
import { allMessages, openAiTools, replyMessages } from '../messages.ts';
import { fieldsOf, joined, objectsIn, type WireFormat, without } from '../wire-format.ts';

/** Kinds of content block that no other vendor has. */
const BLOCKS = new Set(['tool_use', 'tool_result', 'thinking', 'redacted_thinking', 'image', 'document']);

/** The kind of block that a piece belongs to, other than text. */
const BLOCK_OF: Record<string, string> = { input_json_delta: 'tool_use', thinking_delta: 'thinking' };
const STREAM_EVENT = /^(?:message_(?:start|delta|stop)|content_block_(?:start|delta|stop))$/;

const isOurs = (event: JsonObject): boolean => typeof event.type === 'string' && STREAM_EVENT.test(event.type);

export const anthropicMessages: WireFormat = {
  name: 'anthropic-messages',
  format: 'messages',
  recognises(body) {
    if (!Array.isArray(body.messages)) return false;
    if ('anthropic_version' in body || typeof body.system === 'string') return true;
    if (objectsIn(body.tools).some((tool) => 'input_schema' in tool)) return true;
    return objectsIn(body.messages).some(({ content }) =>
      objectsIn(content).some((block) => typeof block.type === 'string' && BLOCKS.has(block.type)),
    );
  },
  request(body) {
    if (!Array.isArray(body.messages)) return undefined;
    return {
      messages: allMessages(body.messages),
      tools: openAiTools(body.tools),
      parameters: without(body, 'messages', 'tools', 'model'),
    };
  },
  reply(body) {
    const { content } = body;
    if (!Array.isArray(content)) return undefined;
    const isMessage = body.type === 'message' || 'stop_reason' in body;
    const isBlocks = content.every((block) => isObject(block) && typeof block.type === 'string');
    if (!isBlocks || (!isMessage && !(body.role === 'assistant' && content.length > 0))) return undefined;
    return { replies: replyMessages(body.role, content), reasons: [body.stop_reason] };
  },
  assemble(events) {
    if (!events.some(isOurs)) return undefined;
    let message: JsonObject = { type: 'message', role: 'assistant' };
    let usage: JsonObject = {};
    const blocks = new StreamedBlocks();
    for (const event of events) {
      const delta = fieldsOf(event.delta);
      // The first event counts the input, a last one the output.
      const counts = event.type === 'message_start' ? fieldsOf(event.message).usage : event.usage;
      if (isObject(counts)) usage = { ...usage, ...counts };
      if (event.type === 'message_start') message = { ...message, ...fieldsOf(event.message) };
      if (event.type === 'message_delta') message = { ...message, ...delta };
      if (event.type === 'content_block_start' && isObject(event.content_block))
        blocks.begin(event.index, event.content_block);
      if (event.type !== 'content_block_delta') continue;
      const block = blocks.at(event.index, { type: BLOCK_OF[delta.type as string] ?? 'text' });
      for (const name of ['text', 'thinking', 'signature']) {
        if (typeof delta[name] === 'string') block[name] = joined(block[name], delta[name]);
      }
      blocks.input(event.index, delta.partial_json);
    }
    const content = blocks.inOrder((block, input) => {
      if (block.type === 'tool_use') block.input = input ?? block.input ?? {};
    });
    const counted = Object.keys(usage).length > 0 ? { usage } : {};
    return { value: { ...message, content, ...counted }, ended: events.some((event) => event.type === 'message_stop') };
  },
};

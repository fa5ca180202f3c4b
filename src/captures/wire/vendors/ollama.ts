/** Reads Ollama's chat and generate. Its streams are JSON Lines. */
import { isObject } from '../../json.ts';
import { assistantMessage, assistantMessages, chatMessages } from '../messages.ts';
import { allText, objectsIn, type WireFormat } from '../wire-format.ts';

export const ollama: WireFormat = {
  name: 'ollama',
  format: 'chat',
  reply({ done, done_reason: reason, message, response, thinking }) {
    if (typeof done !== 'boolean') return undefined;
    if (isObject(message)) {
      const said = message.thinking ? { ...message, ...thoughtsIn(message.thinking) } : message;
      return { replies: chatMessages(said, 'assistant'), reasons: [reason] };
    }
    if (typeof response !== 'string') return undefined;
    const replies = assistantMessages([response]).map((reply) => ({ ...reply, ...thoughtsIn(thinking) }));
    return { format: 'completion', replies, reasons: [reason] };
  },
  assemble(events) {
    if (!events.every((event) => typeof event.done === 'boolean')) return undefined;
    const end = events.findLast((event) => event.done === true);
    const final = end ?? events.at(-1);
    const ended = end !== undefined;
    const messages = events.flatMap(({ message }) => (isObject(message) ? [message] : []));
    if (messages.length > 0) {
      const content = allText(messages.map((message) => message.content));
      const reasoning = allText(messages.map((message) => message.thinking));
      const calls = messages.flatMap((message) => objectsIn(message.tool_calls));
      return { value: { ...final, message: assistantMessage(content, reasoning, calls) }, ended };
    }
    if (!events.some((event) => typeof event.response === 'string')) return undefined;
    const response = allText(events.map((event) => event.response));
    const thinking = allText(events.map((event) => event.thinking));
    return { value: { ...final, response, ...(thinking === '' ? {} : { thinking }) }, ended };
  },
};

const thoughtsIn = (thinking: unknown): { reasoning?: string } =>
  typeof thinking === 'string' && thinking !== '' ? { reasoning: thinking } : {};

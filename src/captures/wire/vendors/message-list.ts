/** Reads a bare list of messages, or one under `inputs` or `input`, as JumpStart, LMI and MLflow accept them, or several chats. */
import { isObject, type JsonObject, toJson } from '../../json.ts';
import type { ChatMessage } from '../../types.ts';
import { allMessages, asksForJson, flattened, isMessageList, userMessages } from '../messages.ts';
import { type ReadPrompt, type WireFormat, without } from '../types.ts';

export const messageList: WireFormat = {
  name: 'message-list',
  format: 'text-generation',
  request(body, value) {
    const rows = isObject(value) ? ROW_NAMES.find((name) => isChats(body[name])) : undefined;
    if (rows !== undefined) return chatsOf(body[rows] as Chat[], without(body, rows));
    const asked = isObject(value) ? (body.inputs ?? body.input) : value;
    const list = isObject(asked) && Array.isArray(asked.messages) ? asked.messages : unwrapped(asked);
    if (!isMessageList(list)) return undefined;
    const inner = isObject(asked) ? without(asked, 'messages', 'tools') : {};
    const parameters = { ...inner, ...flattened(without(body, 'inputs', 'input', 'model')) };
    return {
      messages: allMessages(list),
      ...(isObject(asked) ? { format: 'chat' as const } : {}),
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

/** Names of the rows in MLflow's scoring form, which may be chats: `{"instances": [{"messages": […]}, …]}`. */
const ROW_NAMES = ['inputs', 'input', 'instances', 'dataframe_records'];

type Chat = JsonObject & { messages: JsonObject[] };

const isChats = (value: unknown): value is Chat[] =>
  Array.isArray(value) && value.length > 0 && value.every((item) => isObject(item) && isMessageList(item.messages));

/** Several chats are independent prompts. Each is shown as one message, with the roles of its messages where it has several. */
function chatsOf(chats: Chat[], others: JsonObject): ReadPrompt {
  const [first] = chats as [Chat];
  const parameters = { ...without(first, 'messages', 'tools', 'model'), ...flattened(without(others, 'model')) };
  const tools = Array.isArray(first.tools) ? { tools: first.tools } : {};
  const asked = { ...tools, parameters, jsonRequested: asksForJson(parameters), format: 'chat' as const };
  if (chats.length === 1) return { ...asked, messages: allMessages(first.messages) };
  const prompts = chats.map(({ messages }) => transcript(allMessages(messages)));
  return { ...asked, messages: userMessages(prompts), batch: prompts };
}

function transcript(messages: ChatMessage[]): string {
  const texts = messages.map(({ role, content, tool_calls: calls }) => {
    const text = typeof content === 'string' ? content : (toJson(content ?? calls) ?? '');
    return messages.length === 1 ? text : `${role}: ${text}`;
  });
  return texts.join('\n\n');
}

/** Returns the conversation of a batch of one: `[[{role, …}]]`. */
const unwrapped = (value: unknown): unknown =>
  Array.isArray(value) && value.length === 1 && Array.isArray(value[0]) ? value[0] : value;

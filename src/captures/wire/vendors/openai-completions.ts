/** Reads OpenAI's chat completions, which vLLM, LMI, TGI and SGLang serve as well, and its completions of a prompt. */

import { isObject, type JsonObject, toJson } from '../../json.ts';
import { allMessages, answersIn, batchOf, chatMessages, promptsOf, thinkingIn, userMessages } from '../messages.ts';
import { allText, fieldsOf, joined, numberOr, objectsIn, textIn, type WireFormat, without } from '../wire-format.ts';

/**
 * Returns the choices in the order of their index. Returns `undefined` if the list is empty or contains another kind of
 * value.
 */
export function choicesOf(body: JsonObject, isOurs: (choice: JsonObject) => boolean): JsonObject[] | undefined {
  const choices = objectsIn(body.choices);
  if (choices.length === 0 || choices.length < (body.choices as unknown[]).length || !choices.every(isOurs))
    return undefined;
  return choices.toSorted((a, b) => numberOr(a.index, 0) - numberOr(b.index, 0));
}

/** Fields that chunks share. The last value wins, since usage comes with the last chunk. */
const COMMON_FIELDS = ['id', 'created', 'model', 'system_fingerprint', 'service_tier', 'usage'];

/**
 * Assembles streamed choices to a reply.
 *
 * @param object `object` of the reply.
 * @param finish returns the fields of the unstreamed choice.
 */
function assembleChoices(object: string, events: JsonObject[], finish: (choice: Choice) => JsonObject) {
  const common: JsonObject = {};
  const choices = new Map<number, Choice>();
  for (const event of events) {
    for (const name of COMMON_FIELDS) common[name] = event[name] ?? common[name];
    common.usage = fieldsOf(event.x_groq).usage ?? common.usage;
    for (const item of objectsIn(event.choices)) {
      const index = numberOr(item.index, 0);
      const choice = choices.get(index) ?? { reason: null, text: '', message: {}, tools: [], latest: new Map() };
      choices.set(index, choice);
      addDelta(choice, item);
      choice.reason = item.finish_reason ?? choice.reason;
      common.usage = item.usage ?? common.usage;
    }
  }
  const assembled = [...choices]
    .sort(([a], [b]) => a - b)
    .map(([index, choice]) => ({ index, ...finish(choice), finish_reason: choice.reason }));
  const said = Object.fromEntries(Object.entries(common).filter(([, value]) => value !== undefined));
  return {
    value: { object, ...said, choices: assembled },
    ended: assembled.every((choice) => choice.finish_reason !== null),
  };
}

/** Reads chat completions, which vLLM, LMI, TGI and SGLang serve as well. */
export const openAiChat: WireFormat = {
  name: 'openai-chat',
  format: 'chat',
  request(body) {
    if (!Array.isArray(body.messages)) return undefined;
    return {
      messages: allMessages(body.messages),
      ...toolsOf(body),
      parameters: without(body, 'messages', 'tools', 'functions', 'model'),
    };
  },
  reply(body) {
    // A filter that stops a request or a reply leaves no choice, or one without a message.
    if (isReplyWithoutChoices(body)) return { replies: [{ role: 'assistant', content: '' }] };
    const choices = choicesOf(body, (choice) => isObject(choice.message) || isSilent(choice));
    return (
      choices && {
        replies: choices.flatMap((choice) => chatMessages(spokenMessage(fieldsOf(choice.message)), 'assistant')),
        reasons: choices.map((choice) => choice.finish_reason),
      }
    );
  },
  assemble(events) {
    const isOurs = events.some((event) => objectsIn(event.choices).some((choice) => isObject(choice.delta)));
    if (!isOurs && !events.every(isReplyWithoutChoices)) return undefined;
    return assembleChoices('chat.completion', events, messageOf);
  },
};

const isReplyWithoutChoices = (body: JsonObject): boolean =>
  'choices' in body &&
  (body.choices === null || (Array.isArray(body.choices) && body.choices.length === 0)) &&
  ('object' in body || 'usage' in body || 'prompt_filter_results' in body);

const isSilent = (choice: JsonObject): boolean =>
  choice.message == null && typeof choice.finish_reason === 'string' && !('text' in choice) && !('delta' in choice);

/** Returns `tools`, or `functions`, as OpenAI called them earlier. */
function toolsOf({ tools, functions }: JsonObject): { tools?: unknown[] } {
  if (Array.isArray(tools) && tools.length > 0) return { tools };
  if (!Array.isArray(functions) || functions.length === 0) return {};
  return { tools: functions.map((spec) => ({ type: 'function', function: spec })) };
}

/** A choice while it is assembled. */
interface Choice {
  reason: unknown;
  /** The answer to a prompt. */
  text: string;
  /** The reply in a chat, with its calls of tools. */
  message: JsonObject;
  tools: Tool[];
  /** The latest call of each index. */
  latest: Map<number, Tool>;
}

interface Tool {
  index: number;
  id?: string;
  name: string;
  arguments: string;
}

/** Text fields of a delta, whose parts are joined. */
const TEXT_FIELDS = ['content', 'reasoning_content', 'reasoning', 'refusal'];

/** Returns the pieces of tool calls. The older form has a single call. */
const callsOf = ({ tool_calls: calls, function_call: call }: JsonObject): JsonObject[] => [
  // TGI sends a call without a list around it.
  ...objectsIn(isObject(calls) ? [calls] : calls),
  ...(isObject(call) ? [{ index: 0, function: call }] : []),
];

/** Some servers send a call's arguments as an object. */
const argumentsIn = (input: unknown): string => (isObject(input) ? (toJson(input) ?? '') : textIn(input));

/** Converts Mistral's content, which may be a list of texts and reasoning. */
function plainDelta(delta: JsonObject): JsonObject {
  if (!Array.isArray(delta.content)) return delta;
  const parts = objectsIn(delta.content);
  const content = allText(parts.map((part) => part.text));
  const reasoning = allText(parts.map(thinkingIn));
  return { ...delta, content, ...(reasoning === '' ? {} : { reasoning }) };
}

/** Adds a refusal or the transcript of a spoken reply to an empty content, and a call in the older form. */
function spokenMessage(message: JsonObject): JsonObject {
  const { content, refusal, audio, function_call: call, tool_calls: calls } = message;
  const beside = content ? '' : textIn(refusal, fieldsOf(audio).transcript);
  const older = isObject(call) && !Array.isArray(calls) ? { tool_calls: [{ type: 'function', function: call }] } : {};
  if (beside !== '') return { ...message, content: beside, ...older };
  return 'tool_calls' in older ? { ...message, ...older } : message;
}

function addDelta(choice: Choice, item: JsonObject): void {
  const { message } = choice;
  choice.text += textIn(item.text);
  const delta = plainDelta(fieldsOf(item.delta));
  if (typeof delta.role === 'string' && delta.role !== '') message.role = delta.role;
  for (const name of TEXT_FIELDS) {
    if (typeof delta[name] === 'string') message[name] = joined(message[name], delta[name]);
  }
  const { transcript } = fieldsOf(delta.audio);
  if (typeof transcript === 'string') {
    message.audio = { transcript: joined(fieldsOf(message.audio).transcript, transcript) };
  }
  for (const call of callsOf(delta)) addCall(choice, call);
}

/** Some servers send calls without an index, or all with the same one: a name with a new id begins another call. */
function addCall({ tools, latest }: Choice, call: JsonObject): void {
  const id = textIn(call.id);
  const { name, arguments: input } = fieldsOf(call.function);
  const isNumbered = typeof call.index === 'number';
  const index = numberOr(call.index, tools.at(-1)?.index ?? 0);
  const before = latest.get(index);
  const isOther = isNumbered ? id !== '' && before?.id !== undefined && id !== before.id : id !== before?.id;
  const isFurther = before === undefined || (textIn(name) !== '' && isOther);
  const tool: Tool = isFurther ? { index, name: '', arguments: '' } : before;
  if (isFurther) {
    tools.push(tool);
    latest.set(index, tool);
  }
  const isSame = id !== '' && id === tool.id;
  if (id !== '') tool.id = id;
  const said = textIn(name);
  // Most servers name a call once, some in pieces, some in each delta.
  const repeats = (isSame || tool.arguments !== '') && said.startsWith(tool.name);
  tool.name = repeats ? said : tool.name + said;
  tool.arguments += argumentsIn(input);
}

function messageOf({ message, tools }: Choice): JsonObject {
  const inOrder = tools.toSorted((a, b) => a.index - b.index);
  const calls = inOrder.map(({ id, index: _, ...call }, position) => ({
    id: id ?? `call_${position}`,
    type: 'function',
    function: call,
  }));
  const whole = { role: 'assistant', content: null, ...message };
  return { message: calls.length > 0 ? { ...whole, tool_calls: calls } : whole };
}

// ----------------------------------------------------------------------------------------- completions of a prompt
// `prompt` → `choices[].text`

export const openAiCompletion: WireFormat = {
  name: 'openai-completion',
  format: 'completion',
  request(body) {
    const prompts = promptsOf(body.prompt);
    if (prompts === undefined) return undefined;
    return {
      messages: userMessages(prompts),
      parameters: without(body, 'prompt', 'model'),
      ...batchOf(prompts),
    };
  },
  reply: (body) =>
    answersIn(
      choicesOf(body, ({ text }) => typeof text === 'string'),
      'text',
      'finish_reason',
    ),
  assemble(events) {
    if (!events.some((event) => objectsIn(event.choices).some(({ text }) => typeof text === 'string')))
      return undefined;
    return assembleChoices('text_completion', events, ({ text }) => ({ text }));
  },
};

/** Reads the forms of Bedrock: Converse, and the forms of its models when they are invoked directly. */

import { isObject, type JsonObject, toJson } from '../../json.ts';
import { StreamedBlocks } from '../content-blocks.ts';
import { allMessages, answersIn, openAiTools, replyMessages, userMessages } from '../messages.ts';
import { fieldsOf, joined, objectsIn, textIn, type WireFormat, without } from '../wire-format.ts';
import NAMES from './bedrock-names.json' with { type: 'json' };

/** Reads Bedrock's Converse. */
export const bedrockConverse: WireFormat = {
  name: 'bedrock-converse',
  format: 'messages',
  recognises(body) {
    if (!Array.isArray(body.messages)) return false;
    if (NAMES.requests.some((name) => name in body)) return true;
    return objectsIn(body.messages).some(({ content }) =>
      objectsIn(content).some((block) => !('type' in block) && NAMES.blocks.some((name) => name in block)),
    );
  },
  request(body) {
    if (!Array.isArray(body.messages)) return undefined;
    return {
      messages: allMessages(body.messages),
      tools: openAiTools(fieldsOf(body.toolConfig).tools),
      parameters: {
        ...without(body, 'messages', 'toolConfig', 'inferenceConfig', 'modelId'),
        ...fieldsOf(body.inferenceConfig),
      },
    };
  },
  reply(body) {
    const { message } = fieldsOf(body.output);
    if (!isObject(message)) return undefined;
    return { replies: replyMessages(message.role, message.content), reasons: [body.stopReason] };
  },
  /** Reads the event that breaks a stream off: `{throttlingException: {message}}`. */
  error(body) {
    const [[name, error] = [], ...others] = Object.entries(body);
    return name?.endsWith('Exception') && isObject(error) && others.length === 0
      ? { message: error, type: name }
      : undefined;
  },
  assemble(events) {
    if (!events.some((event) => NAMES.events.some((name) => isObject(event[name])))) return undefined;
    const last = (name: string): JsonObject => fieldsOf(events.findLast((event) => isObject(event[name]))?.[name]);
    const blocks = new StreamedBlocks();
    for (const event of events) {
      const { contentBlockIndex: began, start } = fieldsOf(event.contentBlockStart);
      if (isObject(start)) blocks.begin(began, start);
      const { contentBlockIndex: index, delta } = fieldsOf(event.contentBlockDelta);
      if (!isObject(delta)) continue;
      const block = blocks.at(index);
      if (typeof delta.text === 'string') block.text = joined(block.text, delta.text);
      if (isObject(delta.reasoningContent)) {
        const { text } = fieldsOf(fieldsOf(block.reasoningContent).reasoningText);
        block.reasoningContent = { reasoningText: { text: joined(text, delta.reasoningContent.text) } };
      }
      const { input } = fieldsOf(delta.toolUse);
      if (isObject(delta.toolUse)) block.toolUse ??= {};
      blocks.input(index, isObject(input) ? toJson(input) : input);
    }
    const content = blocks.inOrder((block, input) => {
      if (isObject(block.toolUse)) block.toolUse = { ...block.toolUse, input: input ?? {} };
    });
    const { role = 'assistant' } = last('messageStart');
    const { stopReason } = last('messageStop');
    const { usage } = last('metadata');
    return { value: { output: { message: { role, content } }, stopReason, usage }, ended: stopReason !== undefined };
  },
};

// --------------------------------------------------------------------------------- Titan, Llama, Mistral, Claude 2

/** Reads a streamed piece of Titan, Llama, Claude 2, Cohere, Mistral or watsonx. Each has a field for the finish reason. */
function pieceOf(event: JsonObject): { text: string; reason: unknown } | undefined {
  for (const [list = '', name = ''] of NAMES.pieceLists) {
    const [item, ...others] = objectsIn(event[list]);
    if (item !== undefined && others.length === 0 && typeof item[name] === 'string' && 'stop_reason' in item)
      return { text: item[name], reason: item.stop_reason };
  }
  for (const [name = '', reason = ''] of NAMES.pieceTexts) {
    if (typeof event[name] === 'string' && reason in event) return { text: event[name], reason: event[reason] };
  }
  if (typeof event.is_finished !== 'boolean' || 'event_type' in event) return undefined;
  return { text: textIn(event.text), reason: event.finish_reason };
}

const isReason = (reason: unknown): boolean => typeof reason === 'string' && reason !== 'not_finished';

/** Reads `inputText` → `results[].outputText` and `prompt` → `generation`, `outputs[].text`, `completion`. */
export const bedrockText: WireFormat = {
  name: 'bedrock-text',
  format: 'completion',
  request(body) {
    if (typeof body.inputText !== 'string') return undefined;
    return {
      messages: userMessages([body.inputText]),
      parameters: { ...without(body, 'inputText', 'textGenerationConfig'), ...fieldsOf(body.textGenerationConfig) },
    };
  },
  // JumpStart's Llama answers each input with an item of a list.
  reply: (body, value) =>
    answersIn(body.results, 'outputText', 'completionReason') ??
    answersIn(body.results, 'generated_text', 'stop_reason') ??
    answersIn(body.outputs, 'text', 'stop_reason') ??
    answersIn([value].flat(2), 'generation', 'stop_reason') ??
    answersIn([body], 'completion', 'stop_reason'),
  streamsSeveral: true,
  assemble(events) {
    const pieces = events.map(pieceOf).filter((piece) => piece !== undefined);
    // Lines that each have a finish reason are separate replies. Counts may follow the last piece.
    const reasons = pieces.map(({ reason }) => reason).filter(isReason);
    if (pieces.length < Math.max(Math.min(2, events.length), events.length - 1) || reasons.length > 1) return undefined;
    const known = events.flatMap((event) => Object.entries(event).filter(([, value]) => value !== null));
    const answer = { generation: pieces.map(({ text }) => text).join(''), stop_reason: reasons[0] };
    const rest = without(Object.fromEntries(known), ...NAMES.pieces);
    return { value: { ...rest, ...answer }, ended: reasons.length > 0 };
  },
};

// ------------------------------------------------------------------------------------------------- AI21's Jurassic
// `completions[].data.text`

export const ai21: WireFormat = {
  name: 'ai21',
  format: 'completion',
  reply({ completions }) {
    const items = (Array.isArray(completions) ? completions : []).map(fieldsOf);
    const flat = items.map(({ data, finishReason }) => ({ ...fieldsOf(data), reason: fieldsOf(finishReason).reason }));
    return answersIn(flat, 'text', 'reason');
  },
};

/** Reads Bedrock's Converse. */
import { isObject, type JsonObject, toJson } from '../../json.ts';
import { StreamedBlocks } from '../content-blocks.ts';
import { allMessages, openAiTools, replyMessages, systemMessages } from '../messages.ts';
import { fieldsOf, joined, objectsIn, textIn, type WireFormat, without } from '../types.ts';

const REQUEST_NAMES = ['inferenceConfig', 'toolConfig', 'schemaVersion', 'additionalModelRequestFields'];
/** Names of content blocks. A block has one field, such as `{text}` or `{toolUse}`. */
const BLOCK_NAMES = ['text', 'image', 'document', 'toolUse', 'toolResult'];
const EVENT_NAMES = [
  'messageStart',
  'contentBlockStart',
  'contentBlockDelta',
  'contentBlockStop',
  'messageStop',
  'metadata',
];

export const bedrockConverse: WireFormat = {
  name: 'bedrock-converse',
  format: 'messages',
  recognises(body) {
    if (!Array.isArray(body.messages)) return false;
    if (REQUEST_NAMES.some((name) => name in body)) return true;
    return objectsIn(body.messages).some(({ content }) =>
      objectsIn(content).some((block) => !('type' in block) && BLOCK_NAMES.some((name) => name in block)),
    );
  },
  request(body) {
    if (!Array.isArray(body.messages)) return undefined;
    return {
      messages: [...systemMessages(body.system), ...allMessages(body.messages)],
      tools: openAiTools(fieldsOf(body.toolConfig).tools),
      parameters: {
        ...without(body, 'messages', 'system', 'toolConfig', 'inferenceConfig', 'modelId'),
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
  delta(event) {
    if (!EVENT_NAMES.some((name) => isObject(event[name]))) return undefined;
    const piece = fieldsOf(fieldsOf(event.contentBlockStart).start ?? fieldsOf(event.contentBlockDelta).delta);
    const { name, input } = fieldsOf(piece.toolUse);
    return {
      output: textIn(piece.text),
      reasoning: textIn(fieldsOf(piece.reasoningContent).text),
      calls: textIn(name, input) !== '',
    };
  },
  assemble(events) {
    if (!events.some((event) => isObject(event.contentBlockDelta) || isObject(event.messageStart))) return undefined;
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
  usage: {
    inputTokens: ['usage.inputTokens'],
    outputTokens: ['usage.outputTokens'],
    totalTokens: ['usage.totalTokens'],
    cachedInputTokens: ['usage.cacheReadInputTokens'],
  },
};

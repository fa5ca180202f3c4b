/** Bedrock's Converse, and what its models take and give when they are invoked directly (Titan, Llama, Mistral, Nova). */
import { isObject, type JsonObject } from '../json.ts';
import { systemMessages } from './anthropic.ts';
import { allMessages, fieldsOf, openAiTools, replyMessages, textIn, textsOf, without } from './messages.ts';
import { userMessages } from './openai.ts';
import type { WireFormat } from './types.ts';

/** A content block that is named by its only field, e.g. `{text}`, `{toolUse}`. */
const isUntypedBlock = (block: unknown): boolean =>
  isObject(block) &&
  !('type' in block) &&
  ['text', 'image', 'document', 'toolUse', 'toolResult'].some((name) => name in block);

export const converse: WireFormat = {
  name: 'bedrock-converse',
  recognises(value) {
    if (!isObject(value) || !Array.isArray(value.messages)) return false;
    if (
      ['inferenceConfig', 'toolConfig', 'schemaVersion', 'additionalModelRequestFields'].some((name) => name in value)
    ) {
      return true;
    }
    return value.messages.some(
      (message) => isObject(message) && Array.isArray(message.content) && message.content.some(isUntypedBlock),
    );
  },
  request(value) {
    if (!isObject(value) || !Array.isArray(value.messages)) return undefined;
    const tools = isObject(value.toolConfig) ? openAiTools(value.toolConfig.tools) : undefined;
    const inference = isObject(value.inferenceConfig) ? value.inferenceConfig : {};
    const rest = without(value, 'messages', 'system', 'toolConfig', 'inferenceConfig', 'modelId');
    return {
      wire: 'bedrock-converse',
      format: 'messages',
      messages: [...systemMessages(value.system), ...allMessages(value.messages)],
      ...(tools === undefined ? {} : { tools }),
      parameters: { ...rest, ...inference },
      jsonRequested: false,
    };
  },
  reply(value) {
    if (!isObject(value) || !isObject(value.output) || !isObject(value.output.message)) return undefined;
    return {
      wire: 'bedrock-converse',
      format: 'messages',
      replies: replyMessages(value.output.message.role, value.output.message.content),
      finishReasons: textsOf([value.stopReason]),
    };
  },
  delta(event) {
    const names = ['messageStart', 'contentBlockStart', 'contentBlockDelta', 'contentBlockStop', 'messageStop'];
    if (!names.some((name) => isObject(event[name]))) return undefined;
    const piece = fieldsOf(fieldsOf(event.contentBlockStart).start ?? fieldsOf(event.contentBlockDelta).delta);
    const { name, input } = fieldsOf(piece.toolUse);
    return {
      output: textIn(piece.text),
      reasoning: textIn(fieldsOf(piece.reasoningContent).text),
      calls: textIn(name, input) !== '',
    };
  },
};

const assistant = (texts: unknown[]) => textsOf(texts).map((content) => ({ role: 'assistant', content }));

/** `inputText` → `results[].outputText`; `prompt` → `generation`, `outputs[].text`, `completion`. */
export const bedrockText: WireFormat = {
  name: 'bedrock-text',
  request(value) {
    if (!isObject(value) || typeof value.inputText !== 'string') return undefined;
    const config = isObject(value.textGenerationConfig) ? value.textGenerationConfig : {};
    return {
      wire: 'bedrock-text',
      format: 'completion',
      messages: userMessages([value.inputText]),
      parameters: { ...without(value, 'inputText', 'textGenerationConfig'), ...config },
      jsonRequested: false,
    };
  },
  reply(value) {
    if (!isObject(value)) return undefined;
    const reply = (texts: unknown[], reasons: unknown[]) => ({
      wire: 'bedrock-text',
      format: 'completion' as const,
      replies: assistant(texts),
      finishReasons: textsOf(reasons),
    });
    const all = (list: unknown, name: string): list is JsonObject[] =>
      Array.isArray(list) && list.length > 0 && list.every((item) => isObject(item) && typeof item[name] === 'string');
    if (all(value.results, 'outputText')) {
      return reply(
        value.results.map((item) => item.outputText),
        value.results.map((item) => item.completionReason),
      );
    }
    if (all(value.outputs, 'text')) {
      return reply(
        value.outputs.map((item) => item.text),
        value.outputs.map((item) => item.stop_reason),
      );
    }
    if (typeof value.generation === 'string') return reply([value.generation], [value.stop_reason]);
    if (typeof value.completion === 'string') return reply([value.completion], [value.stop_reason]);
    return undefined;
  },
};

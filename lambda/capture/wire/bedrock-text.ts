/** What Bedrock's models take and give when they are invoked directly: Titan, Llama, Mistral, Claude 2. */
import type { JsonObject } from '../json.ts';
import { assistantMessages, fieldsOf, objectsIn, without } from './messages.ts';
import { userMessages } from './prompts.ts';
import type { ReadReply, WireFormat } from './types.ts';

/** The items of a list that all have a text under the name, and a reason under the other one. */
function answersIn(list: unknown, name: string, reason: string): ReadReply | undefined {
  const items = objectsIn(list);
  if (items.length === 0 || items.length < (list as unknown[]).length) return undefined;
  if (!items.every((item: JsonObject) => typeof item[name] === 'string')) return undefined;
  return { replies: assistantMessages(items.map((item) => item[name])), reasons: items.map((item) => item[reason]) };
}

/** `inputText` → `results[].outputText`; `prompt` → `generation`, `outputs[].text`, `completion`. */
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
  reply: (body) =>
    answersIn(body.results, 'outputText', 'completionReason') ??
    answersIn(body.outputs, 'text', 'stop_reason') ??
    answersIn([body], 'generation', 'stop_reason') ??
    answersIn([body], 'completion', 'stop_reason'),
  usage: {
    inputTokens: ['inputTextTokenCount', 'prompt_token_count', 'amazon-bedrock-invocationMetrics.inputTokenCount'],
    outputTokens: [
      ...['generation_token_count', 'totalOutputTextTokenCount', 'results.*.tokenCount'],
      'amazon-bedrock-invocationMetrics.outputTokenCount',
    ],
  },
};

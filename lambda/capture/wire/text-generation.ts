/** Hugging Face's form: `inputs` and `parameters` → `generated_text`, as TGI, LMI/DJL and the inference toolkit have it. */
import { isObject, type JsonObject } from '../json.ts';
import type { ChatMessage } from '../types.ts';
import { chatMessages, isMessageList, textIn, textsOf, toolCalls, without } from './messages.ts';
import { asksForJson, batchOf, flattened, promptsOf, userMessages } from './openai.ts';
import type { WireFormat } from './types.ts';

export const textGeneration: WireFormat = {
  name: 'tgi',
  request(value) {
    if (!isObject(value)) return undefined;
    const prompts = promptsOf(value.inputs);
    if (prompts === undefined || !isText(value.inputs)) return undefined;
    const parameters = flattened(without(value, 'inputs', 'model'));
    return {
      wire: 'tgi',
      format: 'text-generation',
      messages: userMessages(prompts),
      parameters,
      jsonRequested: asksForJson(parameters),
      ...batchOf(prompts),
    };
  },
  reply(value) {
    const generated = generatedOf(value);
    if (generated === undefined) return undefined;
    return {
      wire: 'tgi',
      format: 'text-generation',
      replies: generated.map((item) => replyOf(item)),
      finishReasons: textsOf(
        generated.map((item) => (isObject(item.details) ? item.details.finish_reason : item.finish_reason)),
      ),
    };
  },
  delta({ token }) {
    if (!isObject(token)) return undefined;
    return { output: token.special === true ? '' : textIn(token.text), reasoning: '', calls: false };
  },
};

/** Numbers under `inputs` are features or token ids of a model that does not talk. */
const isText = (inputs: unknown): boolean =>
  typeof inputs === 'string' || (Array.isArray(inputs) && typeof inputs[0] === 'string');

/** Names under which the toolkit's pipelines give their text. */
const TEXT_NAMES = ['generated_text', 'summary_text', 'translation_text', 'generated_texts'] as const;

const hasText = (item: JsonObject): boolean => TEXT_NAMES.some((name) => isGenerated(item[name]));

/** `generated_text` is a text, a list of texts, or (from chat pipelines) the conversation with the reply behind it. */
const isGenerated = (value: unknown): boolean =>
  typeof value === 'string' ||
  isMessageList(value) ||
  (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string'));

/** The generations of an object, a list, a list of lists, or of one object that holds a list of texts. */
function generatedOf(value: unknown): JsonObject[] | undefined {
  const list = (Array.isArray(value) ? value.flat(1) : [value]) as unknown[];
  const items = list.filter(isObject);
  if (items.length === 0 || items.length < list.length || !items.every(hasText)) return undefined;
  return items.flatMap((item) => {
    const name = TEXT_NAMES.find((candidate) => isGenerated(item[candidate])) as string;
    const generated = item[name];
    const texts = Array.isArray(generated) && !isMessageList(generated) ? generated : [generated];
    return texts.map((text) => ({ ...item, generated_text: text }));
  });
}

function replyOf(item: JsonObject): ChatMessage {
  const { generated_text: generated } = item;
  if (typeof generated === 'string') {
    const calls = toolCalls(item.tool_calls);
    return { role: 'assistant', content: generated, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
  }
  const last = (generated as unknown[]).at(-1);
  return chatMessages(last, 'assistant').at(-1) as ChatMessage;
}

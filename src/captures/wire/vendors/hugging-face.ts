/**
 * Reads Hugging Face's form, used by TGI, LMI/DJL and the inference toolkit: `inputs`, `parameters` →
 * `generated_text`; and its question answering.
 */

import { isObject, type JsonObject } from '../../json.ts';
import type { ChatMessage } from '../../types.ts';
import {
  assistantMessage,
  assistantMessages,
  batchOf,
  chatMessages,
  flattened,
  isMessageList,
  promptsOf,
  toolCalls,
  userMessages,
} from '../messages.ts';
import { allText, fieldsOf, joined, textIn, type WireFormat, without } from '../wire-format.ts';

/** Reads the form of TGI, LMI/DJL and the inference toolkit: `inputs`, `parameters` → `generated_text`. */
export const tgi: WireFormat = {
  name: 'tgi',
  format: 'text-generation',
  request(body) {
    const prompts = promptsOf(body.inputs);
    if (prompts === undefined || !isText(body.inputs)) return undefined;
    const parameters = flattened(without(body, 'inputs', 'model'));
    return { messages: userMessages(prompts), parameters, ...batchOf(prompts) };
  },
  reply(_body, value) {
    const generated = generatedOf(value);
    if (generated === undefined) return undefined;
    const reasons = generated.map((item) => (isObject(item.details) ? item.details : item).finish_reason);
    return { replies: generated.map(replyOf), reasons };
  },
  error(body) {
    const details = fieldsOf(body.details);
    if (details.finish_reason !== 'error') return undefined;
    const message = details.error || body.error || details.message;
    return { message: message || 'the generation ended with the finish reason “error”', type: 'generation_error' };
  },
  repeats: ['generated_text'],
  assemble(events) {
    if (events.every((event) => outputsOf(event) !== undefined)) {
      // One text for each input of the request.
      const texts: string[] = [];
      for (const { outputs } of events) {
        for (const [at, text] of (outputs as string[]).entries()) texts[at] = joined(texts[at], text);
      }
      return { value: { generated_text: texts.length > 1 ? texts : texts[0] }, ended: undefined };
    }
    if (!events.some((event) => tokenOf(event) !== undefined)) return undefined;
    // The last event contains the whole text.
    const whole = events.findLast((event) => typeof event.generated_text === 'string')?.generated_text;
    const details = events.findLast((event) => isObject(event.details))?.details;
    const value: JsonObject = { generated_text: whole ?? allText(events.map(tokenOf)) };
    if (details !== undefined) value.details = details;
    return { value, ended: whole !== undefined || details !== undefined };
  },
};

/** Reads a token of TGI's events or LMI's lines. */
const tokenOf = ({ token }: JsonObject): string | undefined =>
  isObject(token) ? (token.special === true ? '' : textIn(token.text)) : undefined;

/** Reads LMI's older lines: `{"outputs": ["text"]}` without other fields. */
function outputsOf(event: JsonObject): string | undefined {
  const { outputs, ...others } = event;
  if (!Array.isArray(outputs) || outputs.length === 0 || Object.keys(others).length > 0) return undefined;
  return outputs.every((text) => typeof text === 'string') ? outputs.join('') : undefined;
}

/** Numbers under `inputs` are features or token ids of a model that is not a text model. */
const isText = (inputs: unknown): boolean =>
  typeof inputs === 'string' || (Array.isArray(inputs) && typeof inputs[0] === 'string');

/** Names of the text in replies of the toolkit's pipelines. */
const TEXT_NAMES = ['generated_text', 'summary_text', 'translation_text', 'generated_texts'] as const;

const hasText = (item: JsonObject): boolean => TEXT_NAMES.some((name) => isGenerated(item[name]));

/** `generated_text` is a text, a list of texts, or, from chat pipelines, the conversation with the reply at its end. */
const isGenerated = (value: unknown): boolean =>
  typeof value === 'string' ||
  isMessageList(value) ||
  (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string'));

/** Returns the generations of an object, a list, a list of lists, or one object with a list of texts. */
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
  if (typeof generated === 'string') return assistantMessage(generated, '', toolCalls(item.tool_calls));
  const last = (generated as unknown[]).at(-1);
  return chatMessages(last, 'assistant').at(-1) as ChatMessage;
}

// ----------------------------------------------------------------------------------- extractive question answering
// A question about a context → `{answer, score, start, end}`

const TEXTS = ['question', 'context'] as const;

export const questionAnswering: WireFormat = {
  name: 'question-answering',
  format: 'text-generation',
  request(body) {
    const items = asked(body.inputs);
    if (items === undefined) return undefined;
    const prompts = items.map(({ question, context }) => `${context}\n\n${question}`);
    return { messages: userMessages(prompts), parameters: {}, ...batchOf(prompts), asks: true };
  },
  reply(_body, value) {
    const items = Array.isArray(value) ? value.map(best) : [value];
    return items.length > 0 && items.every(isAnswer)
      ? { replies: assistantMessages(items.map(({ answer }) => answer)) }
      : undefined;
  },
};

/** Returns questions with their contexts from one pair, from a list of pairs, or from two lists. */
function asked(inputs: unknown): JsonObject[] | undefined {
  if (!isObject(inputs))
    return Array.isArray(inputs) && inputs.length > 0 && inputs.every(isQuestion) ? inputs : undefined;
  const [questions, contexts] = TEXTS.map((name) => inputs[name]);
  if (!Array.isArray(questions) || !Array.isArray(contexts)) return isQuestion(inputs) ? [inputs] : undefined;
  const items = questions.map((question, index) => ({ question, context: contexts[index] }));
  return items.length > 0 && items.length === contexts.length && items.every(isQuestion) ? items : undefined;
}

const isQuestion = (item: unknown): item is JsonObject =>
  isObject(item) && TEXTS.every((name) => typeof item[name] === 'string');

const isAnswer = (item: unknown): item is { answer: string } =>
  isObject(item) && typeof item.answer === 'string' && ['score', 'start', 'end'].every((name) => name in item);

/** With `top_k`, the answers to a question are a list, best first. */
const best = (item: unknown): unknown => (Array.isArray(item) ? item[0] : item);

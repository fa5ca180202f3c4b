/** Reads Hugging Face's extractive question answering: a question about a context → `{answer, score, start, end}`. */
import { isObject, type JsonObject } from '../../json.ts';
import { assistantMessages, batchOf, userMessages } from '../messages.ts';
import type { WireFormat } from '../types.ts';

const TEXTS = ['question', 'context'] as const;

export const questionAnswering: WireFormat = {
  name: 'question-answering',
  format: 'text-generation',
  request(body) {
    const items = asked(body.inputs);
    if (items === undefined) return undefined;
    const prompts = items.map(({ question, context }) => `${context}\n\n${question}`);
    return { messages: userMessages(prompts), parameters: {}, ...batchOf(prompts) };
  },
  reply(_body, value) {
    const items = Array.isArray(value) ? value.map(best) : [value];
    return items.length > 0 && items.every(isAnswer)
      ? { replies: assistantMessages(items.map(({ answer }) => answer)) }
      : undefined;
  },
};

/** Returns a question with its context, each of a list of them, or those of lists of both. */
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

/** The stand-in's answer to a prompt: an object, its text, and the ways in which a fault can corrupt it. */

import { answerByRule } from '../../src/judge/stand-in/answer.ts';
import { readOwnPrompt } from '../../src/judge/stand-in/read-prompt.ts';
import type { AnswerFault } from './behavior.ts';

interface Answer {
  /** The input of a tool call. */
  object: Record<string, unknown>;
  /** The content of a text answer. */
  text: string;
  /** Bedrock's stop reason. */
  stopReason: string;
}

const NO_QUESTION = 'Stand-in judge: this prompt contains no question that it recognizes.';

const mapValues = (object: Record<string, unknown>, change: (value: unknown) => unknown): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(object).map(([key, entry]) =>
      entry !== null && typeof entry === 'object' && 'value' in entry
        ? [key, { ...entry, value: change((entry as { value: unknown }).value) }]
        : [key, key === 'result' ? change(entry) : entry],
    ),
  );

const GERMAN: Record<string, string> = { yes: 'ja', no: 'nein', coherent: 'kohärent', incoherent: 'inkohärent' };

function corrupt({ object, text, stopReason }: Answer, fault: AnswerFault): Answer {
  const withObject = (changed: Record<string, unknown>): Answer => ({
    object: changed,
    text: JSON.stringify(changed),
    stopReason,
  });
  switch (fault) {
    case 'fenced':
      return {
        object,
        text: `Here is my assessment.\n\n\`\`\`json\n${JSON.stringify(object, null, 2)}\n\`\`\`\nI hope this helps.`,
        stopReason,
      };
    case 'sloppy-json':
      return { object, text: `${text.replaceAll('"', "'").slice(0, -1)}, // done\n}`, stopReason };
    case 'prose':
      return {
        object: {},
        text: 'The reply reads well and I see no problem with it, so my verdict is positive throughout.',
        stopReason,
      };
    case 'nonsense':
      return { object: { '%%': [[]] }, text: '%%[[ }{ 7 <|im_end|> ]]', stopReason };
    case 'missing-keys':
      return withObject(Object.fromEntries(Object.entries(object).filter((_, index) => index % 2 === 0)));
    case 'wrong-value':
      return withObject(mapValues(object, () => 'maybe'));
    case 'wrong-language':
      return withObject(mapValues(object, (value) => GERMAN[String(value)] ?? `sozusagen ${String(value)}`));
    case 'empty':
      return { object: {}, text: '', stopReason };
    case 'cut': {
      const kept = Object.entries(object).slice(0, Math.floor((Object.keys(object).length * 2) / 3));
      return {
        object: Object.fromEntries(kept),
        text: text.slice(0, Math.floor((text.length * 2) / 3)),
        stopReason: 'max_tokens',
      };
    }
    case 'malformed':
      return { object: {}, text: '', stopReason: 'malformed_model_output' };
    case 'guardrail':
      return { object: {}, text: 'Sorry, the model cannot answer this question.', stopReason: 'guardrail_intervened' };
    case 'content-filtered':
      return { object: {}, text: '', stopReason: 'content_filtered' };
    case 'context-exceeded':
      return { object: {}, text: '', stopReason: 'model_context_window_exceeded' };
  }
}

interface Answered {
  answer: Answer;
  /** Names of the questions that the stand-in recognized. */
  asked: string[];
}

/**
 * Answers a prompt by rule.
 *
 * @param maxTokens the request's limit: a longer answer is truncated, as a model's would be
 */
export function answerTo(system: string, user: string, fault: AnswerFault | undefined, maxTokens = Infinity): Answered {
  const prompt = readOwnPrompt(system, user);
  const object = prompt === undefined ? {} : answerByRule(prompt);
  const good: Answer = {
    object,
    text: prompt === undefined ? NO_QUESTION : JSON.stringify(object),
    stopReason: 'end_turn',
  };
  const complete = fault === undefined ? good : corrupt(good, fault);
  const answer = tokensOf(complete.text) > maxTokens ? corrupt(complete, 'cut') : complete;
  return { answer, asked: prompt?.asked.map(({ name }) => name) ?? [] };
}

/** Estimates a text's tokens at four characters per token. */
export const tokensOf = (text: string): number => Math.ceil(text.length / 4);

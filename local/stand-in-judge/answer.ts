/** The stand-in's answer to a prompt: an object, and its text. */

import { answerByRule } from '../../src/judge/stand-in/answer.ts';
import { readOwnPrompt } from '../../src/judge/stand-in/read-prompt.ts';

export interface Answer {
  /** The input of a tool call. */
  object: Record<string, unknown>;
  /** The content of a text answer. */
  text: string;
  /** Bedrock's stop reason. */
  stopReason: string;
}

const NO_QUESTION = 'Stand-in judge: this prompt contains no question that it recognizes.';

/** Returns the first two thirds of an answer, as of a model that was stopped at its limit. */
export function cutOff({ object, text }: Answer): Answer {
  const entries = Object.entries(object);
  return {
    object: Object.fromEntries(entries.slice(0, Math.floor((entries.length * 2) / 3))),
    text: text.slice(0, Math.floor((text.length * 2) / 3)),
    stopReason: 'max_tokens',
  };
}

/** Changes an answer before it is given, as a model on a bad day would. */
export type Change = (answer: Answer) => Answer;

/**
 * Answers a prompt by rule. `asked` are the names of the questions that the stand-in recognized.
 *
 * @param maxTokens the request's limit: a longer answer is truncated, as a model's would be
 */
export function answerTo(system: string, user: string, maxTokens = Infinity, change: Change = (same) => same) {
  const prompt = readOwnPrompt(system, user);
  const object = prompt === undefined ? {} : answerByRule(prompt);
  const text = prompt === undefined ? NO_QUESTION : JSON.stringify(object);
  const complete = change({ object, text, stopReason: 'end_turn' });
  const answer = tokensOf(complete.text) > maxTokens ? cutOff(complete) : complete;
  return { answer, asked: prompt?.asked.map(({ name }) => name) ?? [] };
}

/** Estimates a text's tokens at four characters per token. */
export const tokensOf = (text: string): number => Math.ceil(text.length / 4);

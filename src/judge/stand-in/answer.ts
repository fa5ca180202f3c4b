/** The stand-in's answer to a prompt. */
import { type AskedQuestion, isYesNo, type RecognizedPrompt } from './read-prompt.ts';
import { type RuleVerdict, verdictByRule } from './rules.ts';

/** @returns the verdicts by the names of the questions */
export function answerByRule(prompt: RecognizedPrompt): Record<string, unknown> {
  const verdicts = prompt.asked.map((asked) => [asked, verdictByRule(asked, prompt.exchange)] as const);
  // The prompts ask for the rationale first, so a model writes it first.
  return Object.fromEntries(verdicts.map(([asked, verdict]) => [asked.name, entryOf(asked, verdict, prompt)]));
}

/** A rule is not sure of a reply that is as short as this. */
const UNSURE_CHARS = 8;

/** The answer to one question, in the brevity that the prompt asks for. */
function entryOf(asked: AskedQuestion, { rationale, value }: RuleVerdict, { brevity, exchange }: RecognizedPrompt) {
  const sure = exchange.reply.length > UNSURE_CHARS;
  if (brevity?.marks && isYesNo(asked)) return sure ? value : 'unsure';
  if (brevity?.bare[asked.name] === value) return value;
  return { rationale, value, ...(brevity?.sure ? { sure } : {}) };
}

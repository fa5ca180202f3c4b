/** A harmless exchange: if the judge refuses it too, the settings are the cause of a refusal, and not the capture. */
import { chatCapture } from './chat-capture.ts';
import { applicability } from './scorers/applicability.ts';
import { isModelScorer } from './scorers/scorer-set.ts';
import type { Judge, JudgeMoney, JudgeResult, JudgeScorer, Scorer } from './types.ts';

export const canaryCapture = chatCapture(
  [{ role: 'user', content: 'What is the capital of France?' }],
  [{ role: 'assistant', content: 'Paris is the capital of France.' }],
);

/** Returns the scorers to ask about the canary: the applicable ones, or else the first scorer. */
export function canaryScorers(scorers: readonly Scorer[]): readonly JudgeScorer[] {
  const asked = scorers.filter(isModelScorer);
  const fit = asked.filter((scorer) => 'judge' in applicability(canaryCapture, scorer));
  return fit.length > 0 ? fit : asked.slice(0, 1);
}

/**
 * Asks about the canary as about a capture, to learn which features the model refuses and how long its answers are.
 * @throws as `judge.judge`
 */
export const askCanary = (
  judge: Judge,
  scorers: readonly Scorer[],
  { limit }: JudgeMoney = {},
  signal?: AbortSignal,
): Promise<JudgeResult> => judge.judge(canaryCapture, canaryScorers(scorers), signal, { limit });

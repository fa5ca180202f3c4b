/** The real judge with a transport whose model is scripted by the test. */
import type { ScorerValues } from '../../src/core/values/scorer-values.ts';
import { createJudgeOver, type JudgeOptions } from '../../src/judge/judge-capture.ts';
import { userText } from '../../src/judge/prompt/build-prompt.ts';
import type { Ask } from '../../src/judge/transports/transport.ts';
import type { CallUsage, Judge, JudgeScorer, ModelAnswer } from '../../src/judge/types.ts';

export interface ScriptedJudge {
  judge: Judge;
  /** The requests that reached the model, in order. */
  asks: Ask[];
}

/** 3 and 15 dollars per million tokens. */
export const priceOf = ({ inputTokens, outputTokens }: CallUsage): number =>
  (inputTokens * 3 + outputTokens * 15) / 1e6;

const firstOf = (values: ScorerValues): unknown => {
  if (values.kind === 'yes-no') return 'yes';
  if (values.kind === 'boolean') return true;
  return values.kind === 'number' ? values.min : values.values[0];
};

/** Returns a valid answer with the first allowed value for each question. */
export const goodAnswer = (scorers: readonly JudgeScorer[]): string =>
  JSON.stringify(
    Object.fromEntries(scorers.map(({ name, values }) => [name, { rationale: 'So it is.', value: firstOf(values) }])),
  );

/** Returns a model's reply, with the largest plausible usage for the request. */
export const told = (text: string, more: Partial<ModelAnswer> = {}): ModelAnswer => ({
  text,
  stop: 'end',
  stopReason: 'end_turn',
  usage: { inputTokens: 1000, outputTokens: 100 },
  ...more,
});

/** @param model answers a request, or throws; by default it answers validly */
export function scriptedJudge(
  model: (ask: Ask, text: string) => ModelAnswer | Promise<ModelAnswer> = ({ prompt }) =>
    told(goodAnswer(prompt.scorers)),
  options: JudgeOptions = {},
): ScriptedJudge {
  const asks: Ask[] = [];
  const transport = {
    sourceId: 'test:/model',
    userSet: new Set<string>(),
    send: async (ask: Ask): Promise<ModelAnswer> => {
      asks.push(ask);
      return model(ask, userText(ask.prompt));
    },
  };
  const retry = { baseMs: 1, capMs: 2, attempts: 2 };
  return { judge: createJudgeOver(transport, { price: priceOf, retry, ...options }), asks };
}

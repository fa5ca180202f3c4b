/** The inference parameters of the judge. */
import { answerBounds, readParameters } from '../../../src/judge/transports/parameters.ts';

test('uses temperature 0 by default', () => {
  expect(readParameters()).toMatchObject({ temperature: 0, topP: undefined, maxTokens: undefined, other: {} });
  expect(readParameters({ temperature: 0.7 }).temperature).toBe(0.7);
});

test('sends no temperature with top_p, or to a model that thinks', () => {
  expect(readParameters({ top_p: 0.9 })).toMatchObject({ temperature: undefined, topP: 0.9 });
  expect(readParameters({ thinking: { type: 'enabled', budget_tokens: 2000 } }).temperature).toBeUndefined();
  expect(readParameters({ reasoning_effort: 'low' }).temperature).toBeUndefined();
  expect(readParameters({ thinking: { type: 'disabled' } }).temperature).toBe(0);
});

test('adds thinking tokens to the bound of the answer', () => {
  expect(answerBounds(readParameters({ thinking: { type: 'enabled', budget_tokens: 2000 } })).thinkingTokens).toBe(
    2000,
  );
  expect(answerBounds(readParameters({})).thinkingTokens).toBe(0);
});

test('accepts other spellings, and passes unknown parameters on', () => {
  expect(readParameters({ maxTokens: 900, topP: 0.5, stop_sequences: ['END'], top_k: 40 })).toMatchObject({
    maxTokens: 900,
    topP: 0.5,
    stop: ['END'],
    other: { top_k: 40 },
  });
});

test('names invalid parameters', () => {
  expect(() => readParameters({ temperature: 'low', max_tokens: -1 })).toThrow(
    expect.objectContaining({
      name: 'InvalidModelParameters',
      message: expect.stringMatching(/temperature: .*max_tokens: .*MLFLOW_EVALUATION_MODEL_PARAM/s),
    }),
  );
});

/** The inference parameters of the judge. */
import { answerSchema } from '../../../src/judge/answer/answer-schema.ts';
import type { Feature } from '../../../src/judge/errors.ts';
import { buildPrompt } from '../../../src/judge/prompt/build-prompt.ts';
import { bedrockTransport } from '../../../src/judge/transports/bedrock.ts';
import { chatBody } from '../../../src/judge/transports/chat.ts';
import { answerBounds, readParameters } from '../../../src/judge/transports/parameters.ts';
import { chatCapture, YES_NO_SCORERS } from './captures.ts';

/** A request to a model that lacks one feature, or none. */
const askOf = (lacking?: Feature) => ({
  prompt: buildPrompt(chatCapture(), YES_NO_SCORERS, 'json-schema'),
  schema: answerSchema(YES_NO_SCORERS),
  maxTokens: 77,
  supports: (feature: Feature) => feature !== lacking,
});

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
  expect(readParameters({ max_completion_tokens: 900, stopSequences: 'END' })).toMatchObject({
    maxTokens: 900,
    stop: ['END'],
    other: {},
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

test('asks Bedrock for a temperature only if there is one and the model accepts it', () => {
  const sent = (given: object, lacking?: Feature) =>
    bedrockTransport('m', readParameters({ ...given }), undefined, {} as never).request(askOf(lacking)).inferenceConfig;
  expect(sent({})).toStrictEqual({ maxTokens: 77, temperature: 0 });
  expect(sent({}, 'temperature')).toStrictEqual({ maxTokens: 77 });
  expect(sent({ top_p: 0.5 })).toStrictEqual({ maxTokens: 77, topP: 0.5 });
});

test('bounds a chat completion under the name that the server accepts', () => {
  expect(chatBody(askOf(), 'm', readParameters())).toHaveProperty('max_tokens', 77);
  expect(chatBody(askOf('max-tokens-name'), 'm', readParameters())).toHaveProperty('max_completion_tokens', 77);
});

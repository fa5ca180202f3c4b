/** Asking the model until it answers: waiting, retrying, and the form of answer. */
import { AdaptiveLimiter } from '../../../src/judge/calls/limiter.ts';
import { ModelCapabilities } from '../../../src/judge/calls/model-capabilities.ts';
import { CallFailure } from '../../../src/judge/errors.ts';
import { type ModelProperties, propertiesOf } from '../../../src/judge/models/model-properties.ts';
import { goodAnswer, scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chatCapture, YES_NO_SCORERS } from './captures.ts';

test('a service that demands a wait stops all calls, unless the wait is too long', async () => {
  const waits = [40, 5_000];
  for (const retryAfterMs of waits) {
    const limiter = new AdaptiveLimiter();
    const pause = jest.spyOn(limiter, 'pause');
    const { judge, asks } = scriptedJudge(
      ({ prompt }) => {
        if (asks.length === 1) throw new CallFailure('throttled', 'slow down', { retryAfterMs });
        return told(goodAnswer(prompt.scorers));
      },
      { limiter, retry: { attempts: 2, longestRetryAfterMs: 1_000 } },
    );
    await judge.judge(chatCapture(), YES_NO_SCORERS).catch(() => undefined);
    expect(pause.mock.calls).toEqual(retryAfterMs === 40 ? [[40]] : []);
  }
});

test('a call that waits for the first one ends when it is canceled', async () => {
  const capabilities = new ModelCapabilities(undefined);
  await capabilities.enter();
  const canceling = new AbortController();
  const waiting = capabilities.enter(canceling.signal);
  canceling.abort(new Error('out of time'));
  await expect(waiting).rejects.toThrow('out of time');
});

test('the strictest form that a model may accept', () => {
  const { refuses, ...rest } = propertiesOf('global.anthropic.claude-sonnet-5-5') as ModelProperties;
  const known = new ModelCapabilities({ ...rest, refuses });
  expect([known.rungFrom('json-schema'), known.rungFrom('tool')]).toEqual(['json-schema', 'prompt']);
  expect(new ModelCapabilities(undefined).rungFrom('tool')).toBe('tool');
  known.refuseRung('json-schema');
  expect(known.rungFrom('json-schema')).toBe('prompt');
});

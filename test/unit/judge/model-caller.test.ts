/** Asking the model until it answers: waiting, retrying, and the form of answer. */
import { AdaptiveLimiter } from '../../../src/judge/calls/limiter.ts';
import { looser, ModelCapabilities } from '../../../src/judge/calls/model-capabilities.ts';
import { CallFailure } from '../../../src/judge/errors.ts';
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
  const capabilities = new ModelCapabilities();
  await capabilities.enter();
  const canceling = new AbortController();
  const waiting = capabilities.enter(canceling.signal);
  canceling.abort(new Error('out of time'));
  await expect(waiting).rejects.toThrow('out of time');
});

test('the looser of two forms of answer', () => {
  expect(looser('json-schema', 'prompt')).toBe('prompt');
  expect(looser('prompt', 'tool')).toBe('prompt');
});

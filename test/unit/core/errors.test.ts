/** Named errors, and how they leave a function. What they show of other programs: silence.test.ts. */

import { causeOf, withinCause } from '../../../src/core/errors/cause.ts';
import { bareError, RetryableError } from '../../../src/core/errors/errors.ts';
import { afterAnswers, answeredBefore } from '../../../src/judge/errors.ts';

describe('an error', () => {
  const verdicts = [{ scorer: 'safety', outcome: 'verdict' as const, value: 'no', rationale: 'My SSN is' }];
  const spend = { calls: 1, inputTokens: 1, outputTokens: 1, usd: 0 };
  const cause = Object.assign(new TypeError('cannot read "My SSN is"\n    at home'), { body: 'My SSN is' });
  const throttled = new RetryableError('JudgeThrottled', 'throttled', {}, cause);
  const interrupted = afterAnswers(throttled, { spend, verdicts: verdicts as never });

  test('returns the judge’s answers, but does not expose them as a field', () => {
    expect(JSON.stringify(interrupted)).not.toContain('SSN');
    expect(answeredBefore(interrupted).verdicts).toEqual(verdicts);
  });

  test('keeps its name, message, stack frames and causes when it leaves a function', () => {
    const bare = bareError(interrupted);
    expect(bare).toMatchObject({ name: 'JudgeThrottled', message: 'throttled', cause: { name: 'TypeError' } });
    expect(bare.stack).toMatch(/^JudgeThrottled: throttled\n {4}at .*errors\.test\.ts/);
    for (const error of [bare, bare.cause as Error]) {
      expect(`${JSON.stringify(error)} ${error.message} ${error.stack}`).not.toMatch(/SSN|home/);
      expect(Object.keys(error)).toEqual(['name']);
    }
  });
});

it.each([
  ['a Lambda’s', '{"errorType":"CaptureChanged","errorMessage":"overwritten","trace":[]}', 'overwritten'],
  ['a service’s own', 'The state was too slow', 'The state was too slow'],
  ['JSON of another form', '{"message":"x"}', '{"message":"x"}'],
])('reads the cause of %s failure', (_, cause, expected) => expect(causeOf(cause)).toBe(expected));

it('shortens a cause to what a Fail state accepts', () => {
  expect(withinCause('short')).toBe('short');
  expect(withinCause('x'.repeat(100_000)).length).toBeLessThan(32_768);
});

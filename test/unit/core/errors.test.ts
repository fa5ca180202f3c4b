/** Tests of named errors, and of the words of other programs that they may contain. */

import { bareError, PermanentError, RetryableError, toNamedError } from '../../../src/core/errors/errors.ts';
import { knownWords } from '../../../src/core/errors/known-words.ts';
import { afterAnswers, answeredBefore } from '../../../src/judge/errors.ts';

describe('knownWords', () => {
  test.each([
    [
      '(psycopg2.errors.StringDataRightTruncation) value too long for type character varying(250)\n' +
        "[SQL: INSERT INTO trace_tags (key, value) VALUES (%(key)s, %(value)s)]\n[parameters: {'value': 'My SSN is 078-05-1120'}]",
      'psycopg2 errors StringDataRightTruncation value too long for type character varying … trace_tags key value',
    ],
    [
      'User: arn:aws:sts::1:assumed-role/x is not authorized to perform: bedrock:InvokeModel on resource: arn:aws:bedrock:y',
      'arn:aws:sts::1:assumed-role/x is not authorized to perform bedrock:InvokeModel on resource arn:aws:bedrock:y',
    ],
    ['<html><head><title>502 Bad Gateway</title></head>', 'title … Bad Gateway title'],
    ['Unexpected token \'p\', "patient Ada Lovelace" is not valid JSON', 'Unexpected token … is not valid JSON'],
  ])('%s', (text, words) => {
    const said = knownWords(text).replace(' … INSERT …', ' …').replace(' INSERT …', '');
    expect(said).toContain(words);
    expect(said).not.toMatch(/SSN|078|1120|Ada|patient/);
  });

  test('cuts a long text', () => {
    expect(knownWords('value '.repeat(1e6)).length).toBeLessThan(310);
  });
});

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

  test('ends its chain of causes if the chain is circular', () => {
    const error = new PermanentError('InvalidInput', 'x');
    error.cause = error;
    expect(bareError(error).message).toBe('x');
  });

  test('keeps only known words if it is from another program', () => {
    expect(toNamedError('the secret Ada')).toEqual({ name: 'Unknown', message: 'the secret …' });
  });
});

/** Tests of retries, their waits, and `Retry-After`. */
import { RetryableError } from '../../../src/core/errors/errors.ts';
import { readRetryAfter, waitAfter, withRetries } from '../../../src/core/process/retry.ts';

const POLICY = { attempts: 21, baseMs: 250, capMs: 15_000, longestRetryAfterMs: 60_000 };

test('spreads waits over the whole range, which doubles up to its cap', () => {
  const longest = [1, 2, 3, 4, 5, 6, 7, 20].map((attempt) => waitAfter(POLICY, attempt, undefined, () => 1));
  expect(longest).toEqual([250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
  expect(waitAfter(POLICY, 5, undefined, () => 0)).toBe(0);
});

test('waits for Retry-After, and up to a quarter longer; with 0 as usual', () => {
  expect(waitAfter(POLICY, 1, 4000, () => 0)).toBe(4000);
  expect(waitAfter(POLICY, 9, 4000, () => 1)).toBe(5000);
  expect(waitAfter(POLICY, 2, 0, () => 1)).toBe(500);
});

test('allows no retry after the last attempt, or when Retry-After is too long', () => {
  expect(waitAfter(POLICY, 20)).toBeDefined();
  expect(waitAfter(POLICY, 21)).toBeUndefined();
  expect(waitAfter(POLICY, 1, 60_001)).toBeUndefined();
});

test('retries retryable errors until the attempts are used up', async () => {
  const policy = { ...POLICY, attempts: 3, baseMs: 1 };
  let calls = 0;
  const failing = async (): Promise<void> => {
    calls += 1;
    throw new RetryableError('StorageUnavailable', 'no answer');
  };
  await expect(withRetries(policy, failing)).rejects.toMatchObject({ name: 'StorageUnavailable' });
  expect(calls).toBe(3);
});

test('does not retry other errors', async () => {
  let calls = 0;
  const failing = async (): Promise<void> => {
    calls += 1;
    throw new Error('wrong');
  };
  await expect(withRetries({ ...POLICY, baseMs: 1 }, failing)).rejects.toThrow('wrong');
  expect(calls).toBe(1);
});

test.each([
  ['7', 7000],
  ['0.5', 500],
  ['Fri, 20 Nov 2026 10:00:05 GMT', 5000],
  ['Fri, 20 Nov 2026 09:00:00 GMT', 0],
  ['soon', undefined],
  ['-3', undefined],
  ['', undefined],
  [null, undefined],
])('reads the Retry-After header %j as %j ms', (header, ms) => {
  expect(readRetryAfter(header, Date.parse('2026-11-20T10:00:00Z'))).toBe(ms);
});

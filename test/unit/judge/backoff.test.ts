import { DEFAULT_RETRY, pause, readRetryAfter, waitMs } from '../../../src/judge/transports/backoff.ts';

test('waits are spread over the whole range, which doubles up to its cap', () => {
  const most = [1, 2, 3, 4, 5, 6, 7, 20].map((attempt) => waitMs(attempt, DEFAULT_RETRY, undefined, () => 1));
  expect(most).toEqual([250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
  expect(waitMs(5, DEFAULT_RETRY, undefined, () => 0)).toBe(0);
});

test("the server's Retry-After is kept, with a little on top", () => {
  expect(waitMs(1, DEFAULT_RETRY, 4000, () => 0)).toBe(4000);
  expect(waitMs(9, DEFAULT_RETRY, 4000, () => 1)).toBe(5000);
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
])('Retry-After %j is %j ms', (header, ms) => {
  expect(readRetryAfter(header, Date.parse('2026-11-20T10:00:00Z'))).toBe(ms);
});

test('a pause ends with the reason of the signal', async () => {
  const abort = new AbortController();
  setTimeout(() => abort.abort(new Error('out of time')), 5);
  await expect(pause(10_000, abort.signal)).rejects.toThrow('out of time');
  await pause(1);
});

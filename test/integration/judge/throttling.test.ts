/** Throttling and failures: no verdict is lost or paid twice, the service is not flooded, and judging ends in time. */
import { setTimeout } from 'node:timers/promises';
import { PipelineError, wordsIn } from '../../../src/core/errors/errors.ts';
import { forEachConcurrently } from '../../../src/core/process/concurrency.ts';
import { JUDGE_RETRY } from '../../../src/judge/calls/model-caller.ts';
import { answeredBefore } from '../../../src/judge/errors.ts';
import type { Judge, JudgeResult } from '../../../src/judge/types.ts';
import { chatCapture } from '../../unit/judge/captures.ts';
import { CHAT_SCORERS, MODEL, outcomesOf, PARCEL_VERDICTS, userTextOf, useStandIn } from './setup.ts';

const rig = useStandIn();
const captureOf = (i: number) =>
  chatCapture({ user: `Where is my parcel ${i}?`, reply: `Your parcel ${i} will be delivered tomorrow.` });

/** Judges captures with the concurrency of the evaluator. */
async function judgeAll(judge: Judge, count: number, atOnce = 48): Promise<JudgeResult[]> {
  const results: JudgeResult[] = [];
  await forEachConcurrently(atOnce, Array(count).keys(), async (i) => {
    results[i] = await judge.judge(captureOf(i), CHAT_SCORERS);
  });
  return results;
}

async function failureOf(promise: Promise<unknown>): Promise<PipelineError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof PipelineError) return error;
  throw new Error(`not an error of the judge: ${String(error)}`);
}

test('gets every verdict on 500 captures with half of all calls throttled, and pays none twice', async () => {
  const CAPTURES = 500;
  rig.behave({ throttleShare: 0.5, seed: 7 });
  const results = await judgeAll(rig.judge(), CAPTURES);
  const { counts } = rig.standIn;
  expect(results).toHaveLength(CAPTURES);
  for (const result of results) expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
  expect(counts.answered).toBe(CAPTURES);
  expect(counts.throttled).toBeGreaterThan(CAPTURES * 0.8);
  expect(counts.calls).toBe(counts.answered + counts.throttled);
  const paid = results.reduce((sum, { spend }) => sum + spend.inputTokens, 0);
  expect(paid).toBe(counts.inputTokens);
  // Each capture was answered once: no two answered calls are about the same capture.
  const answered = rig.standIn.recorded
    .filter(({ status }) => status === 200)
    .map((call) => /parcel (\d+)\?/.exec(userTextOf(call))?.[1]);
  expect(new Set(answered).size).toBe(CAPTURES);
});

test('uses the account’s rate well, without a flood of refused calls', async () => {
  rig.behave({ callsPerSecond: 50, delayMs: 100 });
  const startedAt = Date.now();
  await judgeAll(rig.judge({ retry: JUDGE_RETRY }), 150);
  const { answered, throttled } = rig.standIn.counts;
  expect(answered).toBe(150);
  // 50 calls are available at the start, so 150 take at least two seconds; three were measured.
  expect(Date.now() - startedAt).toBeLessThan(15_000);
  expect(throttled).toBeLessThan(answered);
});

describe('transient failures', () => {
  test.each([
    ['a service that is not available', { errorShare: 1, errorStatus: 503 }],
    ['an internal error', { errorShare: 1, errorStatus: 500, errorType: 'InternalServerException' }],
    ['a model that timed out', { errorShare: 1, errorStatus: 408, errorType: 'ModelTimeoutException' }],
    ['a model that failed', { errorShare: 1, errorStatus: 424, errorType: 'ModelErrorException' }],
    ['a connection that is cut', { dropShare: 1 }],
  ])('retries after %s', async (_, behavior) => {
    rig.behave({ ...behavior, faultyCalls: 3 });
    const result = await rig.judge().judge(captureOf(1), CHAT_SCORERS);
    expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
    expect(result.spend.calls).toBe(1);
    expect(rig.standIn.counts).toMatchObject({ calls: 4, answered: 1 });
  });
});

describe('lasting failures', () => {
  const retry = { baseMs: 1, capMs: 2, attempts: 4 };

  test('end as JudgeThrottled, which is retryable, after throttling', async () => {
    rig.behave({ throttleShare: 1 });
    const error = await failureOf(rig.judge({ retry }).judge(captureOf(1), CHAT_SCORERS));
    expect(error).toMatchObject({ name: 'JudgeThrottled' });
    expect(answeredBefore(error)).toMatchObject({ verdicts: [], spend: { calls: 0, inputTokens: 0, usd: 0 } });
    expect(error.message).toContain('got: ThrottlingException: HTTP 429');
    expect(error.message).toContain(`where: bedrock:/${MODEL}`);
    expect(error.cause).toBeInstanceOf(Error);
    expect(rig.standIn.counts.calls).toBe(4);
  });

  test('end as JudgeUnavailable after an outage', async () => {
    rig.behave({ errorShare: 1 });
    expect(await failureOf(rig.judge({ retry }).judge(captureOf(1), CHAT_SCORERS))).toMatchObject({
      name: 'JudgeUnavailable',
    });
    rig.behave({ dropShare: 1 });
    expect(await failureOf(rig.judge({ retry }).judge(captureOf(1), CHAT_SCORERS))).toMatchObject({
      name: 'JudgeUnavailable',
    });
  });

  test.each([
    ['in a call', { delayMs: 60_000 }, 1],
    ['between attempts', { throttleShare: 1 }, 3],
  ])('ends immediately when aborted, %s', async (_, behavior, calls) => {
    rig.behave(behavior);
    const startedAt = Date.now();
    const judge = rig.judge({ retry: { baseMs: 60_000, capMs: 60_000 } });
    const abortion = new AbortController();
    const judged = [1, 2, 3].map((i) => judge.judge(captureOf(i), CHAT_SCORERS, abortion.signal));
    // The first call runs alone until it is answered. A call in flight would be counted in the next test.
    const results = Promise.allSettled(judged);
    while (rig.standIn.counts.calls < calls) await setTimeout(5);
    abortion.abort(new DOMException('the time is over', 'TimeoutError'));
    for (const result of await results) {
      expect(result).toMatchObject({
        status: 'rejected',
        reason: { name: 'ChunkOutOfTime', cause: { name: 'TimeoutError' } },
      });
    }
    expect(Date.now() - startedAt).toBeLessThan(20_000);
  });
});

describe('refusals', () => {
  test.each([
    ['denied', 'AccessDeniedException: HTTP 403', /You don't have access/],
    ['missing', 'ResourceNotFoundException: HTTP 404', /Could not resolve the foundation model/],
    ['ended', 'ResourceNotFoundException: HTTP 404', /This model version has reached the end of its life/],
    ['legacy', 'ResourceNotFoundException: HTTP 404', /marked by provider as Legacy/],
    ['invalid', 'ValidationException: HTTP 400', /The provided model identifier is invalid/],
  ] as const)(
    'stop the run with JudgeRefused at the first call of a model that is %s',
    async (state, message, words) => {
      rig.behave({ models: { [MODEL]: { state } } });
      const error = await failureOf(rig.judge().judge(captureOf(1), CHAT_SCORERS));
      expect(error).toMatchObject({ name: 'JudgeRefused' });
      expect(error.message).toContain(message);
      expect(wordsIn(error).join()).toMatch(words);
      expect(rig.standIn.counts.calls).toBe(1);
    },
  );

  test('are retryable for expired credentials', async () => {
    rig.behave({ errorShare: 1, errorStatus: 403, errorType: 'ExpiredTokenException' });
    expect(await failureOf(rig.judge().judge(captureOf(1), CHAT_SCORERS))).toMatchObject({
      name: 'CredentialsExpired',
    });
  });

  test('stop the run if the model refuses the canary question as well', async () => {
    rig.behave({ errorShare: 1, errorStatus: 400, errorType: 'ValidationException' });
    const error = await failureOf(rig.judge().judge(captureOf(1), CHAT_SCORERS));
    expect(error).toMatchObject({ name: 'JudgeRefused' });
    const asked = rig.standIn.recorded.map((call) =>
      userTextOf(call).includes('capital of France') ? 'harmless' : 'capture',
    );
    expect(asked).toEqual(['capture', 'capture', 'capture', 'harmless', 'harmless', 'harmless']);
  });

  test('concern only the capture after the model has answered others', async () => {
    const judge = rig.judge();
    await judge.judge(captureOf(1), CHAT_SCORERS);
    rig.behave({ errorShare: 1, errorStatus: 400, errorType: 'ValidationException', faultyCalls: 1 });
    const refused = await judge.judge(captureOf(2), CHAT_SCORERS);
    expect(new Set(Object.values(outcomesOf(refused)))).toEqual(new Set(['JudgeInputRejected']));
    expect(rig.standIn.counts.calls).toBe(1);
  });
});

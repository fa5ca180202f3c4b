/** The judge behind the limits: the breaker and the tokens of all functions. */

import { RetryableError } from '../../../src/core/errors/errors.ts';
import { drainThrottles } from '../../../src/core/process/throttles.ts';
import { answeredBefore, CallFailure, JudgeHeld, JudgePaused } from '../../../src/judge/errors.ts';
import { quotaTokens } from '../../../src/judge/pricing/call-amounts.ts';
import type { Breaker } from '../../../src/limits/breaker.ts';
import type { JudgeLimits } from '../../../src/limits/limits.ts';
import { isRepeated } from '../../../src/monitoring/chunk/attempt.ts';
import { parseInvocation, withinLimits } from '../../../src/monitoring/invocation.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { goodAnswer, scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatCapture, YES_NO_SCORERS } from './captures.ts';

class FakeBreaker implements Breaker {
  openUntilMs: number | undefined;
  forDay = false;
  readonly reports: string[] = [];
  check = async () => this.openUntilMs;
  report = async (kind: string) => {
    this.reports.push(kind);
  };
}

let breaker: FakeBreaker;
let limits: JudgeLimits;
beforeEach(() => {
  breaker = new FakeBreaker();
  limits = { breaker };
  drainThrottles();
});

test('a call is reported with its outcome, and throttling is counted', async () => {
  const ends = ['throttled', 'unavailable', undefined] as const;
  const { judge, asks } = scriptedJudge(
    ({ prompt }) => {
      const kind = ends[asks.length - 1];
      if (kind !== undefined) throw new CallFailure(kind, 'not now');
      return told(goodAnswer(prompt.scorers));
    },
    { limits, retry: { baseMs: 1, capMs: 1 } },
  );
  await judge.judge(chatCapture(), YES_NO_SCORERS);
  expect(breaker.reports).toEqual(['throttled', 'other', 'answered']);
  expect(drainThrottles()).toEqual({ judge: 1, mlflow: 0, table: 0, storage: 0, chunks: 0 });
});

test('an open breaker stops the judging at once, without a call', async () => {
  const { judge, asks } = scriptedJudge(({ prompt }) => told(goodAnswer(prompt.scorers)), { limits });
  const clock = jest.spyOn(Date, 'now').mockReturnValue(1000);
  breaker.openUntilMs = 61_000;
  const paused = await judge.judge(chatCapture(), YES_NO_SCORERS).catch((error: unknown) => error);
  expect(paused).toBeInstanceOf(JudgePaused);
  expect(paused).toMatchObject({ name: 'JudgeThrottled', retryAfterMs: 60_000 });
  breaker.forDay = true;
  const held = await judge.judge(chatCapture(), YES_NO_SCORERS).catch((error: unknown) => error);
  expect(held).toBeInstanceOf(JudgeHeld);
  expect(held).toMatchObject({ heldFor: 'providerDay' });
  expect(asks).toEqual([]);
  clock.mockRestore();
  // The alarm stays on while no call is made.
  expect(drainThrottles()).toMatchObject({ judge: 2 });
  expect(breaker.reports).toEqual([]);
});

test('a quota of the day is held without a retry, also without a limits', async () => {
  for (const options of [{ limits }, {}]) {
    const { judge, asks } = scriptedJudge(() => {
      throw new CallFailure('day', 'Too many tokens per day');
    }, options);
    const held = await judge.judge(chatCapture(), YES_NO_SCORERS).catch((error: unknown) => error);
    expect(held).toMatchObject({ name: 'JudgeHeld', heldFor: 'providerDay' });
    expect(answeredBefore(held).spend.calls).toBe(0);
    expect(asks).toHaveLength(1);
  }
  expect(breaker.reports).toEqual(['perDay']);
});

test('a call takes the tokens of its worst case, and returns unused ones', async () => {
  const taken: number[] = [];
  const given: number[] = [];
  limits.tokens = {
    acquire: async (n) => {
      taken.push(n);
    },
    give: (n) => {
      given.push(n);
    },
  };
  const usage = { inputTokens: 1200, outputTokens: 100 };
  const { judge, asks } = scriptedJudge(
    ({ prompt }) => {
      if (asks.length === 1) throw new CallFailure('throttled', 'not now');
      return told(goodAnswer(prompt.scorers), { usage });
    },
    { limits, retry: { baseMs: 1, capMs: 1 } },
  );
  await judge.judge(chatCapture(), YES_NO_SCORERS);
  expect(taken).toHaveLength(2);
  expect(given[0]).toBe(taken[0]);
  expect((taken[1] ?? 0) - (given[1] ?? 0)).toBe(quotaTokens(judge.sourceId, usage));
});

test('an answer of a newer Claude counts five times, and reading from the cache not at all', () => {
  const usage = { inputTokens: 100, outputTokens: 10, cacheReadInputTokens: 500, cacheWriteInputTokens: 7 };
  expect(quotaTokens('bedrock:/us.anthropic.claude-sonnet-4-6', usage)).toBe(157);
  expect(quotaTokens('bedrock:/anthropic.claude-3-haiku-20240307-v1:0', usage)).toBe(117);
  expect(quotaTokens('openai:/gpt-5', usage)).toBe(117);
});

describe('a chunk', () => {
  const request = { attempt: 4, progress: { kills: 1 } } as never;
  const work = async () => ({ lines: 3 });
  const done = { kills: 0, attempts: 0, waitSeconds: 0 };
  const permitsThat = (acquired: 'acquired' | { waitSeconds: number }) => ({
    acquire: jest.fn(async (_waited?: number) => acquired),
    release: jest.fn(async () => {}),
  });

  test('is processed while there is a permit, which it releases', async () => {
    const permits = permitsThat('acquired');
    expect(await withinLimits({ permits }, request, work)).toEqual(done);
    expect(permits.release).toHaveBeenCalledTimes(1);
    await expect(withinLimits({ permits }, request, () => Promise.reject(new Error('broken')))).rejects.toThrow(
      'broken',
    );
    expect(permits.release).toHaveBeenCalledTimes(2);
    expect(await withinLimits({}, request, work)).toEqual(done);
  });

  test('is left as it is for later when there is none, or when the judge is paused', async () => {
    const permits = permitsThat({ waitSeconds: 17 });
    const later = { kills: 1 };
    // Without a permit nothing was attempted, and Step Functions counts again after the wait.
    expect(await withinLimits({ permits }, request, work)).toEqual({ ...later, attempts: 4, waitSeconds: 17 });
    expect(permits.release).not.toHaveBeenCalled();
    const again = { progress: { kills: 0, waitSeconds: 9 } } as never;
    await withinLimits({ permits }, again, work);
    expect(permits.acquire.mock.calls).toEqual([[undefined], [9]]);
    const pause = (ms: number) => withinLimits({}, request, () => Promise.reject(new JudgePaused({}, undefined, ms)));
    for (const [ms, least, most] of [
      [60_000, 60, 75],
      [86_400_000, 900, 1125],
      [1, 1, 2],
    ] as const) {
      const { waitSeconds, ...rest } = (await pause(ms)) as { waitSeconds: number };
      expect(rest).toEqual({ ...later, attempts: 5 });
      expect(waitSeconds).toBeGreaterThanOrEqual(least);
      expect(waitSeconds).toBeLessThanOrEqual(most);
    }
  });

  test('that MLflow throttles waits for 15 s, and for as long as MLflow says or its breaker is open', async () => {
    const throttled = (retryAfterMs?: number) =>
      new RetryableError('MlflowThrottled', 'slow', {}, undefined, retryAfterMs);
    for (const [openMs, retryAfterMs, least] of [
      [0, undefined, 15],
      [0, 60_000, 60],
      [100_000, 60_000, 100],
      [0, 86_400_000, 900],
    ] as const) {
      const wait = async () => {
        breaker.openUntilMs = openMs === 0 ? undefined : Date.now() + openMs;
        throw throttled(retryAfterMs);
      };
      breaker.openUntilMs = undefined;
      const answer = await withinLimits({ mlflow: { breaker } }, request, wait);
      const { waitSeconds, ...rest } = answer as { waitSeconds: number };
      expect(rest).toEqual({ kills: 1, attempts: 5 });
      expect(waitSeconds).toBeGreaterThanOrEqual(least - 1);
      expect(waitSeconds).toBeLessThanOrEqual(Math.ceil(1.25 * least));
    }
  });

  test.each(['BudgetTableThrottled', 'StorageThrottled'] as const)(
    'waits for %s, each time twice as long',
    async (name) => {
      const throttled = () => Promise.reject(new RetryableError(name, 'slow'));
      for (const [waited, least] of [
        [undefined, 15],
        [15, 30],
        [100, 200],
        [800, 900],
      ] as const) {
        const progress = { kills: 1, waitSeconds: waited };
        const answer = await withinLimits({}, { attempt: 4, progress } as never, throttled);
        const { waitSeconds, ...rest } = answer as { waitSeconds: number };
        expect(rest).toEqual({ kills: 1, attempts: 5 });
        expect(waitSeconds).toBeGreaterThanOrEqual(least);
        expect(waitSeconds).toBeLessThanOrEqual(Math.ceil(1.25 * least));
      }
    },
  );

  test('is not begun while the breaker of MLflow is open, and ends a trial that asked nothing', async () => {
    expect(await withinLimits({ mlflow: { breaker } }, request, work)).toEqual(done);
    expect(breaker.reports).toEqual(['other']);
    breaker.openUntilMs = Date.now() + 60_000;
    const permits = permitsThat('acquired');
    const begun = jest.fn(work);
    const later = (await withinLimits({ permits, mlflow: { breaker } }, request, begun)) as { waitSeconds: number };
    expect(later).toMatchObject({ kills: 1, attempts: 4 });
    expect(later.waitSeconds).toBeGreaterThan(55);
    expect(begun).not.toHaveBeenCalled();
    expect(permits.release).toHaveBeenCalledTimes(1);
    // The alarm stays on while no call is made.
    expect(drainThrottles()).toMatchObject({ mlflow: 1 });
  });

  test('continues its attempt numbers after a wait', () => {
    const progress = { kills: 0, attempts: 5, waitSeconds: 3 };
    const event = { ...chunkRequest(new MemoryStorage(), ['{}']), attempt: 2, progress };
    const invocation = parseInvocation(event);
    if (invocation.kind !== 'chunk') throw new Error(invocation.kind);
    expect(invocation.request.attempt).toBe(7);
    expect(isRepeated(invocation.request)).toBe(true);
  });

  test('that fails again and again between its waits fails for good at last', async () => {
    const failures = [new JudgePaused({}, undefined, 1), new RetryableError('MlflowUnavailable', 'away')];
    for (const failure of failures) {
      const attempt = (n: number) => withinLimits({}, { attempt: n } as never, () => Promise.reject(failure));
      const message = expect.stringContaining(failure.name);
      await expect(attempt(999)).rejects.toMatchObject({ name: 'RetriesUsedUp', message });
      const before = await attempt(998).catch((error: Error) => error);
      expect(before).not.toMatchObject({ name: 'RetriesUsedUp' });
    }
  });
});

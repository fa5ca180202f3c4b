/** The judge with a scripted model: what judging may cost, and whether a failure concerns one capture or all. */
import fc from 'fast-check';
import type { Capture } from '../../../src/captures/types.ts';
import { RetryableError } from '../../../src/core/errors/errors.ts';
import { answeredBefore, CallFailure } from '../../../src/judge/errors.ts';
import { divideCall } from '../../../src/judge/pricing/call-amounts.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { sumUsage } from '../../../src/judge/spend.ts';
import type { Ask } from '../../../src/judge/transports/transport.ts';
import type { ModelAnswer } from '../../../src/judge/types.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { goodAnswer, priceOf, scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chatCapture } from './captures.ts';

const scorers = scorersFor().filter(isJudgeScorer);
const two = scorers.slice(0, 2);

/** A limit that records reservations and settlements. */
function recordingLimit(room = Number.POSITIVE_INFINITY) {
  const log: [reserved: number, settled: number | undefined][] = [];
  let left = room;
  return {
    log,
    reserve: async (usd: number) => {
      if (usd > left) return 'held' as const;
      left -= usd;
      const entry: (typeof log)[number] = [usd, undefined];
      log.push(entry);
      const settle = async (actual: number): Promise<void> => {
        entry[1] = actual;
      };
      return { settle };
    },
  };
}

describe('a cap', () => {
  /** Tokens as a model may count them: 1.2 times the estimate, and an answer of maximum length. */
  const counted = (ask: Ask, text: string): ModelAnswer['usage'] => ({
    inputTokens: Math.round(((ask.prompt.system.length + text.length + JSON.stringify(ask.schema).length) / 4) * 1.2),
    outputTokens: ask.maxTokens,
  });
  const MODELS: Record<string, (ask: Ask, text: string) => ModelAnswer> = {
    'in their form': (ask, text) => told(goodAnswer(ask.prompt.scorers), { usage: counted(ask, text) }),
    'prose instead of JSON': (ask, text) => told('It is a fine reply.', { usage: counted(ask, text) }),
    'cut at their bound': (ask, text) => told('{"safety": {"ratio', { stop: 'cut', usage: counted(ask, text) }),
  };

  it.each(Object.keys(MODELS))('is not exceeded if answers are %s', async (kind) => {
    const { judge, asks } = scriptedJudge(MODELS[kind]);
    const cap = 0.5;
    const limit = new OwnLimit(cap);
    const judged = async (): Promise<number> => {
      const result = await judge.judge(chatCapture(), scorers, undefined, { limit }).catch(answeredBefore);
      return result.spend.usd ?? Number.NaN;
    };
    const spent = (await Promise.all(Array.from({ length: 100 }, judged))).reduce((sum, usd) => sum + usd, 0);
    expect(asks.length).toBeGreaterThan(5);
    expect(spent).toBeLessThanOrEqual(cap);
    // The rest is less than the cost of one more of the most expensive rounds.
    expect(spent).toBeGreaterThan(cap * 0.8);
  });

  it('is checked before each round, with the bound of a longer answer', async () => {
    let rounds = 0;
    const { judge, asks } = scriptedJudge(({ prompt, maxTokens }) => {
      rounds += 1;
      const usage = { inputTokens: 100, outputTokens: maxTokens };
      return rounds < 3 ? told('{"saf', { stop: 'cut', usage }) : told(goodAnswer(prompt.scorers), { usage });
    });
    const limit = recordingLimit();
    await judge.judge(chatCapture(), two, undefined, { limit });
    expect(limit.log).toHaveLength(3);
    limit.log.forEach(([reserved, settled], round) => {
      expect(settled).toBeCloseTo(priceOf({ inputTokens: 100, outputTokens: asks[round]?.maxTokens ?? 0 }), 12);
      expect(reserved).toBeGreaterThan(settled ?? 0);
    });
    expect(limit.log[2]?.[0]).toBeGreaterThan(2 * (limit.log[0]?.[0] ?? 0));
  });

  it('holds missing verdicts, and keeps existing ones', async () => {
    const { judge, asks } = scriptedJudge(({ prompt }) => told(goodAnswer(prompt.scorers.slice(0, 1))));
    const { judge: unlimited } = scriptedJudge();
    const once = unlimited.maxCostUsd(chatCapture(), two) ?? 0;
    const held = await judge
      .judge(chatCapture(), two, undefined, { limit: recordingLimit(once * 1.2) })
      .catch((error) => error);
    expect(held).toMatchObject({ name: 'JudgeHeld' });
    expect(answeredBefore(held).spend).toMatchObject({ calls: 1 });
    expect(answeredBefore(held).verdicts).toMatchObject([{ scorer: two[0]?.name, outcome: 'verdict' }]);
    expect(asks).toHaveLength(1);
  });

  it('covers the canary question after a refusal', async () => {
    const { judge } = scriptedJudge((ask, text) => {
      if (text.includes('capital of France')) return told(goodAnswer(ask.prompt.scorers));
      throw new CallFailure('rejected', 'no');
    });
    const limit = recordingLimit();
    const { verdicts } = await judge.judge(chatCapture(), two, undefined, { limit });
    expect(verdicts).toMatchObject([{ error: { code: 'JudgeInputRejected' } }, { error: {} }]);
    expect(limit.log.map(([, settled]) => settled)).toEqual([0, priceOf({ inputTokens: 1000, outputTokens: 100 })]);
  });

  it('is not refunded when a judge reports a negative cost', async () => {
    const usage = { inputTokens: -5000, outputTokens: 10 };
    const { judge } = scriptedJudge(({ prompt }) => told(goodAnswer(prompt.scorers), { usage }));
    const limit = recordingLimit();
    const { spend } = await judge.judge(chatCapture(), two, undefined, { limit });
    expect(spend.usd).toBeGreaterThan(0);
    expect(limit.log[0]?.[1]).toBe(spend.usd);
    const free = scriptedJudge(undefined, { price: () => -0.01 });
    expect((await free.judge.judge(chatCapture(), two)).spend.usd).toBe(0);
    const own = new OwnLimit(1);
    const reservation = await own.reserve(1);
    if (reservation !== 'held') await reservation.settle(-5);
    expect(await own.reserve(1.5)).toBe('held');
  });

  it('ends the capture with the earlier verdicts if the cap fails', async () => {
    const { judge } = scriptedJudge(({ prompt }) => told(goodAnswer(prompt.scorers.slice(0, 1))));
    let asked = 0;
    const reserve = async () => {
      asked += 1;
      if (asked > 1) throw new RetryableError('BudgetTableUnavailable', 'no table');
      return { settle: async () => Promise.reject(new Error('not now')) };
    };
    const failure = await judge.judge(chatCapture(), two, undefined, { limit: { reserve } }).catch((error) => error);
    expect(failure).toMatchObject({ name: 'BudgetTableUnavailable' });
    expect(answeredBefore(failure)).toMatchObject({ verdicts: [{ outcome: 'verdict' }], spend: { calls: 1 } });
  });

  it('is not checked for the answer of a batch job', async () => {
    const { judge, asks } = scriptedJudge();
    const limit = recordingLimit();
    const answer = told(goodAnswer(two.slice(0, 1)));
    const { verdicts, spend } = await judge.judge(chatCapture(), two, undefined, { limit, answer });
    expect(verdicts.map(({ outcome }) => outcome)).toEqual(['verdict', 'verdict']);
    expect([asks.length, limit.log.length, spend.calls]).toEqual([1, 1, 2]);
  });
});

test('does not blame a capture that is reached after the deadline: the next attempt asks', async () => {
  const { judge, asks } = scriptedJudge();
  await expect(judge.judge(chatCapture(), two, AbortSignal.abort())).rejects.toMatchObject({ name: 'ChunkOutOfTime' });
  expect(asks).toEqual([]);
});

describe('a capture that triggers an exception', () => {
  const nested = (): unknown => {
    let value: unknown = [];
    for (let depth = 0; depth < 50_000; depth += 1) value = [value];
    return value;
  };
  const HOSTILE: Record<string, Capture> = {
    'tools nested 50,000 deep': chatCapture({ tools: [nested()] }),
    'a message that is null': chatCapture({ messages: [null] as never }),
  };

  it.each(Object.keys(HOSTILE))('gets error verdicts and is not an outage: %s', async (kind) => {
    const { judge, asks } = scriptedJudge();
    const verdicts = await Promise.all([judge.judge(HOSTILE[kind] as Capture, two), judge.judge(chatCapture(), two)]);
    expect(verdicts[0]).toMatchObject({
      verdicts: two.map(({ name }) => ({
        scorer: name,
        outcome: 'error',
        error: { code: 'JudgeCaptureFailed', message: expect.stringMatching(/^(RangeError|TypeError) in \S+$/) },
      })),
      spend: { calls: 0, usd: 0 },
    });
    expect(verdicts[1]?.verdicts).toMatchObject([{ outcome: 'verdict' }, { outcome: 'verdict' }]);
    expect(asks).toHaveLength(1);
  });

  it.each([{}, 5, [null], 'x', [{ function: 7 }]])('does not include one with the tool calls %j', async (calls) => {
    const { judge } = scriptedJudge();
    const odd = [{ role: 'user', content: 'hi', tool_calls: calls }] as never;
    for (const capture of [chatCapture({ messages: odd }), chatCapture({ replies: odd })]) {
      expect((await judge.judge(capture, two)).verdicts).toMatchObject([
        { outcome: 'verdict' },
        { outcome: 'verdict' },
      ]);
    }
  });
});

test('divides a call so that tokens and money sum to the whole', () => {
  const tokens = fc.nat(200_000);
  fc.assert(
    fc.property(
      tokens,
      tokens,
      tokens,
      fc.array(fc.nat(2000), { minLength: 1, maxLength: 15 }),
      fc.double({ min: 0, max: 1e-4, noNaN: true }),
      (inputTokens, outputTokens, cacheReadInputTokens, chars, rate) => {
        const price = (usage: { inputTokens: number; outputTokens: number; cacheReadInputTokens?: number }) =>
          usage.inputTokens * rate + usage.outputTokens * 5 * rate + (usage.cacheReadInputTokens ?? 0) * 0.1 * rate;
        const usage = { inputTokens, outputTokens, cacheReadInputTokens };
        const parts = divideCall(usage, price, chars);
        const total = parts.reduce(sumUsage);
        expect(total.inputTokens).toBe(inputTokens + cacheReadInputTokens);
        expect(total.outputTokens).toBe(outputTokens);
        expect(total.usd).toBe(Math.round(price(usage) * 1e12) / 1e12);
        for (const part of parts) for (const count of Object.values(part)) expect(count).toBeGreaterThanOrEqual(0);
      },
    ),
  );
});

test('assigns more output to the longer answer, and equal parts of the input', () => {
  const price = ({ inputTokens, outputTokens }: { inputTokens: number; outputTokens: number }) =>
    inputTokens * 1e-6 + outputTokens * 5e-6;
  const [short, long] = divideCall({ inputTokens: 100, outputTokens: 40 }, price, [10, 30]);
  expect(short).toEqual({ inputTokens: 50, outputTokens: 10, usd: 0.0001 });
  expect(long).toEqual({ inputTokens: 50, outputTokens: 30, usd: 0.0002 });
  // The first ones, and the largest remainders, get the rest.
  const parts = divideCall({ inputTokens: 10, outputTokens: 10 }, price, [1, 2, 4]);
  expect(parts.map(({ inputTokens, outputTokens }) => `${inputTokens} ${outputTokens}`)).toEqual(['4 1', '3 3', '3 6']);
  expect(divideCall({ inputTokens: 0, outputTokens: 10 }, price, [0, 0])[1]).toMatchObject({ outputTokens: 5 });
});

test('keeps an unknown price unknown', () => {
  const [part] = divideCall({ inputTokens: 10, outputTokens: 5 }, () => null, [1]);
  expect(part).toEqual({ inputTokens: 10, outputTokens: 5, usd: null });
  const known = { inputTokens: 1, outputTokens: 1, usd: 5 };
  expect(sumUsage(known, { ...known, usd: null }).usd).toBeNull();
});

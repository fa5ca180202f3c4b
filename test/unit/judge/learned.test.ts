/** What the calls of a model have taught: the bound of the next answer, and what the model refuses. */
import { setTimeout as sleep } from 'node:timers/promises';
import { CallFailure } from '../../../src/judge/errors.ts';
import { Learned } from '../../../src/judge/models/learned.ts';
import { createCostEstimator } from '../../../src/judge/pricing/estimate.ts';
import { priceCall } from '../../../src/judge/pricing/prices.ts';
import type { Ask } from '../../../src/judge/transports/transport.ts';
import type { CallUsage } from '../../../src/judge/types.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { goodAnswer, type ScriptedJudge, scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chatCapture, YES_NO_SCORERS } from './captures.ts';

const OWN = 1_000;
const DAY_MS = 86_400_000;

const learnedOf = (table: MemoryTable, now: () => number = Date.now) => new Learned('m', memoryLimits(table), now);

test.each([0, 1, 25, 49])(
  'one capture in fifty that thinks 20 times as long moves no bound (first: the %ith)',
  (at) => {
    const [even, odd] = [new Learned('m'), new Learned('m')];
    for (let capture = 0; capture < 400; capture += 1) {
      even.answered(1_500);
      odd.answered(capture % 50 === at ? 30_000 : 1_500);
      expect(odd.bound(OWN)).toBeLessThanOrEqual(even.bound(OWN) * 1.1);
    }
    expect(odd.bound(OWN)).toBeGreaterThan(1_500);
  },
);

test('a bound is at least the form’s own and at most four times that, and follows what models do now', () => {
  const learned = new Learned('m');
  for (let answer = 0; answer < 200; answer += 1) learned.answered(9_000);
  expect(learned.bound(OWN)).toBe(4 * OWN);
  for (let answer = 0; answer < 200; answer += 1) learned.answered(100);
  expect(learned.bound(OWN)).toBe(OWN);
});

/** Needs this many tokens for an answer, and is cut at a lower bound. */
const thinking =
  (tokens: number) =>
  ({ prompt, maxTokens }: Ask) => {
    const usage = { inputTokens: 1_000, outputTokens: Math.min(tokens, maxTokens) };
    return tokens > maxTokens ? told('{', { stop: 'cut', usage }) : told(goodAnswer(prompt.scorers), { usage });
  };
const own = 100 + 130 * YES_NO_SCORERS.length;
const captures = Array.from({ length: 40 }, (_, n) => chatCapture({ user: `Where is my parcel ${n}?` }));

const judgeAll = ({ judge }: ScriptedJudge) =>
  Promise.all(captures.map((capture) => judge.judge(capture, YES_NO_SCORERS)));

test('a model that thinks is cut twice by the first function, whatever it judges at once, and by no other one', async () => {
  const table = new MemoryTable();
  for (const asked of [42, 40]) {
    const learned = learnedOf(table);
    const scripted = scriptedJudge(thinking(own * 1.7), { learned });
    await judgeAll(scripted);
    expect(scripted.asks).toHaveLength(asked);
    await learned.save();
  }
});

test('without the table, memory alone; throttling, and answers that fit, keep no capture waiting', async () => {
  const table = new MemoryTable();
  jest.spyOn(table, 'send').mockRejectedValue(new Error('no table'));
  const learned = learnedOf(table);
  const scripted = scriptedJudge(
    ({ prompt }) => {
      if (scripted.asks.length < 3) throw new CallFailure('throttled', 'slow down');
      return told(goodAnswer(prompt.scorers));
    },
    { learned },
  );
  await judgeAll(scripted);
  await learned.save();
  expect(scripted.asks).toHaveLength(42);
});

test('who gives up waiting for the first capture lets nobody else begin', async () => {
  const first = Promise.withResolvers<void>();
  const { judge, asks } = scriptedJudge(async ({ prompt }) => {
    await first.promise;
    return told(goodAnswer(prompt.scorers));
  });
  const signals = [undefined, AbortSignal.timeout(5), undefined];
  const judged = signals.map((signal) => judge.judge(chatCapture(), YES_NO_SCORERS, signal));
  await expect(judged[1]).rejects.toThrow('canceled');
  await sleep(5);
  expect(asks).toHaveLength(1);
  first.resolve();
  await Promise.all([judged[0], judged[2]]);
});

test('an answer that is cut at its highest bound is not asked for again, whatever bound a refusal names', async () => {
  const learned = new Learned('m');
  const { judge, asks } = scriptedJudge(
    (ask, text) => {
      if (text.includes('hostile') && ask.maxTokens > 10)
        throw new CallFailure('rejected', 'max_tokens: 10 is the maximum');
      return thinking(own * 20)(ask);
    },
    { learned },
  );
  for (const user of ['parcel', 'hostile', 'parcel', 'parcel']) {
    const { verdicts } = await judge.judge(chatCapture({ user }), YES_NO_SCORERS);
    expect(verdicts[0]).toMatchObject({ error: { code: 'JudgeReplyCut' } });
  }
  const bounds = asks.map(({ maxTokens }) => maxTokens / own);
  expect(bounds.slice(0, 3)).toEqual([1, 2, 4]);
  expect(bounds.slice(-2)).toEqual([4, 8]);
});

/** Refuses the temperature of the captures that have the word. */
const refusing = (word: string) => (ask: Ask, text: string) => {
  if (text.includes(word) && ask.supports('temperature'))
    throw new CallFailure('unsupported', 'no temperature', { feature: 'temperature' });
  return told(goodAnswer(ask.prompt.scorers));
};

test.each([
  // Refused and answered, for the capture and for the harmless question; then only answered.
  ['of every question is kept after a harmless one was answered without it', '', ['temperature']],
  // Refused and answered, the harmless question; refused and answered.
  ['of one capture concerns that capture', 'odd', []],
])('a refusal %s, in other functions too', async (_, word, refused) => {
  const table = new MemoryTable();
  const early = learnedOf(table);
  await early.ready();
  const asks: Ask[] = [];
  for (let run = 0; run < 2; run += 1) {
    const learned = learnedOf(table);
    const scripted = scriptedJudge(refusing(word), { learned });
    await scripted.judge.judge(chatCapture({ user: 'an odd parcel' }), YES_NO_SCORERS);
    asks.push(...scripted.asks);
    expect(learned.refused).toEqual(refused);
    // A function that began before that does not replace it.
    early.answered(100);
    await early.save();
  }
  expect(asks).toHaveLength(5);
});

test('a harmless question that may have been paid for without an answer is counted', async () => {
  const { judge } = scriptedJudge(
    (ask, text) => {
      if (text.includes('France')) throw new CallFailure('unavailable', 'no reply', { mayBePaid: true });
      return refusing('')(ask, text);
    },
    { learned: learnedOf(new MemoryTable()) },
  );
  const { spend, verdicts } = await judge.judge(chatCapture(), YES_NO_SCORERS);
  expect(verdicts[0]).toMatchObject({ outcome: 'verdict' });
  expect(spend).toMatchObject({ calls: 2, outputTokens: 100 + 2 * own });
});

test('a harmless question that was filtered is not asked again', async () => {
  let harmless = 0;
  const model = (ask: Ask, text: string) => {
    if (!text.includes('France')) return refusing('odd')(ask, text);
    harmless += 1;
    return told('', { stop: 'filtered' });
  };
  const { judge } = scriptedJudge(model, { learned: learnedOf(new MemoryTable()) });
  for (const user of ['an odd parcel', 'another odd parcel']) await judge.judge(chatCapture({ user }), YES_NO_SCORERS);
  expect(harmless).toBe(1);
});

test('answers of batch jobs teach no cost, even with what is asked again on demand', async () => {
  const learned = new Learned('m');
  const { judge } = scriptedJudge(undefined, { learned });
  const answer = told(goodAnswer(YES_NO_SCORERS.slice(1)));
  for (const capture of captures) await judge.judge(capture, YES_NO_SCORERS, undefined, { answer });
  expect(learned.costs).toBeUndefined();
});

test('is written once a minute, read once, and forgotten after seven days; the version of the properties is in the key', async () => {
  const table = new MemoryTable();
  let now = 20 * DAY_MS;
  const one = learnedOf(table, () => now);
  const writes: string[] = [];
  table.onWrite = (scope) => writes.push(scope);
  for (let answer = 0; answer < 30; answer += 1) {
    one.answered(1_500);
    await one.save();
    now += 6_000;
  }
  expect(writes).toHaveLength(3);
  expect(writes[0]).toMatch(/^learned#m#[\w-]+#[0-9a-f]{16}$/);
  for (const [days, bound] of [
    [21, expect.closeTo(1_680, -2)],
    [27.1, OWN],
  ]) {
    now = Number(days) * DAY_MS;
    const requests = table.requests;
    const other = learnedOf(table, () => now);
    await Promise.all([other.ready(), other.ready()]);
    expect([table.requests - requests, other.bound(OWN)]).toEqual([1, bound]);
  }
});

test('from the second run on, what is announced is what is paid; before, it is in the range', async () => {
  const BEDROCK_MODEL_ID = 'us.anthropic.claude-sonnet-6';
  const JUDGE_PRICES = { [BEDROCK_MODEL_ID]: { input: 2, output: 10 } };
  const settings = { BEDROCK_MODEL_ID, JUDGE_PRICES, MLFLOW_EVALUATION_MODEL_PARAM: {}, EVALUATION_BUDGET_USD: 20 };
  const table = new MemoryTable();
  const announced = async () => {
    const taught = learnedOf(table);
    await taught.ready();
    const options = { judge: 'converse' as const, sampleRate: 1 };
    const shared = { learned: () => taught };
    const estimator = createCostEstimator({ ...settings, shared }, YES_NO_SCORERS, options);
    for (const [n, capture] of captures.entries()) estimator.add(capture, `tr-${n}`);
    return estimator.result();
  };
  const paid = async () => {
    const price = (usage: CallUsage) => priceCall(BEDROCK_MODEL_ID, usage, { overrides: JUDGE_PRICES });
    const learned = learnedOf(table);
    // It thinks at varying length, mostly for longer than the form's bound.
    const lengthOf = (text: string) => 200 + 40 * (Number(/parcel (\d+)/.exec(text)?.[1]) % 20);
    const { judge } = scriptedJudge((ask, text) => thinking(lengthOf(text))(ask), { learned, price });
    const limit = new OwnLimit(100);
    const all = captures.map((capture) => judge.judge(capture, YES_NO_SCORERS, undefined, { limit }));
    const usd = (await Promise.all(all)).reduce((sum, { spend }) => sum + (spend.usd ?? Number.NaN), 0);
    await learned.save();
    return usd;
  };
  const first = await announced();
  const [least = 0, most = 0] = first.usdRange ?? [];
  const firstPaid = await paid();
  expect([firstPaid > least, firstPaid < most]).toEqual([true, true]);
  expect((first.usd ?? 0) / firstPaid).toBeLessThan(0.85);
  const second = await announced();
  expect(second.usdRange).toBeUndefined();
  expect(Math.abs((second.usd ?? Number.NaN) / (await paid()) - 1)).toBeLessThan(0.15);
});

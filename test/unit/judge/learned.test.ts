/** What the calls of a model have taught: the bound of the next answer, and what the model refuses. */
import { CallFailure } from '../../../src/judge/errors.ts';
import { Learned } from '../../../src/judge/models/learned.ts';
import { createCostEstimator } from '../../../src/judge/pricing/estimate.ts';
import { priceCall } from '../../../src/judge/pricing/prices.ts';
import type { Ask } from '../../../src/judge/transports/transport.ts';
import type { CallUsage } from '../../../src/judge/types.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { goodAnswer, scriptedJudge, told } from '../../doubles/scripted-judge.ts';
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

test('a model that thinks is cut twice by the first function, whatever it judges at once, and by no other one', async () => {
  const table = new MemoryTable();
  const learned = learnedOf(table);
  const { judge, asks } = scriptedJudge(thinking(own * 1.7), { learned });
  await Promise.all(captures.map((capture) => judge.judge(capture, YES_NO_SCORERS)));
  expect(asks).toHaveLength(42);
  await learned.save();
  const second = scriptedJudge(thinking(own * 1.7), { learned: learnedOf(table) });
  await Promise.all(captures.map((capture) => second.judge.judge(capture, YES_NO_SCORERS)));
  expect(second.asks).toHaveLength(40);
});

test('the first answers of a model that thinks little, or that is throttled, keep no capture waiting', async () => {
  const { judge, asks } = scriptedJudge(({ prompt }) => {
    if (asks.length < 3) throw new CallFailure('throttled', 'slow down');
    return told(goodAnswer(prompt.scorers));
  });
  await Promise.all(captures.map((capture) => judge.judge(capture, YES_NO_SCORERS)));
  expect(asks).toHaveLength(42);
});

test('an answer that is cut at its highest bound is not asked for again', async () => {
  const { judge, asks } = scriptedJudge(thinking(own * 20));
  const { verdicts } = await judge.judge(chatCapture(), YES_NO_SCORERS);
  expect(asks.map(({ maxTokens }) => maxTokens / own)).toEqual([1, 2, 4]);
  const second = await judge.judge(chatCapture(), YES_NO_SCORERS);
  expect(verdicts[0]).toMatchObject({ outcome: 'error', error: { code: 'JudgeReplyCut' } });
  expect(second.verdicts[0]).toMatchObject({ error: { message: expect.stringContaining('(asked 3 times)') } });
  await judge.judge(chatCapture(), YES_NO_SCORERS);
  // Now that it is known, the bound is four times the form’s, and a cut answer gets twice that.
  expect(asks.slice(6).map(({ maxTokens }) => maxTokens / own)).toEqual([4, 8]);
});

test('an answer that is cut grows to the bound that the service names, and no further; batch records and other functions know it', async () => {
  const table = new MemoryTable();
  const learned = learnedOf(table);
  const most = Math.round(own * 1.5);
  const { judge, asks } = scriptedJudge(
    (ask) => {
      if (ask.maxTokens > most)
        throw new CallFailure('rejected', `max_tokens: ${ask.maxTokens} > ${most}, the maximum`);
      return thinking(own * 20)(ask);
    },
    { learned },
  );
  await judge.judge(chatCapture(), YES_NO_SCORERS);
  expect(asks.map(({ maxTokens }) => maxTokens)).toEqual([own, 2 * own, most]);
  await learned.save();
  const other = learnedOf(table);
  await other.ready();
  expect(other.accepted(2 * own)).toBe(most);
});

/** Refuses the temperature of the captures that have the word. */
const refusing = (word: string) => (ask: Ask, text: string) => {
  if (text.includes(word) && ask.supports('temperature'))
    throw new CallFailure('unsupported', 'no temperature', { feature: 'temperature' });
  return told(goodAnswer(ask.prompt.scorers));
};

test('a refusal is kept after the model has answered a harmless question without it', async () => {
  const table = new MemoryTable();
  const learned = learnedOf(table);
  const { judge, asks } = scriptedJudge(refusing(''), { learned });
  await judge.judge(chatCapture(), YES_NO_SCORERS);
  // Refused and answered, for the capture and for the harmless question.
  expect(asks).toHaveLength(4);
  await learned.save();
  const other = learnedOf(table);
  const second = scriptedJudge(refusing(''), { learned: other });
  await second.judge.judge(chatCapture(), YES_NO_SCORERS);
  expect([second.asks.length, other.refused]).toEqual([1, ['temperature']]);
});

test('a refusal of one capture concerns that capture, before and after a harmless question', async () => {
  const learned = learnedOf(new MemoryTable());
  const { judge, asks } = scriptedJudge(refusing('odd'), { learned });
  for (const user of ['an odd parcel', 'a parcel', 'an odd parcel', 'a parcel']) {
    await judge.judge(chatCapture({ user }), YES_NO_SCORERS);
    if (user === 'a parcel') expect(asks.at(-1)?.supports('temperature')).toBe(true);
  }
  expect(learned.refused).toEqual([]);
  // Refused and answered twice, the harmless question, and the two others.
  expect(asks).toHaveLength(7);
});

test('is written once a minute, read once, and forgotten after seven days; the version of the properties is in the key', async () => {
  const table = new MemoryTable();
  let now = DAY_MS;
  const one = learnedOf(table, () => now);
  const writes: string[] = [];
  table.onWrite = (scope) => writes.push(scope);
  for (let answer = 0; answer < 30; answer += 1) {
    one.answered(1_500);
    await one.save();
    now += 6_000;
  }
  expect(writes).toHaveLength(3);
  const boundAt = async (at: number) => {
    now = at;
    const requests = table.requests;
    const other = learnedOf(table, () => now);
    await Promise.all([other.ready(), other.ready()]);
    expect(table.requests - requests).toBe(1);
    return other.bound(OWN);
  };
  expect(await boundAt(2 * DAY_MS)).toBeGreaterThan(1_500);
  expect(await boundAt(8.1 * DAY_MS)).toBe(OWN);
  const [[scope] = ['']] = table.items;
  expect(scope).toMatch(/^learned#m#[\w-]+#[0-9a-f]{16}$/);
});

test('without the table, memory alone', async () => {
  const table = new MemoryTable();
  const learned = learnedOf(table);
  jest.spyOn(table, 'send').mockRejectedValue(new Error('no table'));
  const { judge, asks } = scriptedJudge(thinking(own * 1.7), { learned });
  for (const capture of captures) await judge.judge(capture, YES_NO_SCORERS);
  await learned.save();
  expect(asks).toHaveLength(42);
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
    const shared = { learned: { of: () => taught } };
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

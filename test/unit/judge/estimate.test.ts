/** Estimating the cost of judging before a run. */

import { inSample } from '../../../src/captures/trace/ids.ts';
import { activeScorers } from '../../../src/judge/active-scorers.ts';
import { answerSchema } from '../../../src/judge/answer/answer-schema.ts';
import { assertJudgeAffordable, createCostEstimator, estimateFromSizes } from '../../../src/judge/pricing/estimate.ts';
import { priceCall } from '../../../src/judge/pricing/prices.ts';
import { askSize, prefixTokens } from '../../../src/judge/pricing/request-tokens.ts';
import { buildPrompt, userText } from '../../../src/judge/prompt/build-prompt.ts';
import { defaultJudgeScorers, isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { withVariables } from '../../helpers/aws-answers.ts';
import { chatCapture, errorCapture, tabularCapture } from '../../helpers/captures.ts';
import { captureLine, chatReply, json } from '../../helpers/deployed-captures.ts';

const settings: Parameters<typeof assertJudgeAffordable>[0] = {
  BEDROCK_MODEL_ID: 'global.anthropic.claude-sonnet-4-6',
  EVALUATION_BUDGET_USD: 20,
  JUDGE_PRICES: {},
  MLFLOW_EVALUATION_MODEL_PARAM: {},
};
const converse = { judge: 'converse' as const, sampleRate: 1 };
const scorers = scorersFor();
const reply = 'Parcels within Europe take three to five working days. '.repeat(20);
const captures = Array.from({ length: 50 }, (_, index) => ({
  traceId: `tr-${String(index).padStart(32, '0')}`,
  capture: chatCapture(
    [
      { role: 'system', content: 'You work for a parcel service.' },
      { role: 'user', content: `How long does parcel number ${index} take?` },
    ],
    reply,
  ),
}));

/** Scorers that apply to a chat without tools. */
const asked = defaultJudgeScorers.filter(({ needs }) => !needs.includes('tools'));

const estimateOf = (
  overrides: Partial<typeof settings> = {},
  options: Partial<{ judge: 'converse' | 'batch'; sampleRate: number }> = {},
  always?: () => string | undefined,
) => {
  const estimator = createCostEstimator({ ...settings, ...overrides }, scorers, { ...converse, ...options }, always);
  for (const { capture, traceId } of captures) estimator.add(capture, traceId);
  return estimator.result();
};

test('sizes requests as they would be sent', () => {
  const { inputTokens, outputTokens, judgeCalls, judgedCaptures, captures: seen, usd } = estimateOf();
  expect([seen, judgedCaptures, judgeCalls]).toEqual([50, 50, 50]);
  const schema = JSON.stringify(answerSchema(asked)).length;
  const characters = captures.reduce((sum, { capture }) => {
    const prompt = buildPrompt(capture, asked, 'json-schema');
    return sum + schema + prompt.system.length + userText(prompt).length;
  }, 0);
  expect(inputTokens).toBeGreaterThan(characters / 4);
  expect(inputTokens).toBeLessThan((characters / 4) * 1.1);
  expect(usd).toBeCloseTo(priceCall(settings.BEDROCK_MODEL_ID, { inputTokens, outputTokens }) as number, 10);
});

test('estimates a sample’s share, including captures of always rules', () => {
  const sampled = captures.filter(({ traceId }) => inSample(traceId, 0.2)).length;
  expect(sampled).toBeGreaterThan(0);
  expect(estimateOf({}, { sampleRate: 0.2 })).toMatchObject({ captures: 50, judgedCaptures: sampled });
  expect(estimateOf({}, { sampleRate: 0.2 }, () => 'all')).toMatchObject({ judgedCaptures: 50 });
});

test('estimates half the cost for batch inference', () => {
  expect(estimateOf({}, { judge: 'batch' }).usd).toBeCloseTo((estimateOf().usd as number) / 2, 10);
});

describe('the ways that save money', () => {
  const HAIKU = 'global.anthropic.claude-haiku-4-5-20251001-v1:0';
  const inWay = (
    more: Partial<typeof settings & { JUDGE_GUIDELINES: Record<string, string> }>,
    judge: 'converse' | 'batch' = 'converse',
  ) => {
    const way = { ...settings, JUDGE_GUIDELINES: {}, ...more };
    const estimator = createCostEstimator(way, activeScorers(way, judge), { ...converse, judge });
    for (const { capture, traceId } of captures) estimator.add(capture, traceId);
    return estimator.result();
  };
  const per = ({ usd }: { usd: number | null }): number => (usd ?? Number.NaN) / (estimateOf().usd ?? Number.NaN);

  test('words only for failures take less than a third of the output', () => {
    const terse = inWay({ JUDGE_RATIONALES: 'failures' });
    expect(terse.outputTokens / estimateOf().outputTokens).toBeLessThan(0.3);
    expect(terse.basis).toContain('10% of the verdicts are assumed to fail');
  });

  test('a cached prefix is priced as read from the cache, and is longer', () => {
    const cached = inWay({ JUDGE_PREFIX: 'cached' });
    expect(cached.inputTokens).toBeGreaterThan(estimateOf().inputTokens + 50 * 1000);
    const prefix =
      50 *
      prefixTokens(
        activeScorers({ ...settings, JUDGE_GUIDELINES: {}, JUDGE_PREFIX: 'cached' })
          .filter(isJudgeScorer)
          .filter(({ needs }) => !needs.includes('tools')),
      );
    const { inputTokens, outputTokens } = cached;
    const usage = { inputTokens: inputTokens - prefix, outputTokens, cacheReadInputTokens: prefix };
    expect(cached.usd).toBeCloseTo(priceCall(settings.BEDROCK_MODEL_ID, usage) as number, 10);
    expect(cached.usd).toBeLessThan(estimateOf().usd as number);
    expect(cached.basis).toContain('read from the cache');
    expect(inWay({}).basis).toContain('prompt caching are not taken into account');
    // Requests of a job are not cached, so they stay short.
    expect(inWay({ JUDGE_PREFIX: 'cached' }, 'batch').usd).toBe(inWay({}, 'batch').usd);
    const long = {
      BEDROCK_MODEL_ID: 'us.amazon.nova-pro-v1:0',
      JUDGE_GUIDELINES: { a: 'It is kind.', b: 'It is short.' },
    };
    expect(inWay({ ...long, JUDGE_PREFIX: 'cached' }).usd).toBeLessThan(inWay(long).usd as number);
    expect(inWay({ ...long, JUDGE_PREFIX: 'cached' }, 'batch').usd).toBe(inWay(long, 'batch').usd);
  });

  test('a cascade asks the judge about the captures with a verdict that fails', () => {
    const cascade = inWay({ JUDGE_CASCADE: HAIKU });
    const share = 1 - 0.9 ** asked.length;
    expect(cascade.judgeCalls).toBe(Math.round(50 * (1 + share)));
    expect(per(cascade)).toBeGreaterThan(0.5);
    expect(per(cascade)).toBeLessThan(0.8);
    expect(cascade.basis).toContain(`${HAIKU} costs 1 and 5`);
    expect(inWay({ JUDGE_CASCADE: HAIKU }, 'batch').basis.split('half of it in batch inference')).toHaveLength(2);
    // Half the price of the first model; the main one is asked on demand.
    const first = inWay({ BEDROCK_MODEL_ID: HAIKU });
    const saved = (cascade.usd as number) - (inWay({ JUDGE_CASCADE: HAIKU }, 'batch').usd as number);
    expect(saved / (first.usd as number)).toBeGreaterThan(0.45);
    expect(saved / (first.usd as number)).toBeLessThan(0.6);
    expect(() => assertJudgeAffordable({ ...settings, JUDGE_CASCADE: 'vendor.cheap' }, { judge: 'converse' })).toThrow(
      'price',
    );
  });
});

test('counts errors and tables as captures that are not judged', () => {
  const estimator = createCostEstimator(settings, scorers, converse);
  estimator.add(errorCapture('boom'), 'tr-1');
  estimator.add(tabularCapture(), 'tr-2');
  expect(estimator.result()).toMatchObject({ captures: 2, judgedCaptures: 0, judgeCalls: 0, inputTokens: 0, usd: 0 });
});

test('returns null for an unknown price, and explains it', () => {
  const { usd, basis, inputTokens } = estimateOf({ BEDROCK_MODEL_ID: 'vendor.new-model' });
  expect(usd).toBeNull();
  expect(inputTokens).toBeGreaterThan(0);
  expect(basis).toContain('the price of vendor.new-model is unknown');
});

test('is within a factor of two from sizes alone', () => {
  const lines = captures.map(({ capture, traceId }) =>
    captureLine(traceId, '2026-11-20T09:00:00Z', json(JSON.parse(`${capture.request?.text}`)), json(chatReply(reply))),
  );
  const bytes = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0);
  const rough = estimateFromSizes(settings, scorers, converse, { captures: 50, bytes });
  const exact = estimateOf();
  expect(rough.judgeCalls).toBe(exact.judgeCalls);
  expect((rough.usd as number) / (exact.usd as number)).toBeGreaterThan(0.5);
  expect((rough.usd as number) / (exact.usd as number)).toBeLessThan(2);
  // Text beyond the bound is cut and not paid for: megabytes of images cost as much as the longest text.
  const longest = estimateFromSizes(settings, scorers, converse, { captures: 1, bytes: 1e6 });
  expect(estimateFromSizes(settings, scorers, converse, { captures: 1, bytes: 7e7 }).usd).toBe(longest.usd);
  expect(estimateFromSizes(settings, scorers, converse, { captures: 0, bytes: 0 })).toMatchObject({
    usd: 0,
    judgeCalls: 0,
  });
});

test('estimates the longest exchange at the prompt’s bound', () => {
  const long = chatCapture('Write me a book.', 'word '.repeat(2_000_000));
  const { inputTokens } = askSize(long, defaultJudgeScorers);
  expect(inputTokens).toBeLessThan(30_000);
});

describe('assertJudgeAffordable', () => {
  const unknown = { ...settings, BEDROCK_MODEL_ID: 'sagemaker:/my-judge' };
  test('refuses an unknown price under a daily or a run budget', () => {
    expect(() => assertJudgeAffordable(unknown, { judge: 'converse' })).toThrow(
      expect.objectContaining({ name: 'JudgePriceUnknown', message: expect.stringContaining('sagemaker:/my-judge') }),
    );
    expect(() =>
      assertJudgeAffordable({ ...unknown, EVALUATION_BUDGET_USD: 0 }, { judge: 'converse', budgetUsd: 1 }),
    ).toThrow(expect.objectContaining({ name: 'JudgePriceUnknown' }));
  });
  test('accepts an unknown price without a budget or of a stand-in, and a price that the user sets', async () => {
    await withVariables({ AWS_ENDPOINT_URL_BEDROCK_RUNTIME: 'http://127.0.0.1:1/stand-in' }, async () =>
      expect(() => assertJudgeAffordable({ ...settings, BEDROCK_MODEL_ID: 'vendor.new' }, converse)).not.toThrow(),
    );
    expect(() => assertJudgeAffordable({ ...unknown, EVALUATION_BUDGET_USD: 0 }, { judge: 'converse' })).not.toThrow();
    const stated = { ...unknown, JUDGE_PRICES: { 'sagemaker:/my-judge': { input: 0.2, output: 0.4 } } };
    expect(() => assertJudgeAffordable(stated, { judge: 'converse' })).not.toThrow();
  });
});

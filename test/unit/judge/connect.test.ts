/** Connecting the judge of batch inference: what its requests contain, and what they may cost. */

import { cascadeOf, connectBatchJudge, connectJudge } from '../../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { Breaker } from '../../../src/limits/breaker.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { chatCapture } from './captures.ts';

const scorers = scorersFor().filter(isJudgeScorer).slice(0, 2);

test.each([
  [{}, undefined],
  [{ guardrail: 'gr1:DRAFT' }, { guardrailIdentifier: 'gr1', guardrailVersion: 'DRAFT' }],
  [
    { guardrail: 'gr1:3', max_tokens: 9 },
    { guardrailIdentifier: 'gr1', guardrailVersion: '3' },
  ],
])('the parameters %p give a request this guardrail, in a cascade too', (parameters, guardrail) => {
  const settings = { MLFLOW_EVALUATION_MODEL_PARAM: JSON.stringify(parameters) };
  const first = connectBatchJudge(testEnvironment({ ...settings, JUDGE_CASCADE: 'us.amazon.nova-lite-v1:0' }));
  expect(first.record('tr-1', chatCapture(), scorers).modelInput.guardrailConfig).toEqual(guardrail);
  const { record } = connectBatchJudge(testEnvironment(settings));
  expect(record('tr-1', chatCapture(), scorers).modelInput.guardrailConfig).toEqual(guardrail);
});

test.each([
  ['global.anthropic.claude-sonnet-4-6', true],
  ['us.amazon.nova-pro-v1:0', false],
])('a record for %s has a schema: %s, and never a tool', (model, hasSchema) => {
  const { record } = connectBatchJudge(testEnvironment({ BEDROCK_MODEL_ID: model }));
  const text = JSON.stringify(record('tr-1', chatCapture(), scorers));
  expect(text.includes('json_schema')).toBe(hasSchema);
  expect(text.includes('The answer is one JSON object')).toBe(!hasSchema);
  expect(text).not.toContain('toolConfig');
});

test('a secret that may be unreadable is not read before the judge is asked', () => {
  const secret = 'arn:aws:secretsmanager:us-east-1:123456789012:secret:gone-AbCdEf';
  const settings = testEnvironment({ BEDROCK_MODEL_ID: 'openai:/gpt-5-mini', JUDGE_SECRET_ARN: secret });
  expect(connectJudge(settings).judge.sourceId).toBe('openai:/gpt-5-mini');
});

test('a request costs at most half of what it costs online', () => {
  const { maxCostUsd, judge } = connectBatchJudge(testEnvironment());
  const online = judge.maxCostUsd(chatCapture(), scorers) ?? 0;
  expect(online).toBeGreaterThan(0);
  expect(maxCostUsd(chatCapture(), scorers)).toBeCloseTo(online / 2, 10);
});

describe('batch inference in a cascade', () => {
  const JUDGE_CASCADE = 'global.anthropic.claude-haiku-4-5-20251001-v1:0';

  test('asks the first model, at half its price, whether it is sure', () => {
    const plain = connectBatchJudge(testEnvironment());
    const { record, maxCostUsd, judge } = connectBatchJudge(testEnvironment({ JUDGE_CASCADE }));
    expect(JSON.stringify(record('tr-1', chatCapture(), scorers).modelInput)).toContain('sure');
    expect(JSON.stringify(plain.record('tr-1', chatCapture(), scorers).modelInput)).not.toContain('sure');
    // Haiku costs a third of Sonnet; the prompt is a little longer.
    const share = (maxCostUsd(chatCapture(), scorers) ?? 0) / (plain.maxCostUsd(chatCapture(), scorers) ?? 0);
    expect(share).toBeGreaterThan(0.33);
    expect(share).toBeLessThan(0.4);
    expect(judge.sourceId).toBe('bedrock:/anthropic.claude-sonnet-4-6');
  });

  test('gives each model limits of its own, online as in batch inference', async () => {
    const limits = jest.fn((_model: string) => ({ breaker: {} as Breaker }));
    const settings = { ...testEnvironment({ JUDGE_CASCADE }), shared: { limits } };
    await cascadeOf(settings);
    connectBatchJudge(settings);
    expect([...new Set(limits.mock.calls.flat())].sort()).toEqual([settings.BEDROCK_MODEL_ID, JUDGE_CASCADE].sort());
  });

  test('needs a listed model on Bedrock as the first; the main one is asked on demand, wherever it is', () => {
    for (const first of ['sagemaker:/small-judge', 'us.anthropic.claude-sonnet-5-5', 'us.anthropic.claude-sonnet-6']) {
      const elsewhere = testEnvironment({ JUDGE_CASCADE: first });
      expect(() => connectBatchJudge(elsewhere)).toThrow(`listed by Bedrock for batch inference; got: ${first}`);
    }
    const main = testEnvironment({ JUDGE_CASCADE, BEDROCK_MODEL_ID: 'sagemaker:/large-judge' });
    expect(connectBatchJudge(main).judge.sourceId).toBe('sagemaker:/large-judge');
  });

  test('keeps the requests of a job short, whose prefix no cache reads', () => {
    const { batchScorers } = connectBatchJudge(testEnvironment({ JUDGE_PREFIX: 'cached' }));
    expect(batchScorers.find(({ name }) => name === 'safety')?.version).toBe('1');
  });
});

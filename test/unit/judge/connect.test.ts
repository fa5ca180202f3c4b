/** Connecting the judge of batch inference: what its requests contain, and what they may cost. */
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { chatCapture } from './captures.ts';

const scorers = scorersFor().filter(isJudgeScorer).slice(0, 2);

test.each([
  [{}, undefined],
  [{ BEDROCK_GUARDRAIL_ID: 'gr1' }, { guardrailIdentifier: 'gr1', guardrailVersion: 'DRAFT' }],
  [
    { BEDROCK_GUARDRAIL_ID: 'gr1', BEDROCK_GUARDRAIL_VERSION: '3' },
    { guardrailIdentifier: 'gr1', guardrailVersion: '3' },
  ],
])('the settings %p give a request this guardrail', (settings, guardrail) => {
  const { record } = connectBatchJudge(testEnvironment(settings));
  expect(record('tr-1', chatCapture(), scorers).modelInput.guardrailConfig).toEqual(guardrail);
});

test('a request costs at most half of what it costs online', () => {
  const { maxCostUsd, judge } = connectBatchJudge(testEnvironment());
  const online = judge.maxCostUsd(chatCapture(), scorers) ?? 0;
  expect(online).toBeGreaterThan(0);
  expect(maxCostUsd(chatCapture(), scorers)).toBeCloseTo(online / 2, 10);
});

/** Values without a rationale, when the question that asks for the rationale fails. */
import { CallFailure } from '../../../src/judge/errors.ts';
import { scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chatCapture, YES_NO_SCORERS } from './captures.ts';

const scorers = YES_NO_SCORERS.slice(0, 1);
const bare = told(JSON.stringify({ [scorers[0]?.name ?? '']: { value: 'yes' } }));

test.each([
  ['is refused', () => Promise.reject(new CallFailure('rejected', 'no'))],
  ['is too long', () => Promise.reject(new CallFailure('too-long', 'no'))],
  ['meets a guardrail', () => told('', { stop: 'guardrail' })],
])('keeps a value without a rationale if the question that asks for it again %s', async (_, second) => {
  const { judge, asks } = scriptedJudge(() => (asks.length === 1 ? bare : second()));
  const { verdicts } = await judge.judge(chatCapture(), scorers);
  expect(asks.length).toBeGreaterThan(1);
  expect(verdicts).toMatchObject([
    { outcome: 'verdict', value: 'yes', rationale: expect.stringContaining('no rationale') },
  ]);
});

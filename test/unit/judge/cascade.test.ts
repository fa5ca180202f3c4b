/** A cascade: what the first model decides, what the second is asked, and who is named and paid. */
import { answerSchema } from '../../../src/judge/answer/answer-schema.ts';
import { askedFirst, cascade } from '../../../src/judge/cascade.ts';
import { answeredBefore, CallFailure } from '../../../src/judge/errors.ts';
import { systemPrompt } from '../../../src/judge/prompt/build-prompt.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { verdictAssessment } from '../../../src/monitoring/evaluate/assessments.ts';
import { scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chatCapture } from './captures.ts';

const NAMES = ['safety', 'fluency', 'coherence', 'refusal'];
const scorers = scorersFor({ rationales: 'failures' })
  .filter((scorer) => isJudgeScorer(scorer) && NAMES.includes(scorer.name))
  .filter(isJudgeScorer);
const wordy = scorersFor()
  .filter(isJudgeScorer)
  .filter(({ name }) => NAMES.includes(name));

/** The first model gives this answer; the second finds everything good. */
function rig(answer: object, main = scriptedJudge()) {
  const first = scriptedJudge(() => told(JSON.stringify(answer)), { maxAnswers: 1 });
  const judge = cascade({ ...bound(first.judge), sourceId: 'test:/cheap' }, main.judge);
  const askedOfMain = () => main.asks.map(({ prompt }) => prompt.scorers.map(({ name }) => name));
  return { judge, first, main, askedOfMain };
}
const bound = (judge: ReturnType<typeof scriptedJudge>['judge']) => ({
  judge: judge.judge.bind(judge),
  maxCostUsd: judge.maxCostUsd.bind(judge),
});
const coherence = { rationale: 'It fits.', value: 'coherent', sure: true };
const ALL_GOOD = { safety: 'yes', fluency: 'yes', coherence, refusal: 'no' };

test('what the first model passes and is sure of stands, under its name', async () => {
  const { judge, first, askedOfMain } = rig(ALL_GOOD);
  const { verdicts, spend } = await judge.judge(chatCapture(), scorers);
  expect(askedOfMain()).toEqual([]);
  expect(first.asks).toHaveLength(1);
  expect(verdicts.map(({ scorer, source }) => [scorer, source])).toEqual(NAMES.map((name) => [name, 'test:/cheap']));
  expect(spend.calls).toBe(1);
  const context = { traceId: 'tr-1', run: 'run', stratum: '1', sample: '1', replaces: new Set<string>() };
  const sources = scorers.map(
    (scorer, i) => verdictAssessment(scorer, verdicts[i] as never, judge.sourceId, context).sourceId,
  );
  expect(new Set(sources)).toEqual(new Set(['test:/cheap']));
});

test.each<[string, object, string[]]>([
  ['fails', { ...ALL_GOOD, safety: 'no' }, ['safety']],
  ['is not sure of', { ...ALL_GOOD, fluency: 'unsure' }, ['fluency']],
  ['is not sure of beside the bare value', { ...ALL_GOOD, fluency: { value: 'yes', sure: false } }, ['fluency']],
  ['is not sure of', { ...ALL_GOOD, coherence: { rationale: 'x', value: 'coherent', sure: false } }, ['coherence']],
  ['finds worse', { ...ALL_GOOD, coherence: { rationale: 'x', value: 'incoherent', sure: true } }, ['coherence']],
  ['says yes to, where no passes', { ...ALL_GOOD, refusal: 'yes' }, ['refusal']],
  ['leaves out', { safety: 'yes', refusal: 'no' }, ['fluency', 'coherence']],
])('the main model is asked for what the first one %s', async (_, answer, open) => {
  const { judge, first, askedOfMain } = rig(answer);
  const { verdicts, spend } = await judge.judge(chatCapture(), scorers);
  expect(first.asks).toHaveLength(1);
  expect(askedOfMain()).toEqual([open]);
  expect(verdicts.map(({ scorer }) => scorer)).toEqual(NAMES);
  expect(verdicts.filter(({ source }) => source === undefined).map(({ scorer }) => scorer)).toEqual(open);
  // Every dollar is in a verdict, also what the first model cost for a verdict of the second.
  const shares = verdicts.reduce((sum, { usage }) => sum + (usage.usd ?? Number.NaN), 0);
  expect(shares).toBeCloseTo(spend.usd ?? Number.NaN, 12);
  expect(spend).toMatchObject({ calls: 2, inputTokens: 2000, outputTokens: 200 });
});

test('an unreadable answer leaves everything to the main model', async () => {
  const { judge, askedOfMain } = rig({});
  await judge.judge(chatCapture(), scorers);
  expect(askedOfMain()).toEqual([NAMES]);
});

test('the main model is asked as without a cascade, the first one to say whether it is sure', async () => {
  const { judge, first, main } = rig({});
  await judge.judge(chatCapture(), wordy);
  expect(main.asks[0]?.prompt.system).toBe(systemPrompt(wordy, 'json-schema'));
  expect(first.asks[0]?.prompt.system).toContain('"sure": false');
  const marked = wordy.map(askedFirst);
  expect(JSON.stringify(answerSchema(marked))).toContain('"sure":{"type":"boolean"}');
  expect(marked.map(askedFirst)).toEqual(marked);
  expect(wordy.map(askedFirst).every((scorer, i) => scorer === marked[i])).toBe(true);
});

test('when the main model fails, what the first one decided is kept and paid', async () => {
  const main = scriptedJudge(() => {
    throw new CallFailure('throttled', 'slow down');
  });
  const { judge, first } = rig({ ...ALL_GOOD, safety: 'no' }, main);
  const error = await judge.judge(chatCapture(), scorers).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ name: 'JudgeThrottled' });
  const { verdicts, spend, leftOpen = [] } = answeredBefore(error);
  expect(verdicts.map(({ scorer }) => scorer)).toEqual(['fluency', 'coherence', 'refusal']);
  expect([spend.calls, leftOpen]).toEqual([1, ['safety']]);
  // What it left open is known the next time, also after a second failure.
  const money = { leftOpen: new Set(leftOpen) };
  const again = await judge.judge(chatCapture(), scorers.slice(0, 1), undefined, money).catch((thrown) => thrown);
  expect([answeredBefore(again).leftOpen, first.asks.length]).toEqual([['safety'], 1]);
});

test('what the main model could not decide is left open for it, and for it alone', async () => {
  const { judge } = rig(
    { ...ALL_GOOD, safety: 'no' },
    scriptedJudge(() => told('no')),
  );
  expect(await judge.judge(chatCapture(), scorers)).toMatchObject({ leftOpen: ['safety'] });
});

test('the answers before a failure of the first model count', async () => {
  const first = scriptedJudge(
    ({ prompt }) => {
      if (prompt.scorers.length === 1) throw new CallFailure('throttled', 'slow down');
      const { refusal: _, ...answered } = { ...ALL_GOOD, safety: 'no' };
      return told(JSON.stringify(answered));
    },
    { maxAnswers: 2 },
  );
  const judge = cascade({ ...bound(first.judge), sourceId: 'test:/cheap' }, scriptedJudge().judge);
  const error = await judge.judge(chatCapture(), scorers).catch((thrown: unknown) => thrown);
  const { verdicts, leftOpen } = answeredBefore(error);
  expect([verdicts.map(({ scorer }) => scorer), leftOpen]).toEqual([['fluency', 'coherence'], ['safety']]);
});

test('a budget that has no room for the main model holds only its questions', async () => {
  const { judge, first, main } = rig({ ...ALL_GOOD, safety: 'no' });
  let reserved = 0;
  const reserve = async (usd: number) => {
    reserved += usd;
    return reserved > usd ? ('held' as const) : { settle: async () => {} };
  };
  const error = await judge.judge(chatCapture(), scorers, undefined, { limit: { reserve } }).catch((e) => e);
  expect(error).toMatchObject({ name: 'JudgeHeld' });
  expect([first.asks.length, main.asks.length]).toEqual([1, 0]);
  expect(answeredBefore(error).verdicts.map(({ scorer }) => scorer)).toEqual(['fluency', 'coherence', 'refusal']);
  // The worst case of a capture is that both models are asked.
  const [one, other] = [first.judge, main.judge].map((each) => each.maxCostUsd(chatCapture(), scorers) ?? 0);
  expect(judge.maxCostUsd(chatCapture(), scorers)).toBeGreaterThan(Math.max(one ?? 0, other ?? 0) * 1.5);
});

test('the answer of a batch job is the first model’s', async () => {
  const { judge, first, askedOfMain } = rig({});
  const answer = told(JSON.stringify({ ...ALL_GOOD, safety: 'unsure' }));
  const { verdicts, spend } = await judge.judge(chatCapture(), scorers, undefined, { answer });
  expect(first.asks).toEqual([]);
  expect(askedOfMain()).toEqual([['safety']]);
  expect(verdicts.map(({ source }) => source)).toEqual([undefined, 'test:/cheap', 'test:/cheap', 'test:/cheap']);
  expect(spend.calls).toBe(2);
});

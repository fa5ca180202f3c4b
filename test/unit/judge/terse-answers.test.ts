/** Answers without words for what passes: the prompt, the schema, and what is read from an answer. */
import { answerSchema } from '../../../src/judge/answer/answer-schema.ts';
import { systemPrompt } from '../../../src/judge/prompt/build-prompt.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../../src/judge/types.ts';
import { verdictAssessment } from '../../../src/monitoring/evaluate/assessments.ts';
import { scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chatCapture } from './captures.ts';

const terse = scorersFor({ rationales: 'failures' }).filter(isJudgeScorer);
const some = terse.filter(({ name }) => ['safety', 'fluency', 'coherence', 'refusal'].includes(name));
const coherent = { rationale: 'It fits.', value: 'coherent' };
const PASSING = { safety: 'yes', fluency: 'yes', coherence: coherent, refusal: 'no' };

const judgedWith = async (...answers: object[]) => {
  let calls = 0;
  const { judge, asks } = scriptedJudge(() => {
    calls += 1;
    return told(JSON.stringify(answers[calls - 1] ?? answers.at(-1)));
  });
  const { verdicts } = await judge.judge(chatCapture(), some);
  return { asks, of: Object.fromEntries(verdicts.map((verdict) => [verdict.scorer, verdict])) };
};

test('what passes is a verdict without words, in one call', async () => {
  const { asks, of } = await judgedWith(PASSING);
  expect(asks).toHaveLength(1);
  expect(of).toMatchObject({
    safety: { outcome: 'verdict', value: 'yes', rationale: '' },
    refusal: { outcome: 'verdict', value: 'no', rationale: '' },
    coherence: { value: 'coherent', rationale: 'It fits.' },
  });
});

test('a verdict without words is stored without a rationale', async () => {
  const { of } = await judgedWith(PASSING);
  const context = { traceId: 'tr-1', run: 'run', stratum: '1', sample: '1', replaces: new Set<string>() };
  const stored = some.map((scorer) => verdictAssessment(scorer, of[scorer.name] as never, 'judge', context));
  const found = stored.map((assessment) => `${'rationale' in assessment} ${assessment.value}`);
  expect(found).toEqual(['false yes', 'false yes', 'true coherent', 'false no']);
});

test('what fails, and every other question, needs words: they are asked for again', async () => {
  const failing = { ...PASSING, safety: 'no', coherence: 'coherent' };
  const again = { safety: { rationale: 'A threat.', value: 'no' }, coherence: coherent };
  const { asks, of } = await judgedWith(failing, again);
  expect(asks.map(({ prompt }) => prompt.scorers.map(({ name }) => name))).toEqual([
    some.map(({ name }) => name),
    ['safety', 'coherence'],
  ]);
  expect(of).toMatchObject({ safety: { value: 'no', rationale: 'A threat.' }, coherence: { rationale: 'It fits.' } });
});

test('the prompt names the passing value of each question', () => {
  const system = systemPrompt(some, 'prompt');
  expect(system).toContain('A "yes" needs no words');
  expect(system).toContain('for refusal that is the "no" instead');
  expect(system).toContain('"safety": "yes" or {"rationale": "…", "value": "no"}');
  expect(system).toContain('"refusal": "no" or {"rationale": "…", "value": "yes"}');
  expect(systemPrompt(scorersFor().filter(isJudgeScorer), 'prompt')).not.toContain('needs no words');
});

/** The number of `anyOf` that a property leads to: Claude refuses more than 16. */
const unionsIn = (schema: object): number =>
  (JSON.stringify(schema).match(/"\$ref":"#\/\$defs\/(yes|no)"/g) ?? []).length;

test('the schema has at most 16 unions, and a tool none', () => {
  const { properties, $defs } = answerSchema(some) as { properties: Record<string, object>; $defs: object };
  expect(properties.safety).toEqual({ $ref: '#/$defs/yes' });
  expect(properties.coherence).not.toHaveProperty('$ref');
  expect(Object.keys($defs).sort()).toEqual(['no', 'words', 'yes']);
  const guidelines = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`rule_${n}`, 'It is kind.']));
  const many = scorersFor({ guidelines, rationales: 'failures' }).filter(isJudgeScorer);
  expect(unionsIn(answerSchema(many))).toBe(0);
  const tool = JSON.stringify(answerSchema(some, 'tool'));
  expect(tool).not.toMatch(/anyOf|\$ref/);
  expect(tool).toContain('"required":["value"]');
});

test('the version says that it is another prompt; other questions keep theirs', () => {
  const versions = new Map(some.map((scorer: JudgeScorer) => [scorer.name, scorer.version]));
  expect(versions.get('safety')).toBe('1+terse');
  expect(versions.get('coherence')).toBe('1');
});

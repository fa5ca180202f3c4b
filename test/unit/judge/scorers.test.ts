/** The default set of scorers, scorers that users define, and always rules. */
import { hash } from 'node:crypto';
import { worstFirst } from '../../../src/core/values/severity.ts';
import { createAlwaysRule } from '../../../src/judge/scorers/always-rules.ts';
import { badnessOf } from '../../../src/judge/scorers/badness.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import {
  checkScorers,
  defaultJudgeScorers,
  guidelineScorer,
  isJudgeScorer,
  scorersFor,
  withExamples,
} from '../../../src/judge/scorers/scorer-set.ts';
import type { CodeScorer, JudgeScorer, Scorer } from '../../../src/judge/types.ts';
import { chatCapture, scorerOf } from './captures.ts';

const scorer = (fields: Partial<JudgeScorer> = {}): JudgeScorer => scorerOf('brevity', fields);

/**
 * Digests of the questions of each version. When a question changes, raise its version and add a line. Never change a line.
 */
const QUESTIONS: Record<string, string> = {
  'safety@1': 'a7a060d51ca2',
  'relevance_to_query@1': 'c57363e3c43c',
  'fluency@1': 'c2d65d4f1831',
  'coherence@1': '4371691ee1a3',
  'professional_tone@1': '570af4e22250',
  'follows_objective@1': '18a1e5ed22e8',
  'no_harmful_advice@1': '7b91bc352521',
  'completeness@1': '57ae3ec2841f',
  'refusal@1': '27f899de2cf0',
  'tool_call_correctness@1': 'd85e4a5da38c',
};

const faultsOf = (scorers: readonly unknown[]): string => {
  try {
    checkScorers(scorers as Scorer[]);
  } catch (error) {
    expect(error).toMatchObject({ name: 'InvalidScorers' });
    return (error as Error).message;
  }
  throw new Error('the set was taken for valid');
};

test('has the names and values of MLflow’s judges in the default set', () => {
  const values = Object.fromEntries(defaultJudgeScorers.map(({ name, values }) => [name, values]));
  const yesNo = { kind: 'yes-no' };
  expect(values).toMatchObject({
    safety: yesNo,
    relevance_to_query: yesNo,
    fluency: yesNo,
    coherence: { kind: 'categories', values: ['coherent', 'somewhat coherent', 'incoherent'] },
    professional_tone: yesNo,
    follows_objective: yesNo,
    no_harmful_advice: yesNo,
    completeness: yesNo,
    refusal: yesNo,
    tool_call_correctness: yesNo,
  });
});

test('requires a new version for a changed question', () => {
  const known = new Set(Object.keys(QUESTIONS).map((key) => key.split('@')[0]));
  for (const { name, version, question, values } of defaultJudgeScorers) {
    // A new scorer has no earlier question.
    if (!known.has(name)) continue;
    const digest = hash('sha256', JSON.stringify({ question, values })).slice(0, 12);
    expect(`${name}@${version} ${digest}`).toBe(`${name}@${version} ${QUESTIONS[`${name}@${version}`]}`);
  }
});

test('returns the LLM scorers, then the code scorers', () => {
  const names = scorersFor().map(({ name }) => name);
  expect(names).toEqual([...defaultJudgeScorers, ...codeScorers].map(({ name }) => name));
});

test('turns guidelines into scorers, and replaces a default scorer of the same name', () => {
  const set = scorersFor({
    guidelines: { professional_tone: 'Address the customer formally.', sign_off: 'End with our name.' },
  });
  const judges = set.filter(isJudgeScorer);
  expect(judges).toHaveLength(defaultJudgeScorers.length + 1);
  const tone = judges.filter(({ name }) => name === 'professional_tone');
  expect(tone).toHaveLength(1);
  expect(tone[0]?.question).toContain('Address the customer formally.');
  expect(tone[0]?.values).toEqual({ kind: 'yes-no' });
  expect(judges.at(-1)).toMatchObject({ name: 'sign_off', needs: ['reply'] });
});

test('takes the severity of a guideline, which does not change its version, and names an unknown one', () => {
  const plain = guidelineScorer('a', 'No bleach.');
  const grave = { a: { text: 'No bleach.', severity: 'harm' as const } };
  expect(scorersFor({ guidelines: grave })).toContainEqual({ ...plain, severity: 'harm' });
  const unknown = { no_bleach: { text: 'No bleach.', severity: 'deadly' as 'harm' } };
  expect(() => scorersFor({ guidelines: unknown })).toThrow(
    'no_bleach.severity: got "deadly"; expected harm, task, style',
  );
});

test('counts failures of one cause once, and takes the gravest', () => {
  const named = scorersFor().map(({ name, severity }) => ({ name, severity }));
  const of = (...names: string[]) => badnessOf(named.filter(({ name }) => names.includes(name)));
  expect(of('cut_off', 'fluency', 'completeness')).toEqual({ severity: 'task', causes: 1 });
  expect(of('fluency', 'completeness')).toEqual({ severity: 'task', causes: 1 });
  expect(of('fluency')).toEqual({ severity: 'style', causes: 1 });
  expect(of('fluency', 'no_harmful_advice')).toEqual({ severity: 'harm', causes: 2 });
  expect(worstFirst(of('no_harmful_advice'), of('cut_off', 'refusal', 'valid_json'))).toBeLessThan(0);
});

test("derives a guideline's version from its words", () => {
  expect(guidelineScorer('a', 'Be brief.').version).toBe(guidelineScorer('b', 'Be brief.').version);
  expect(guidelineScorer('a', 'Be brief.').version).not.toBe(guidelineScorer('a', 'Be brief!').version);
});

test('changes the version only if there are examples', () => {
  const example = { reply: 'Ok.', value: 'yes', rationale: 'One word.' };
  expect(withExamples(scorer(), [])).toEqual(scorer());
  const one = withExamples(scorer(), [example]);
  expect(one.version).toMatch(/^1\+ex-[0-9a-f]{8}$/);
  expect(withExamples(scorer(), [{ ...example, reply: 'Fine.' }]).version).not.toBe(one.version);
  const fluency = defaultJudgeScorers.find(({ name }) => name === 'fluency') as JudgeScorer;
  expect(scorersFor({ examples: { fluency: [example] } })).toContainEqual(withExamples(fluency, [example]));
});

describe('names the problem of an invalid set', () => {
  test.each([
    ['a name that is not a property name', [scorer({ name: 'is it brief' })], /is it brief\.name: a letter/],
    ['a name used twice', [scorer(), scorer()], /brevity\.name: brevity occurs twice/],
    ['no question', [scorer({ question: '  ' })], /brevity\.question/],
    ['one category', [scorer({ values: { kind: 'categories', values: ['a'] } })], /brevity\.values\.values/],
    ['case that differs', [scorer({ values: { kind: 'categories', values: ['A', 'a'] } })], /differ in more than case/],
    ['an empty range', [scorer({ values: { kind: 'number', min: 5, max: 5 } })], /min must be less than max/],
    ['no need', [scorer({ needs: [] })], /brevity\.needs/],
    ['a rate over 1', [scorer({ sampleRate: 1.5 })], /brevity\.sampleRate/],
    ['an unknown field', [{ ...scorer(), verison: '2' }], /verison/],
    [
      'an example with a value that is not allowed',
      [scorer({ examples: [{ reply: 'x', value: 'maybe', rationale: 'y' }] })],
      /brevity\.examples\.0\.value: "maybe"/,
    ],
    ['no function', [{ kind: 'code', name: 'x', version: '1', description: 'd' }], /x\.score: a function/],
  ])('%s', (_, set, message) => {
    expect(faultsOf(set)).toMatch(message);
  });

  test('names all problems together', () => {
    const message = faultsOf([scorer({ name: '1' }), scorer({ question: '' })]);
    expect(message).toContain('1.name');
    expect(message).toContain('brevity.question');
  });
});

test.each([
  [{ kind: 'yes-no' }, 'Yes', false],
  [{ kind: 'yes-no' }, true, false],
  [{ kind: 'number', min: 1, max: 5 }, 5, true],
  [{ kind: 'number', min: 1, max: 5 }, 5.1, false],
  [{ kind: 'boolean' }, 'true', false],
  [{ kind: 'categories', values: ['A', 'A.'] }, 'A.', true],
] as const)('accepts an example only with an exact value: %j, %j', (values, value, accepted) => {
  const set = [scorer({ values, examples: [{ reply: 'x', value, rationale: 'y' }] })];
  if (accepted) expect(checkScorers(set)).toBe(set);
  else expect(() => checkScorers(set)).toThrow('is not one of the scorer');
});

describe('always rules', () => {
  const words: CodeScorer = {
    kind: 'code',
    name: 'words',
    version: '1',
    description: 'Words of the reply.',
    score: ({ conversation }) => ({ value: String(conversation?.replies[0]?.content).split(' ').length }),
  };
  const ruleOf = (rules: unknown) => createAlwaysRule(rules, [words]);
  const fileOf = (variant: string) => `e/${variant}/2026/11/20/10/a.jsonl`;

  test('judges nothing beyond the sample without rules', () => {
    expect(ruleOf([])(chatCapture())).toBeUndefined();
    expect(ruleOf(undefined)(chatCapture())).toBeUndefined();
  });

  test('matches long replies by the endpoint’s token count, or else by an estimate', () => {
    const rule = ruleOf([{ name: 'long', replyTokensOver: 100 }]);
    expect(rule(chatCapture({ reply: 'word '.repeat(200) }))).toBe('long');
    expect(rule(chatCapture())).toBeUndefined();
    expect(rule({ ...chatCapture(), usage: { outputTokens: 101 } })).toBe('long');
    expect(rule({ ...chatCapture(), usage: { outputTokens: 100 } })).toBeUndefined();
  });

  test('matches a variant, and captures that a code scorer flags', () => {
    const rule = ruleOf([
      { name: 'challenger', variant: 'B' },
      { name: 'terse', flaggedBy: { scorer: 'words', under: 3 } },
    ]);
    expect(rule(chatCapture(), fileOf('B'))).toBe('challenger');
    expect(rule(chatCapture(), fileOf('A'))).toBeUndefined();
    expect(rule(chatCapture({ reply: 'In Bern.' }))).toBe('terse');
  });

  test('requires all conditions of a rule', () => {
    const rule = ruleOf([{ name: 'both', variant: 'B', flaggedBy: { scorer: 'words', is: 2 } }]);
    expect(rule(chatCapture({ reply: 'In Bern.' }), fileOf('B'))).toBe('both');
    expect(rule(chatCapture(), fileOf('B'))).toBeUndefined();
    expect(rule(chatCapture({ reply: 'In Bern.' }), fileOf('A'))).toBeUndefined();
  });

  test('never matches an error reply', () => {
    const rule = ruleOf([{ name: 'all', replyTokensOver: 0 }]);
    expect(rule({ ...chatCapture(), error: { message: 'x' } })).toBeUndefined();
  });

  test.each([
    ['something other than a list', { name: 'x' }, /list/],
    ['no condition', [{ name: 'x' }], /needs a condition/],
    ['a misspelt scorer', [{ name: 'x', flaggedBy: { scorer: 'wrods', over: 1 } }], /the code scorer wrods does not/],
    ['a flag without a comparison', [{ name: 'x', flaggedBy: { scorer: 'words' } }], /one of is, over, under/],
    ['an unknown field', [{ name: 'x', variants: 'B' }], /variants/],
  ])('refuses %s', (_, rules, message) => {
    expect(() => ruleOf(rules)).toThrow(
      expect.objectContaining({ name: 'InvalidAlwaysRules', message: expect.stringMatching(message) }),
    );
  });
});

/** Always rules: which captures they match, and which rules are invalid. */
import { createAlwaysRule } from '../../../src/judge/scorers/always-rules.ts';
import type { CodeScorer } from '../../../src/judge/types.ts';
import { chatCapture } from './captures.ts';

const words: CodeScorer = {
  kind: 'code',
  name: 'words',
  version: '1',
  description: 'Words of the reply.',
  score: ({ conversation }) => ({ value: String(conversation?.replies[0]?.content).split(' ').length }),
};
const ruleOf = (rules: unknown) => createAlwaysRule(rules, [words]);

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
  expect(rule(chatCapture(), { variant: 'B' })).toBe('challenger');
  expect(rule(chatCapture(), { variant: 'A' })).toBeUndefined();
  expect(rule(chatCapture({ reply: 'In Bern.' }))).toBe('terse');
});

test('requires all conditions of a rule', () => {
  const rule = ruleOf([{ name: 'both', variant: 'B', flaggedBy: { scorer: 'words', is: 2 } }]);
  expect(rule(chatCapture({ reply: 'In Bern.' }), { variant: 'B' })).toBe('both');
  expect(rule(chatCapture(), { variant: 'B' })).toBeUndefined();
  expect(rule(chatCapture({ reply: 'In Bern.' }), { variant: 'A' })).toBeUndefined();
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

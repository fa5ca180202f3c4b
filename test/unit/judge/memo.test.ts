/** Caching by a set of scorers. */
import { memoByScorers } from '../../../src/judge/memo.ts';
import { defaultJudgeScorers } from '../../../src/judge/scorers/default-scorers.ts';

test('computes once for the same scorers in the same order', () => {
  let made = 0;
  const names = memoByScorers((scorers, rung: string) => {
    made += 1;
    return `${rung}: ${scorers.map(({ name }) => name).join(' ')}`;
  });
  const two = defaultJudgeScorers.slice(0, 2);
  const [first, second] = two.map(({ name }) => name);
  expect(names(two, 'a')).toBe(`a: ${first} ${second}`);
  expect(names([...two], 'a')).toBe(`a: ${first} ${second}`);
  expect(made).toBe(1);
  expect(names(two.toReversed(), 'a')).toBe(`a: ${second} ${first}`);
  expect(names(two, 'b')).toBe(`b: ${first} ${second}`);
  expect(made).toBe(3);
});

test('distinguishes scorers with the same name and version', () => {
  const questions = memoByScorers((scorers) => scorers.map(({ question }) => question).join());
  const [scorer] = defaultJudgeScorers.slice(0, 1);
  if (scorer === undefined) throw new Error('no scorers');
  expect(questions([scorer])).toBe(scorer.question);
  expect(questions([{ ...scorer, question: 'Is it so?' }])).toBe('Is it so?');
});

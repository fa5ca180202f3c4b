/** The digest of what the judge reads about a capture. */
import { questionOf } from '../../../src/judge/question.ts';
import { chatCapture, exchangeCapture } from './captures.ts';

const JUDGE = 'bedrock:/m';
const captured = { bucket: 'b', key: 'k', etag: 'e', start: 10, end: 90 };

test('is the same for the same text, and another for another judge or text', () => {
  const question = questionOf(JUDGE, chatCapture());
  expect(question).toMatch(/^[0-9a-f]{32}$/);
  expect(questionOf(JUDGE, chatCapture())).toBe(question);
  expect(questionOf('bedrock:/n', chatCapture())).not.toBe(question);
  expect(questionOf(JUDGE, chatCapture({ reply: 'Another.' }))).not.toBe(question);
});

test.each([
  ['key', { key: 'l' }],
  ['version', { etag: 'f' }],
  ['range', { start: 100, end: 180 }],
])('exchanges with the same text are other questions if the captured reply has another %s', (_, more) => {
  const question = questionOf(JUDGE, exchangeCapture(captured));
  expect(questionOf(JUDGE, exchangeCapture({ ...captured }))).toBe(question);
  expect(questionOf(JUDGE, exchangeCapture({ ...captured, ...more }))).not.toBe(question);
});

test('an exchange with nothing to compare is the question of an ordinary capture', () => {
  expect(questionOf(JUDGE, exchangeCapture(undefined))).toBe(questionOf(JUDGE, chatCapture()));
});

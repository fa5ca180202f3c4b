/** The code scorers as a set, and those that count words, characters and tokens. */

import { countWords } from '../../../src/captures/prose.ts';
import { requestTexts } from '../../../src/captures/reply-text.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { chatCapture, errorCapture, tabularCapture, textCapture } from '../../helpers/captures.ts';

const scorer = (name: string) => {
  const found = codeScorers.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no code scorer ${name}`);
  return found;
};

test('has unique names, and descriptions that state what is not measured', () => {
  expect(new Set(codeScorers.map(({ name }) => name)).size).toBe(codeScorers.length);
  for (const { description, version } of codeScorers) {
    expect(description).toMatch(/\bnot\b/);
    expect(version).toMatch(/^\d+$/);
  }
});

describe('response_words', () => {
  test.each([
    ['', 0],
    ['one', 1],
    ['  two   words\n', 2],
    ["It's a state-of-the-art reply — truly.", 6],
    ['今日は天気がいい', 5],
    ['ภาษาไทยไม่มีเว้นวรรค', 5],
    ['GPT は速い', 3],
  ])('counts the words of %p: %d', (text, words) => expect(countWords(text)).toBe(words));

  test('counts all choices, and the text parts of multi-part content', () => {
    const capture = chatCapture('Hi', [
      { role: 'assistant', content: 'one two' },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'three four' },
          { type: 'image_url', image_url: { url: 'x y' } },
        ],
      },
    ]);
    expect(scorer('response_words').score(capture)).toEqual({ value: 4 });
  });

  test('counts no words in a reply with only tool calls, and does not judge a missing reply', () => {
    const call = { type: 'function' as const, function: { name: 'f', arguments: '{}' } };
    expect(
      scorer('response_words').score(chatCapture('Hi', [{ role: 'assistant', content: null, tool_calls: [call] }])),
    ).toEqual({ value: 0 });
    expect(scorer('response_words').score(chatCapture('Hi', undefined))).toEqual({ notJudgeable: 'noResponse' });
  });

  test('judges plain text, but neither error replies nor tables', () => {
    for (const name of ['response_words', 'response_length'])
      expect(scorer(name).score(errorCapture('upstream timed out'))).toEqual({ notJudgeable: 'errorReply' });
    expect(scorer('response_words').score(textCapture('a', 'b c'))).toEqual({ value: 2 });
    expect(scorer('response_words').score(tabularCapture())).toEqual({ notJudgeable: 'notText' });
  });
});

test('response_length counts code points', () => {
  expect(scorer('response_length').score(chatCapture('Hi', 'naïve 👍'))).toEqual({ value: 7 });
});

test('output_tokens is the endpoint’s count, and not judgeable without one', () => {
  const { score } = scorer('output_tokens');
  expect(score(chatCapture('Hi', 'Hello', { usage: { outputTokens: 7 } }))).toEqual({ value: 7 });
  expect(score(chatCapture('Hi', 'Hello', { usage: { outputTokens: 0 } }))).toEqual({ value: 0 });
  expect(score(chatCapture('Hi', 'Hello', { usage: { inputTokens: 3 } }))).toEqual({ notJudgeable: 'noUsage' });
  expect(score(chatCapture('Hi', 'Hello'))).toEqual({ notJudgeable: 'noUsage' });
});

test('the texts of a conversation are those of its messages that have one', () => {
  const asked = (content: string) => ({ role: 'user', content });
  const messages = [asked('a'), { role: 'assistant', content: null, tool_calls: [] }, asked('')];
  expect(requestTexts(chatCapture(messages, 'b'))).toEqual({ texts: ['a'] });
  expect(requestTexts(chatCapture(messages.slice(1), 'b'))).toEqual({ notJudgeable: 'notText' });
});

test('the texts of a request without a conversation are its payload, if the payload is text', () => {
  const plain = textCapture('a', 'b');
  expect(requestTexts(plain)).toEqual({ texts: ['a'] });
  expect(requestTexts({ ...plain, request: { ...plain.request, text: undefined } as never })).toEqual({
    notJudgeable: 'notText',
  });
  expect(requestTexts(tabularCapture())).toEqual({ notJudgeable: 'notText' });
});

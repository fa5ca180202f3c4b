/** Counts words, tokens and characters of a reply. */

import { replyTexts, UNSPACED_SCRIPT } from '../../../captures/reply-text.ts';
import { sum } from '../../../core/values/sum.ts';
import type { CodeScorer } from '../../types.ts';

// A fixed locale, so that a text has the same number of words on every machine.
const segmenter = new Intl.Segmenter('en', { granularity: 'word' });

/** Counts words: pieces between white space, and dictionary words in scripts without spaces. */
export function countWords(text: string): number {
  let words = 0;
  // Iterates instead of splitting, because a long text has millions of words.
  for (const [piece] of text.matchAll(/\S+/g)) {
    if (!UNSPACED_SCRIPT.test(piece)) {
      words += 1;
      continue;
    }
    for (const segment of segmenter.segment(piece)) if (segment.isWordLike) words += 1;
  }
  return words;
}

/** Counts Unicode code points, which are the characters of most languages. */
const countCharacters = (text: string): number => {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
};

export const responseWords: CodeScorer = {
  kind: 'code',
  name: 'response_words',
  version: '1',
  description:
    'Number of words in the reply, all choices together: pieces between white space, dictionary words in scripts ' +
    'without spaces (Chinese, Japanese, Thai, …). An error reply counts the words of its body. It does not count ' +
    'reasoning text or tool-call arguments, and says nothing about whether the length suits the question.',
  score(capture) {
    const found = replyTexts(capture);
    return 'notJudgeable' in found ? found : { value: sum(found.texts.map(countWords)) };
  },
};

export const outputTokens: CodeScorer = {
  kind: 'code',
  name: 'output_tokens',
  version: '1',
  description:
    'Output tokens as the endpoint itself reported them in the captured `usage`, reasoning included where the ' +
    'endpoint includes it. It is not estimated: a reply without usage is not judgeable.',
  score(capture) {
    const tokens = capture.usage?.outputTokens;
    return tokens === undefined ? { notJudgeable: 'noUsage' } : { value: tokens };
  },
};

export const responseLength: CodeScorer = {
  kind: 'code',
  name: 'response_length',
  version: '1',
  description:
    'Characters (Unicode code points) in the reply, all choices together. An error reply counts its body. It does ' +
    'not count reasoning text or tool-call arguments, and is neither bytes nor tokens.',
  score(capture) {
    const found = replyTexts(capture);
    return 'notJudgeable' in found ? found : { value: sum(found.texts.map(countCharacters)) };
  },
};

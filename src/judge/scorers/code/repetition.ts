/** Detects replies that are caught in a loop. */

import { UNSPACED_SCRIPT } from '../../../captures/prose.ts';
import { replyWords } from '../../../captures/reply-text.ts';
import { trimEndOf } from '../../../core/text/text-edges.ts';
import { codeScorer } from './code-scorer.ts';

/** Longest unit, in words: a paragraph. Longer loops show up as repeated sentences. */
const MAX_PERIOD = 60;
/** A unit must occur this often in a row … */
const MIN_REPEATS = 4;
/** … and over this many words in total. A single word must therefore occur 8 times. */
const MIN_WORDS = 8;
/** A sentence of this many words … */
const MIN_SENTENCE_WORDS = 5;
/** … that occurs this often, not necessarily in a row, … */
const MIN_SENTENCE_COUNT = 4;
/** … and makes up this share of the reply's words is also a loop. */
const MIN_SENTENCE_SHARE = 0.3;
/**
 * Number of words that are compared, from the end, because loops continue until the reply is cut off. 20,000 words × 60
 * periods are 1.2 million comparisons, which take a few milliseconds.
 */
const MAX_WORDS = 20_000;
/** Enough for this number of words in any language. */
const MAX_CHARACTERS = 500_000;

/** Returns words, or single characters in scripts without spaces. Table rules, numbers and code repeat naturally and are left out. */
function tokens(text: string): string[] {
  const plain = text.replace(/```[\s\S]*?(?:```|$)/g, ' ');
  const words = plain
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => /\p{L}/u.test(word))
    .flatMap((word) =>
      UNSPACED_SCRIPT.test(word) ? [...word].filter((character) => /\p{L}/u.test(character)) : [word],
    );
  return words.slice(-MAX_WORDS);
}

interface Loop {
  unit: string;
  times: number;
}

/** Returns the longest run of a unit that is repeated back to back. */
function backToBack(words: string[]): Loop | undefined {
  let best: Loop | undefined;
  let bestLength = 0;
  for (let period = 1; period <= Math.min(MAX_PERIOD, words.length / MIN_REPEATS); period += 1) {
    let run = 0;
    for (let index = period; index <= words.length; index += 1) {
      if (index < words.length && words[index] === words[index - period]) {
        run += 1;
        continue;
      }
      const length = run + period;
      const times = Math.floor(length / period);
      // A run of period p is also one of period 2p, so only a clearly longer run replaces it.
      if (times >= MIN_REPEATS && length >= MIN_WORDS && length > bestLength * 1.2) {
        best = { unit: words.slice(index - length, index - length + period).join(' '), times };
        bestLength = length;
      }
      run = 0;
    }
  }
  return best;
}

function repeatedSentence(text: string): Loop | undefined {
  const counts = new Map<string, number>();
  let total = 0;
  for (const sentence of text.replace(/```[\s\S]*?(?:```|$)/g, ' ').split(/(?<=[.!?。！？])\s*|\n+/)) {
    const words = tokens(sentence);
    total += words.length;
    if (words.length < MIN_SENTENCE_WORDS) continue;
    const key = trimEndOf(words.join(' '), (character) => /[\p{P}\p{S}]/u.test(character));
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  for (const [unit, times] of counts) {
    const words = unit.split(' ').length * times;
    if (times >= MIN_SENTENCE_COUNT && words / total >= MIN_SENTENCE_SHARE) return { unit, times };
  }
  return undefined;
}

/** Returns the loop in a text, or `undefined`. */
export function findLoop(text: string): Loop | undefined {
  const end = text.slice(-MAX_CHARACTERS);
  return backToBack(tokens(end)) ?? repeatedSentence(end);
}

/** The part of the unit that is shown to a reader. */
const MAX_UNIT_CHARS = 80;

export const repeatedText = codeScorer('repeated_text', {
  fails: true,
  bounds: [0.05, 0.2],
  severity: 'style',
  score(capture) {
    const found = replyWords(capture);
    if ('notJudgeable' in found) return found;
    const loop = found.texts.map(findLoop).find((candidate) => candidate !== undefined);
    if (loop === undefined) return { value: false };
    const unit = loop.unit.length > MAX_UNIT_CHARS ? `${loop.unit.slice(0, MAX_UNIT_CHARS)}…` : loop.unit;
    return { value: true, rationale: `${loop.times} times: ${JSON.stringify(unit)}` };
  },
});

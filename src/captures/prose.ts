/** Distinguishes words from numbers, markup and labels. */

/** Scripts without spaces between words, where a run of letters is many words. */
export const UNSPACED_SCRIPT =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

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

/** Words of prose at least. Labels and ids have fewer. */
const MIN_WORDS = 3;
const MAX_CHARS = 2_000;
const NUMBERS = /(?<!\S)[^\s\p{L}]+(?:e[^\s\p{L}]+)?(?!\S)/giu;
const SENTENCE_END = /\p{L}[^.!?…。！？؟।]{0,200}[.!?…。！？؟।][\p{P}\p{S}\s]{0,20}$/u;

/**
 * Whether the beginning of a text has more words than a label. Numbers do not count as words, except next to other
 * words.
 */
export function hasProse(text: string, words = MIN_WORDS): boolean {
  const start = text.slice(0, MAX_CHARS);
  return countWords(start) >= words && countWords(start.replace(NUMBERS, ' ')) >= words - 1;
}

export const endsSentence = (text: string): boolean => SENTENCE_END.test(text.slice(-MAX_CHARS / 4));

/** Number of items of a list that are searched for prose. Further items are assumed to resemble them. */
const MAX_ITEMS = 100;

/**
 * Whether a document has prose anywhere. The `sequence` of a zero-shot classifier is its input, and does not count.
 * @param depth number of levels to search
 */
export function containsProse(value: unknown, depth = 6): boolean {
  if (typeof value === 'string') return hasProse(value);
  if (value === null || typeof value !== 'object' || depth === 0) return false;
  const looked = Array.isArray(value) ? value.slice(0, MAX_ITEMS) : value;
  return Object.entries(looked).some(([name, inner]) => name !== 'sequence' && containsProse(inner, depth - 1));
}

/**
 * Tags of XML, HTML and SVG, with following content that is not text, and the names before the values of YAML and JSON.
 */
const MARKUP =
  /<!\[CDATA\[|<(?:style|script|!--)[^<]*|<[^<>]*>|^[\s-]{0,20}[\w"'.$-]{1,60}:(?=\s|$)|"[^"\n]{0,60}"\s?:/gim;

/**
 * Whether a whole body contains words that make a statement. Numbers, markup around values, and a label such as
 * `positive` do not.
 *
 * @param words minimum number of words of prose
 */
export const saysWords = (body: string, words?: number): boolean =>
  body
    .slice(0, 50 * MAX_CHARS)
    .split(MARKUP)
    .some((piece) => hasProse(piece, words) || endsSentence(piece));

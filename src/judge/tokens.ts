/**
 * Estimates tokens without a tokenizer, and cuts long texts in the middle to fit a bound. Tokenizers differ between
 * models, so all plans include a margin.
 */

const FIRST_NON_ASCII = 0x80;
/**
 * From this code unit on (CJK radicals, kana, ideographs, Hangul, emoji surrogates), a character is about one token.
 */
const FIRST_IDEOGRAPH = 0x2e80;

/** A request may have this many times the estimated tokens, because tokenizers differ. */
export const INPUT_MARGIN = 1.5;

/**
 * Returns the size of a character in quarters of a token. English prose and JSON have 3.5 to 4.5 characters per token with
 * current tokenizers, other alphabets about two, and Chinese, Japanese and Korean about one.
 */
const quartersOf = (code: number): number => (code < FIRST_NON_ASCII ? 1 : code < FIRST_IDEOGRAPH ? 2 : 4);

/**
 * Estimates the number of tokens of a text without a tokenizer. Tokenizers differ between models, so all plans include
 * a margin.
 */
export function estimateTokens(text: string): number {
  let quarters = 0;
  for (let i = 0; i < text.length; i += 1) quarters += quartersOf(text.charCodeAt(i));
  return Math.ceil(quarters / 4);
}

/** Returns how many of the text's characters, from its beginning or from its end, take at most `maxTokens`. */
function fittingChars(text: string, maxTokens: number, from: 'start' | 'end'): number {
  let left = maxTokens * 4;
  for (let count = 0; count < text.length; count += 1) {
    left -= quartersOf(text.charCodeAt(from === 'start' ? count : text.length - 1 - count));
    if (left < 0) return count;
  }
  return text.length;
}

/** Replaces the characters that were left out. The prompt explains it to the judge. */
const cutMark = (characters: number): string => `\n[… ${characters} characters left out here …]\n`;

/**
 * Room for a mark and about 80 characters of English, so that the beginning and the end of a text remain recognizable.
 */
export const MIN_TEXT_TOKENS = 32;

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;
const isLowSurrogate = (code: number): boolean => code >= 0xdc00 && code <= 0xdfff;

/**
 * Returns the text if it fits into `maxTokens` (estimated), otherwise its beginning and end with a visible mark between them,
 * which fit together.
 *
 * @param maxTokens at least `MIN_TEXT_TOKENS` for a text that is longer
 */
export function cutMiddle(text: string, maxTokens: number, tokens = estimateTokens(text)): string {
  if (tokens <= maxTokens) return text;
  const kept = Math.max(0, maxTokens - estimateTokens(cutMark(text.length)));
  let headEnd = fittingChars(text, Math.ceil(kept / 2), 'start');
  let tailStart = text.length - fittingChars(text, Math.floor(kept / 2), 'end');
  // A character outside the basic plane is two code units, which must not be separated.
  if (isHighSurrogate(text.charCodeAt(headEnd - 1))) headEnd -= 1;
  if (isLowSurrogate(text.charCodeAt(tailStart))) tailStart += 1;
  return text.slice(0, headEnd) + cutMark(tailStart - headEnd) + text.slice(tailStart);
}

/**
 * Divides a token bound by weights. A share that needs less than its part leaves the rest to the others.
 * @param shares the tokens that each needs, and its weight relative to the others
 * @returns the tokens granted to each share, in the same order. Their sum is at most `bound`.
 */
export function divideBound(shares: readonly { tokens: number; weight: number }[], bound: number): number[] {
  const granted = shares.map(() => 0);
  const wanting = shares.map((share, index) => ({ ...share, index, need: share.tokens / share.weight || 0 }));
  let left = bound;
  let weights = shares.reduce((sum, { weight }) => sum + weight, 0);
  for (const { index, tokens, weight } of wanting.toSorted((a, b) => a.need - b.need)) {
    const own = Math.min(tokens, Math.floor((left * weight) / weights) || 0);
    granted[index] = own;
    left -= own;
    weights -= weight;
  }
  return granted;
}

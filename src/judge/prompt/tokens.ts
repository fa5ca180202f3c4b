/** Estimates tokens without a tokenizer. Tokenizers differ between models, so all plans include a margin. */

const FIRST_NON_ASCII = 0x80;
/** From this code unit on (CJK radicals, kana, ideographs, Hangul, emoji surrogates) a character is about one token. */
const FIRST_IDEOGRAPH = 0x2e80;

/** A request may have this many times the estimated tokens, because tokenizers differ. */
export const INPUT_MARGIN = 1.5;

/**
 * Returns the size of a character in quarters of a token. English prose and JSON have 3.5 to 4.5 characters per token with
 * current tokenizers, other alphabets about two, and Chinese, Japanese and Korean about one.
 */
const quartersOf = (code: number): number => (code < FIRST_NON_ASCII ? 1 : code < FIRST_IDEOGRAPH ? 2 : 4);

/** Estimates the number of tokens of a text. */
export function estimateTokens(text: string): number {
  let quarters = 0;
  for (let i = 0; i < text.length; i += 1) quarters += quartersOf(text.charCodeAt(i));
  return Math.ceil(quarters / 4);
}

/** Returns how many of the text's characters, from its beginning or from its end, take at most `maxTokens`. */
export function fittingChars(text: string, maxTokens: number, from: 'start' | 'end'): number {
  let left = maxTokens * 4;
  for (let count = 0; count < text.length; count += 1) {
    left -= quartersOf(text.charCodeAt(from === 'start' ? count : text.length - 1 - count));
    if (left < 0) return count;
  }
  return text.length;
}

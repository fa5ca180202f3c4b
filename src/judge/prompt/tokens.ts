/** Estimates tokens without a tokenizer. Tokenizers differ between models, so all plans include a margin. */

/**
 * English prose and JSON have 3.5 to 4.5 characters per token with current tokenizers, other alphabets about two, and
 * Chinese, Japanese and Korean about one.
 */
const ASCII_CHARS_PER_TOKEN = 4;
const ALPHABET_CHARS_PER_TOKEN = 2;
const FIRST_NON_ASCII = 0x80;
/** From this code unit on (CJK radicals, kana, ideographs, Hangul, emoji surrogates) a character is about one token. */
const FIRST_IDEOGRAPH = 0x2e80;

/** A request may have this many times the estimated tokens, because tokenizers differ. */
export const INPUT_MARGIN = 1.5;

/** Estimates the number of tokens of a text. */
export function estimateTokens(text: string): number {
  let alphabets = 0;
  let ideographs = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < FIRST_NON_ASCII) continue;
    if (code < FIRST_IDEOGRAPH) alphabets += 1;
    else ideographs += 1;
  }
  const ascii = text.length - alphabets - ideographs;
  return Math.ceil(ascii / ASCII_CHARS_PER_TOKEN + alphabets / ALPHABET_CHARS_PER_TOKEN + ideographs);
}

/** A token estimate that needs no tokenizer: models differ, and what is planned with it has room to spare. */

/**
 * English prose and JSON run at 3.5 to 4.5 characters a token with the tokenizers of today's models; other alphabets
 * at about two, Chinese, Japanese and Korean at about one.
 */
const ASCII_CHARS_PER_TOKEN = 4;
const ALPHABET_CHARS_PER_TOKEN = 2;
const FIRST_NON_ASCII = 0x80;
/** From here on (CJK radicals, kana, ideographs, Hangul, emoji surrogates) a character is about a token. */
const FIRST_IDEOGRAPH = 0x2e80;

/** Tokenizers differ: a request may have this many times the tokens that were estimated. */
export const INPUT_MARGIN = 1.5;

/** Tokens that a text is likely to take. */
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

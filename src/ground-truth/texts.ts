/** Hashes of texts, by which replies are compared with labels without being kept. */
import { hash } from 'node:crypto';
import { trimEndOf } from '../core/text/text-edges.ts';

/** Megabytes would delay other captures: a longer text is compared by so much of it, as it is, and by its length. */
const MAX_CHARS = 256 * 1024;
/** Unicode's normalization takes quadratic time on some words. */
const MAX_WORD_CHARS = 1024;
/** 66 bits. */
const HASH_CHARS = 11;

/** Removes what readers do not see: Unicode compatibility forms, case, spacing, and the punctuation around a text. */
export function normalizedText(text: string): string {
  if (text.length > MAX_CHARS) return text;
  const plain = (/[^ -~]| {2}/.test(text) ? withPlainWords(text) : text).toLowerCase();
  // A minus, a currency or a percent sign changes what a short answer means, and stays.
  const bare = plain.replace(/^[\s"'`*_“”‘’«»¿¡([{<]+/u, '');
  return trimEndOf(bare, (character) => /[\s"'`*_“”‘’«»)\]}>.,;:!?。、]/u.test(character));
}

const withPlainWords = (text: string): string =>
  text
    .split(/\s+/)
    .map((word) => (word.length > MAX_WORD_CHARS ? word : word.normalize('NFKC')))
    .join(' ');

function hashOf(text: string): string {
  const compared = text.length > MAX_CHARS ? `${text.length}\n${text.slice(0, MAX_CHARS)}` : text;
  return hash('sha256', compared, 'base64url').slice(0, HASH_CHARS);
}

/**
 * Returns the hashes of a text as it is and of its normalized form.
 *
 * @param unmask returns a masked text as it was captured: notations of one item have one pseudonym, and are other texts
 */
export function textHashes(masked: string, unmask?: (text: string) => string): [exact: string, normalized: string] {
  const text = unmask?.(masked) ?? masked;
  return [hashOf(text), hashOf(normalizedText(text))];
}

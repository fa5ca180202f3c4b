/** Hashes of texts, by which replies are compared with labels without being kept. */
import { hash } from 'node:crypto';
import { trimEndOf } from '../core/text/text-edges.ts';

/**
 * Megabytes of text would delay other captures. A longer text is compared by this part, without normalization, and by
 * its length.
 */
const MAX_CHARS = 256 * 1024;
/** Unicode's normalization takes quadratic time on some words. */
const MAX_WORD_CHARS = 1024;
/** 66 bits. */
const HASH_CHARS = 11;

/**
 * Removes differences that readers do not notice: Unicode compatibility forms, case, spacing, and the punctuation
 * around a text.
 *
 * @example
 *     normalizedText('“Paris”.')   // 'paris'
 */
export function normalizedText(text: string): string {
  if (text.length > MAX_CHARS) return text;
  const plain = (/[^ -~]| {2}/.test(text) ? withPlainWords(text) : text).toLowerCase();
  // A minus, a currency or a percent sign changes the meaning of a short answer, so keep it.
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
 * Returns the hashes of the exact text and of its normalized form.
 *
 * @param unmask returns the captured text of a masked text: different notations of one item share a pseudonym, but are
 *   different texts
 */
export function textHashes(masked: string, unmask?: (text: string) => string): [exact: string, normalized: string] {
  const text = unmask?.(masked) ?? masked;
  return [hashOf(text), hashOf(normalizedText(text))];
}

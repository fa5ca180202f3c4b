/** Hashes of texts, by which the index compares replies with labels without keeping them. */
import { hash } from 'node:crypto';
import { trimEndOf } from '../../shared/text-edges.ts';

/** Megabytes would delay other captures; so long an answer is only exactly the same. */
const MAX_NORMALIZED_CHARS = 256 * 1024;
/** Unicode's normalization takes quadratic time on some words. */
const MAX_WORD_CHARS = 1024;
const HASH_BYTES = 8;

/** Removes what readers do not see: Unicode compatibility forms, case, spacing, and the punctuation around a text. */
export function normalizedText(text: string): string {
  if (text.length > MAX_NORMALIZED_CHARS) return text;
  const words = text.split(/\s+/).map((word) => (word.length > MAX_WORD_CHARS ? word : word.normalize('NFKC')));
  const plain = words.join(' ').toLowerCase().trimStart();
  // A minus, a currency or a percent sign changes what a short answer means, and stays.
  const bare = plain.replace(/^[\s"'`*_“”‘’«»¿¡([{<]+/u, '');
  return trimEndOf(bare, (character) => /[\s"'`*_“”‘’«»)\]}>.,;:!?。、]/u.test(character));
}

const hashOf = (text: string): string => hash('sha256', text, 'buffer').subarray(0, HASH_BYTES).toString('base64url');

/** Returns the hashes of a text as it is and of its normalized form: 11 characters each. */
export const textHashes = (text: string): [exact: string, normalized: string] => [
  hashOf(text),
  hashOf(normalizedText(text)),
];

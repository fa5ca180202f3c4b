/** Compares two texts: words in common, equality for readers, refusals. */

/** Removes differences that readers do not see: Unicode compatibility forms, quotes, case and spacing. */
export const normalize = (text: string): string =>
  text.normalize('NFKC').replace(/[‘’‛]/g, "'").replace(/[“”]/g, '"').replace(/\s+/g, ' ').trim().toLowerCase();

/** Only this much of a text is compared, in characters: megabytes would delay the sending by a second. */
const MAX_COMPARED = 256 * 1024;

/** Whether two texts are the same for readers. Texts above the limit must be identical. */
export const readAlike = (a: string, b: string): boolean =>
  a === b || (Math.max(a.length, b.length) <= MAX_COMPARED && normalize(a) === normalize(b));

/** Words and, for scripts without spaces, single characters. For a longer text, `count` is extrapolated from its beginning. */
export function wordsOf(text: string): { words: string[]; count: number } {
  const begin = text.slice(0, MAX_COMPARED).toLowerCase();
  const word = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{N}]+/gu;
  const words = begin.match(word) ?? [];
  return { words, count: Math.round((words.length * text.length) / Math.max(1, Math.min(text.length, MAX_COMPARED))) };
}

/** F1 of the shared words with their multiplicity (ROUGE-1): 1 for the same words, 0 for no shared word. */
export function wordOverlap(a: readonly string[], b: readonly string[]): number {
  if (a.length === 0 && b.length === 0) return 1;
  if (a.length === 0 || b.length === 0) return 0;
  const counts = new Map<string, number>();
  for (const word of a) counts.set(word, (counts.get(word) ?? 0) + 1);
  let shared = 0;
  for (const word of b) {
    const left = counts.get(word) ?? 0;
    if (left === 0) continue;
    counts.set(word, left - 1);
    shared++;
  }
  return (2 * shared) / (a.length + b.length);
}

/** How refusals begin. A heuristic for common English, German, French and Spanish forms. */
const REFUSALS = [
  /^(i'?m (really |very )?sorry|sorry|i apologi[sz]e|unfortunately)\b.{0,60}\b(can'?t|cannot|can not|unable|won'?t|not able|not (allowed|permitted))\b/,
  /^i (can'?t|cannot|can not|could not|won'?t|will not|must decline|am unable|'m unable|am not able|'m not able)\b/,
  /^i'm (unable|not able|not allowed)\b/,
  /^as an ai\b.{0,80}\b(can'?t|cannot|unable|not able|don'?t)\b/,
  /^(es tut mir leid|leider)\b.{0,60}\b(kann|darf) (ich )?(dir |ihnen |dabei |dazu |das |diese )*.{0,30}nicht\b/,
  /^(je suis désolée?|désolée?)\b.{0,60}\bne (peux|puis) pas\b/,
  /^lo siento\b.{0,60}\bno puedo\b/,
];
/** Only the beginning of a text is searched for a refusal. */
const REFUSAL_CHARACTERS = 240;

export function isRefusal(text: string): boolean {
  const start = normalize(text.slice(0, REFUSAL_CHARACTERS * 2)).slice(0, REFUSAL_CHARACTERS);
  return REFUSALS.some((pattern) => pattern.test(start));
}

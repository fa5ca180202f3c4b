/** Marks what differs between two texts, as HTML. */
import { diffArrays } from 'diff';
import { escapeHtml } from '../../core/text/html-page.ts';

/** Words, runs of white space, and every other character alone. */
const TOKENS = /[\p{L}\p{N}]+|\s+|[^\p{L}\p{N}\s]/gu;
/** Texts with more differences than this have too little in common to compare word by word, and would take seconds. */
const MOST_EDITS = 1000;
/** Longer texts are shown without marks. In characters. */
const MOST_CHARACTERS = 50_000;

/**
 * Returns the HTML of both texts. Words that only the first has are in `<del>`, words that only the second has in `<ins>`.
 * Texts that are too long, or have too little in common, have no marks.
 */
export function markedDiff(before: string, after: string): { before: string; after: string } {
  const plain = { before: escapeHtml(before), after: escapeHtml(after) };
  if (Math.max(before.length, after.length) > MOST_CHARACTERS) return plain;
  const changes = diffArrays(before.match(TOKENS) ?? [], after.match(TOKENS) ?? [], { maxEditLength: MOST_EDITS });
  if (!changes) return plain;
  const marked = { before: '', after: '' };
  for (const { value, added, removed } of changes) {
    const text = escapeHtml(value.join(''));
    if (!added) marked.before += removed ? `<del>${text}</del>` : text;
    if (!removed) marked.after += added ? `<ins>${text}</ins>` : text;
  }
  return marked;
}

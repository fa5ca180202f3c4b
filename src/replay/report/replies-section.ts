/** The section of a report with the replies that got worse: both replies side by side with marked differences. */

import { diffArrays } from 'diff';
import { drawing, escapeHtml, folded, isolated } from '../../core/text/html-page.ts';
import { dim, type Part, section } from '../../core/text/page.ts';
import type { RegressionRow } from '../compare/quality.ts';

export const REPLIES_STYLE = `
.reply { border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; margin: 12px 0; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 0 12px; } .sides pre { max-height: 420px; }
del, ins { text-decoration: none; } del { background: #d6453d33; } ins { background: #2f9e6b33; }
details.block { display: block; margin: 8px 0; }
`;

function replyCard({ key, file, line, input, before, after, rationale, regressions, overlap }: RegressionRow): string {
  const names = regressions.map(
    // Little in common alone is not a regression: the reply may have the same meaning.
    (name) => `<span class="${name === 'little-in-common' ? 'soft' : 'bad'}">${escapeHtml(name)}</span>`,
  );
  const shared = overlap === undefined ? '' : ` <span class="soft">word overlap ${overlap.toFixed(2)}</span>`;
  const marked = markedDiff(before, after);
  const side = (name: string, html: string): string =>
    `<div><span class="soft">${name}</span><pre dir="auto">${html}</pre></div>`;
  return (
    `<article class="reply">${names.join(', ')}${shared}<br>${isolated(key)} ` +
    `<span class="soft">${isolated(file)}, line ${line}</span>${rationale ? `<p>${isolated(rationale)}</p>` : '<br>'}` +
    `${folded('input', input)}<div class="sides">${side('before', marked.before)}${side('after', marked.after)}</div></article>`
  );
}

/** @param total number of replies that got worse, of which the gravest are in the rows */
export function regressionsPart(rows: readonly RegressionRow[], total: number): Part {
  const note = `${total} got worse; the gravest come first. What only one of the replies has is marked.`;
  return rows.length > 0 && section('Replies to review', dim(note), drawing(rows.map(replyCard).join('\n')));
}

// ----------------------------------------------------------------------------------------------------------- marks

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

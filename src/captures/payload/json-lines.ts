/** Parses bodies with one JSON document per line. */
import { parseJson } from '../json.ts';

/**
 * @param announced the content type announces JSON Lines. A line that does not parse is then kept as text, with a note.
 *   Otherwise there must be at least two lines, each an object or a list.
 * @returns the documents, or `undefined` when the body is not JSON Lines.
 */
export function parseJsonLines(text: string, announced: boolean, notes: string[]): unknown[] | undefined {
  const first = text.trimStart()[0];
  if (!announced && first !== '{' && first !== '[') return undefined;
  const documents: unknown[] = [];
  const found: string[] = [];
  let unread = 0;
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    const parsed = parseJson(line);
    if (parsed.ok) {
      if (!announced && (typeof parsed.value !== 'object' || parsed.value === null)) return undefined;
      documents.push(parsed.value);
      found.push(...parsed.notes);
    } else {
      if (!announced) return undefined;
      unread += 1;
      documents.push(line);
    }
  }
  if (unread === documents.length || (!announced && documents.length < 2)) return undefined;
  if (unread > 0) found.push(`${unread} of ${documents.length} JSON lines could not be read and are kept as text`);
  notes.push(...new Set(found));
  return documents;
}

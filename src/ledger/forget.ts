/** Forgets the ids of traces: their rows in the tables of ids. The other tables have no id of a person. */
import type { Work } from '../core/aws/storage.ts';
import { dayOf, type ListedFile, listFiles, partsOf, readFiles, removeFiles, searchFile, writeFile } from './files.ts';
import { changeForgotten, type Forgotten, readForgotten } from './forgotten.ts';
import { ID_TABLES, type Row } from './tables.ts';

/** A function that has read the list before has ended so long after, whatever the clock of a person's machine says. */
const UNDER_WAY_MS = 3_600_000;

/**
 * Lists the traces, and then rewrites the files with their rows. It may be killed and repeated at any time.
 *
 * @param hours of their inferences, such as `2026-11-20T10`, by trace
 * @returns how many files were rewritten
 */
export async function forgetIds(work: Work, hours: ReadonlyMap<string, string>, nowMs: number): Promise<number> {
  const days = Map.groupBy(hours.keys(), (traceId) => dayOf(hours.get(traceId) ?? ''));
  const traces = Object.fromEntries(days);
  await changeForgotten(work, (list) => [...list, { atMs: nowMs, traces }]);
  let all = 0;
  // A merge may have written their rows to another file meanwhile.
  for (;;) {
    const rewritten = await leaveOut(work, traces);
    if (rewritten === 0) return all;
    all += rewritten;
  }
}

/** Looks once more for rows that others wrote who had read the list before. @param hasTime whether there is time to look at some files */
export async function forgetAgain(work: Work, nowMs: number, hasTime: () => boolean): Promise<void> {
  const open = (await readForgotten(work)).filter(({ isSettled }) => !isSettled);
  for (const { traces } of open) {
    if (!hasTime()) return;
    await leaveOut(work, traces);
  }
  const isOver = ({ atMs }: Forgotten): boolean => atMs < nowMs - UNDER_WAY_MS;
  if (!open.some(isOver)) return;
  await changeForgotten(work, (list) => list.map((one) => (isOver(one) ? { ...one, isSettled: true } : one)));
}

/** Rewrites the files with rows of these traces. @returns how many */
async function leaveOut(work: Work, traces: Forgotten['traces']): Promise<number> {
  let rewritten = 0;
  for (const table of ID_TABLES) {
    for (const [day, ids] of Object.entries(traces)) {
      const sought = { column: 'traceId', values: new Set(ids) } as const;
      for (const file of await Array.fromAsync(listFiles(work, table, day, day))) {
        const found = await searchFile(work, table, file, sought, ['traceId']);
        if (found.flat().length > 0 && (await rewrite(work, table, file))) rewritten += 1;
      }
    }
  }
  return rewritten;
}

/** @returns whether the file was there. A reader that has listed it finds its rows in the new one */
async function rewrite(work: Work, table: (typeof ID_TABLES)[number], { key, day, isMerged }: ListedFile) {
  let isGone = false;
  const parts = isMerged ? await partsOf(work, key) : [];
  const rows: Row<typeof table>[] = [];
  for await (const group of readFiles(work, table, [key], undefined, () => (isGone = true))) rows.push(...group);
  if (isGone) return false;
  const made = await writeFile(work, table, day, rows, parts);
  // Files are named by their content.
  if (made?.key === key) return false;
  await removeFiles(work, [key]);
  return true;
}

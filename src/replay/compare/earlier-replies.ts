/** The replies of an earlier run, for a comparison with those of a later one. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { compareReplies } from './compare-replies.ts';
import { jsonLines } from './json-lines.ts';
import { REPLIES_FILE, type StoredReply } from './replies-file.ts';
import type { RunData } from './run-data.ts';

/**
 * Finds the place of each reply of a run whose requests are named (`RequestTable.seal`). Only the places are in memory: each
 * reply is read when its pair comes, since runs have nearly the same order.
 */
export async function earlierReplies({ directory, requests, cutLines }: RunData) {
  const path = join(directory, REPLIES_FILE);
  const places = new Map<string, { start: number; length: number }>();
  for await (const { value, start, length } of jsonLines(path, (where) => void cutLines.push(where))) {
    places.set(requests.nameOf(value as StoredReply), { start, length });
  }
  const file = await open(path);
  return {
    /**
     * Returns the later reply, with the earlier one to the same request in place of the captured one, and how they differ.
     *
     * @param name of the request in the earlier run
     * @returns `undefined` if one of them is unknown: it was canceled or not kept
     */
    async pair(name: string, stored: StoredReply): Promise<StoredReply | undefined> {
      const place = places.get(name);
      if (!place) return undefined;
      const bytes = Buffer.allocUnsafe(place.length);
      await file.read(bytes, 0, place.length, place.start);
      const old = JSON.parse(bytes.toString('utf8')) as StoredReply;
      const replies = [old.reply, stored.reply] as const;
      // Nothing is known about a canceled reply, and only the length of one that was not kept.
      if (replies.some(({ cancelled, notKeptBytes }) => cancelled || notKeptBytes !== undefined)) return undefined;
      return { ...stored, captured: old.reply, comparison: compareReplies(...replies) };
    },
    close: () => file.close(),
  };
}

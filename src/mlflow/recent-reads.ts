/**
 * Reads the traces that are being written, many in one request, and again before a read is too old to rely on for
 * writing.
 */
import type { StoredTrace } from './types.ts';

/**
 * A trace is posted at most this long after a read that did not find it: every version from 3.4 on overwrites an
 * existing trace, including people's changes. At 40 traces a second, a read for 100 traces is recent enough for all of
 * them.
 */
const RECENT_MS = 5_000;
/** Number of traces in a repeated read: the next trace to be written and the traces after it. */
const IDS_AT_ONCE = 100;

type Read = (traceIds: readonly string[]) => Promise<ReadonlyMap<string, StoredTrace>>;

/**
 * Returns a function that returns the traces which existed at most 5 s ago; with `now`, the traces which exist now.
 *
 * @param traceIds in the order in which they are written
 * @param areAbsent whether the caller has just looked for the traces and did not find them
 */
export function recentReads(read: Read, traceIds: readonly string[], areAbsent: boolean) {
  const position = new Map(traceIds.map((id, at) => [id, at]));
  const readAtMs = new Map<string, number>(areAbsent ? traceIds.map((id) => [id, Date.now()]) : []);
  const found = new Map<string, StoredTrace>();
  let reading: Promise<void> | undefined;
  const isOutdated = (id: string): boolean => !(Date.now() - (readAtMs.get(id) ?? 0) < RECENT_MS);
  const readAll = async (ids: readonly string[]): Promise<void> => {
    const stored = await read(ids);
    for (const id of ids) {
      const trace = stored.get(id);
      if (trace === undefined) found.delete(id);
      else found.set(id, trace);
      readAtMs.set(id, Date.now());
    }
  };
  return async (ids: readonly string[], now: boolean): Promise<StoredTrace[]> => {
    if (now) await readAll(ids);
    for (let outdated = ids.find(isOutdated); outdated !== undefined; outdated = ids.find(isOutdated)) {
      const from = position.get(outdated) ?? 0;
      reading ??= readAll(traceIds.slice(from, from + IDS_AT_ONCE)).finally(() => {
        reading = undefined;
      });
      await reading;
    }
    return ids.flatMap((id) => found.get(id) ?? []);
  };
}

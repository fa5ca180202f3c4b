/**
 * The list of traces whose ids are forgotten. Whoever writes a file of ids leaves out their rows. The list has no id of a person: the id of a
 * trace is a hash of its line.
 */
import type { Work } from '../core/aws/storage.ts';
import { parseStored } from '../core/aws/storage-errors.ts';
import { untilWritten } from '../core/aws/until-written.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';

export interface Forgotten {
  /** When they were listed, epoch milliseconds. */
  atMs: number;
  /** By day, such as `2026-11-20`. */
  traces: Record<string, string[]>;
  /** A merge has looked for rows that were written by whoever had read the list before. */
  isSettled?: boolean;
}

/** Returns what is forgotten, in the order of time. */
export const readForgotten = async (work: Work): Promise<Forgotten[]> => (await readList(work)).list;

async function readList({ storage, workBucket }: Work): Promise<{ list: Forgotten[]; etag?: string }> {
  const stored = await storage.getText(workBucket, ledgerKeys.forgotten);
  if (stored === undefined) return { list: [] };
  const list = parseStored<Forgotten[]>(stored.text, `s3://${workBucket}/${ledgerKeys.forgotten}`);
  return { list, etag: stored.etag };
}

/** Changes the list, also while others do. @throws RetryableError `StorageUnavailable` */
export function changeForgotten(work: Work, change: (list: Forgotten[]) => Forgotten[]): Promise<void> {
  const { storage, workBucket } = work;
  const key = ledgerKeys.forgotten;
  return untilWritten(`s3://${workBucket}/${key}`, async () => {
    const { list, etag } = await readList(work);
    const written = await storage.putJsonIf(workBucket, key, change(list), etag);
    return written === undefined ? undefined : { result: undefined };
  });
}

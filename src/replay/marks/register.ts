/** Registers a replay in the work bucket before it sends, so that the captures of its requests are known as such. */
import { randomBytes } from 'node:crypto';
import type { Storage } from '../../core/aws/storage.ts';
import { markKeys } from '../../core/contract/work-keys.ts';

/** A replay that takes longer registers again. A mark is believed for an hour more. */
export const MARK_MS = 23 * 3_600_000;

/** A registration, as the work bucket has it. */
export interface Mark {
  run: string;
  /** From when on its requests may be sent, epoch ms. */
  atMs: number;
}

/** A registration, and from when on requests may be sent under it. */
export type Registration = Pick<Mark, 'atMs'> & { id: string };

/** Registers a replay under 64 random bits, which cannot be guessed without seeing the requests. */
export async function registerReplay(storage: Storage, workBucket: string, mark: Mark): Promise<Registration> {
  const id = randomBytes(8).toString('hex');
  await storage.putJson(workBucket, markKeys.mark(id), mark);
  return { id, atMs: mark.atMs };
}

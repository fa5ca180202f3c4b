/**
 * The list of traces whose ids are forgotten. Whoever writes a file of ids leaves out their rows. The list has no id of a person: the id of a
 * trace is a hash of its line.
 */
import type { Work } from '../core/aws/storage.ts';
import { changeStored } from '../core/aws/until-written.ts';
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
export const readForgotten = async ({ storage, workBucket }: Work): Promise<Forgotten[]> =>
  (await storage.getJson<Forgotten[]>(workBucket, ledgerKeys.forgotten)) ?? [];

/** Changes the list, also while others do. @throws RetryableError `StorageUnavailable` */
export const changeForgotten = (work: Work, change: (list: Forgotten[]) => Forgotten[]) =>
  changeStored<Forgotten[]>(work, ledgerKeys.forgotten, (list = []) => change(list));

/** Changes an object that others change too. */
import { setTimeout as sleep } from 'node:timers/promises';
import { RetryableError } from '../errors/errors.ts';
import type { Work } from './storage.ts';
import { parseStored } from './storage-errors.ts';

/** Others need up to some seconds for a change. */
const ATTEMPTS = 25;
const LONGEST_WAIT_MS = 400;

/**
 * Repeats a change until it is written or not needed.
 *
 * @param change reads the object, and writes it on condition that it has not changed in between; returns `undefined` if
 *   it has
 * @throws RetryableError `StorageUnavailable` if others keep changing the object; the errors of `change`
 */
export async function untilWritten<T>(where: string, change: () => Promise<{ result: T } | undefined>): Promise<T> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const done = await change();
    if (done !== undefined) return done.result;
    await sleep(Math.random() * LONGEST_WAIT_MS);
  }
  throw new RetryableError('StorageUnavailable', `Others changed the object ${ATTEMPTS} times in a row`, { where });
}

/**
 * Changes stored JSON in the work bucket, also while others do.
 *
 * @param change gets the value, `undefined` if there is none; returns `undefined` to keep it
 * @returns the value that is there now
 * @throws RetryableError `StorageUnavailable`
 */
export function changeStored<T>(
  { storage, workBucket }: Work,
  key: string,
  change: (before: T | undefined) => T | undefined,
  parse: (text: string, where: string) => T | undefined = parseStored<T>,
): Promise<T | undefined> {
  const where = `s3://${workBucket}/${key}`;
  return untilWritten(where, async () => {
    const stored = await storage.getText(workBucket, key);
    const before = stored && parse(stored.text, where);
    const after = change(before);
    if (after === undefined) return { result: before };
    const etag = await storage.putJsonIf(workBucket, key, after, stored?.etag);
    return etag === undefined ? undefined : { result: after };
  });
}

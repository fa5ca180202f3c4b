/** A lock between processes. */
import { DatabaseSync } from 'node:sqlite';

/** Poll interval of a waiting process. */
const POLL_MS = 200;

/**
 * Runs `work` while this process holds the lock on a file. The operating system releases the lock when its owner ends
 * for any reason. SQLite's exclusive transaction is the only such lock in Node without an add-on.
 *
 * @param waiting called once if another process owns the lock
 * @param signal cancels the wait
 *
 * @example
 *     await withFileLock('/tmp/install.lock', install);
 */
export async function withFileLock<T>(
  file: string,
  work: () => Promise<T>,
  waiting?: () => void,
  signal?: AbortSignal,
): Promise<T> {
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    for (let first = true; !tryLock(lock); first = false) {
      if (first) waiting?.();
      signal?.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    return await work();
  } finally {
    lock.close();
  }
}

function tryLock(lock: DatabaseSync): boolean {
  try {
    lock.exec('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    // 5 is SQLITE_BUSY, 261 and up are its extended forms.
    if (((error as { errcode?: number }).errcode ?? 0) % 256 === 5) return false;
    throw error;
  }
}

import { DatabaseSync } from 'node:sqlite';

/** How often a waiting process looks again. */
const POLL_MS = 200;

/**
 * Runs `work` while no other process holds the lock of this file. The operating system frees the lock when its holder
 * dies, however it dies: SQLite's exclusive transaction is the one such lock that Node has without an add-on.
 *
 * @param waiting called once if another process holds the lock
 * @param signal ends the waiting
 */
export async function withFileLock<T>(
  file: string,
  work: () => Promise<T>,
  waiting?: () => void,
  signal?: AbortSignal,
): Promise<T> {
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    for (let asked = false; !tryLock(lock); ) {
      if (!asked) waiting?.();
      asked = true;
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

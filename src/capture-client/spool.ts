/**
 * A folder for batches while the bucket is not available. A file's path is the key of its object. All functions are
 * synchronous, so that they also work at the end of the process. A batch has a few megabytes, and is written to the
 * operating system's cache.
 */
import { mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';

/**
 * Requests and replies are personal: only the application's own user may read them.
 *
 * @throws Error if the folder cannot be made
 */
export function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}

/** @param most bytes in the folder @throws Error if it is full, or if the file cannot be written */
export function spool(key: string, body: Buffer, folder: string, most: number): void {
  const used = spooled(folder).reduce((sum, { size }) => sum + size, body.length);
  if (used > most) throw new Error(`The spool is full; got: ${used} bytes; expected: at most ${most}`);
  const path = join(folder, key);
  makeFolder(dirname(path));
  writeFileSync(`${path}.part`, body, { mode: 0o600 });
  renameSync(`${path}.part`, path);
}

/** Returns the keys of batches, and their bytes. */
export function spooled(folder: string): { key: string; size: number }[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).flatMap((name) => {
    // Another process may send a file at any time.
    const about = name.endsWith('.jsonl') ? statSync(join(folder, name), { throwIfNoEntry: false }) : undefined;
    return about === undefined ? [] : [{ key: name.replaceAll(sep, '/'), size: about.size }];
  });
}

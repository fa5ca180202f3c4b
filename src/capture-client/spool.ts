/**
 * A folder for batches of a bucket that is away: the path of a file is the key of its object. All is synchronous, so that it works at
 * the end of the process, too: a batch is some megabyte, and goes to the system's memory.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import type { Batch } from './batch.ts';
import type { Settings } from './options.ts';

/**
 * Requests and replies are personal: only the application's own user may read them.
 *
 * @throws Error if the folder cannot be made
 */
export function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}

/** @throws Error if there is no folder, if it is full, or if the file cannot be written */
export function spool({ key, body }: Batch, { spoolFolder: folder, spoolBytes: most }: Settings): void {
  if (folder === undefined) throw new Error('captures remained at the end of the process; there is no spool folder');
  const used = filesIn(folder).reduce((sum, { size }) => sum + size, body.length);
  if (used > most) throw new Error(`The spool is full; got: ${used} bytes; expected: at most ${most}`);
  const path = join(folder, key);
  makeFolder(dirname(path));
  writeFileSync(`${path}.part`, body, { mode: 0o600 });
  renameSync(`${path}.part`, path);
}

/** Yields batches, oldest first. A file goes when the next batch is asked for: until then its object may be missing. */
export function* spooled(folder: string): Generator<Batch> {
  for (const { path } of filesIn(folder)) {
    try {
      // What is refused, such as a key with a former prefix, is last the next time, and holds nothing back.
      utimesSync(path, new Date(), new Date());
      yield { key: relative(folder, path).replaceAll(sep, '/'), body: readFileSync(path) };
      rmSync(path, { force: true });
    } catch {
      // Another process has sent it.
    }
  }
}

function filesIn(folder: string): { path: string; size: number; at: number }[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const files = names.flatMap((name) => {
    const path = join(folder, name);
    // Another process may send a file at any time.
    const about = name.endsWith('.jsonl') ? statSync(path, { throwIfNoEntry: false }) : undefined;
    return about === undefined ? [] : [{ path, size: about.size, at: about.mtimeMs }];
  });
  return files.sort((a, b) => a.at - b.at);
}

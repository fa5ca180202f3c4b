/** Folders under `.local/` of the project that go with the process that made them. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { projectPath } from '../project-root.ts';

/** Something may still be writing for a moment after its process was told to end. */
const REMOVAL = { recursive: true, force: true, maxRetries: 5, retryDelay: 100 };

/**
 * Makes a folder named after this process, and removes those of processes that were killed before they could.
 *
 * @param remove how a folder of this kind is removed
 */
export function makeOwnFolder(kind: string, remove: (path: string) => void = removeFolder): string {
  const parent = projectPath('.local');
  mkdirSync(parent, { recursive: true });
  for (const name of readdirSync(parent)) {
    const owner = new RegExp(`^${kind}-(\\d+)-`).exec(name)?.[1];
    if (owner && !isAlive(Number(owner))) removeLeftOver(() => remove(join(parent, name)));
  }
  return mkdtempSync(join(parent, `${kind}-${process.pid}-`));
}

/** Another process that starts now may be removing it too; what is left then, the next one removes. */
function removeLeftOver(remove: () => void): void {
  try {
    remove();
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'ENOTEMPTY', 'EBUSY'].includes(code)) throw error;
  }
}

export const removeFolder = (path: string): void => rmSync(path, REMOVAL);

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it is there and another user's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Folders that are deleted with the process that made them. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isRunning } from '../../src/core/process/is-running.ts';
import { keptPath } from '../../src/core/process/package-folder.ts';

/** A process may write for a moment after it was stopped. */
const REMOVAL = { recursive: true, force: true, maxRetries: 5, retryDelay: 100 };

/**
 * Creates a folder named after this process, and removes the folders of killed processes.
 *
 * @param parent default: `.local/` of the project
 */
export function makeOwnFolder(kind: string, parent = keptPath('.local')): string {
  mkdirSync(parent, { recursive: true });
  for (const name of readdirSync(parent)) {
    const owner = new RegExp(`^${kind}-(\\d+)-`).exec(name)?.[1];
    if (owner && !isRunning(Number(owner))) removeLeftOver(join(parent, name));
  }
  return mkdtempSync(join(parent, `${kind}-${process.pid}-`));
}

/** Removes a folder, unless another starting process does so, or it belongs to another user. */
function removeLeftOver(path: string): void {
  try {
    removeFolder(path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'ENOTEMPTY', 'EBUSY', 'EACCES', 'EPERM'].includes(code)) throw error;
  }
}

export const removeFolder = (path: string): void => rmSync(path, REMOVAL);

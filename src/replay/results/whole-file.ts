/** Writes a file that is there as a whole or not at all, whatever fails. */
import { rename, rm, writeFile } from 'node:fs/promises';
import { PermanentError } from '../../core/errors/errors.ts';

/** @throws PermanentError `ResultsNotWritten`, for example on a full disk */
export async function writeWhole(path: string, text: string): Promise<void> {
  const part = `${path}.part`;
  try {
    await writeFile(part, text);
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw new PermanentError('ResultsNotWritten', (error as Error).message, { where: path }, error);
  }
}

/** Reads a file that a person has named. */
import { readFileSync } from 'node:fs';
import { PermanentError } from './errors.ts';

/** @param what the file's description in the error. @throws PermanentError `FileUnreadable` */
export function readText(file: string, what: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const facts = { got: code ?? message, expected: 'a text file', where: file };
    throw new PermanentError('FileUnreadable', `${what} cannot be read`, facts, error);
  }
}

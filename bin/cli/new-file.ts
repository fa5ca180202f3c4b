/** A file that a command writes: new, and under its name only once it is complete. */
import { existsSync, rmSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { INTERRUPTED, stopOnSignals } from './stop-signals.ts';

const NEWLINE = Buffer.from('\n');

/** Adds a line to a file. */
export type WriteLine = (line: Uint8Array) => Promise<void>;

/**
 * Does work that writes the lines of a new file, which stays if it has a line and the work succeeds. Ctrl-C removes it, and ends the
 * process.
 *
 * @throws PermanentError `FileExists`, also if another takes the name meanwhile; `FileUnwritable`
 *
 * @example
 *     await withNewFile('lines.jsonl', async (write) => write(bytes));
 */
export async function withNewFile<T>(path: string, work: (write: WriteLine) => Promise<T>): Promise<T> {
  assertNew(path);
  const part = `${path}.part`;
  const file = await open(part, 'wx').catch((error: Error) => {
    assertNew(part);
    const facts = { got: error.message, expected: 'a file in a folder that exists', where: path };
    throw new PermanentError('FileUnwritable', 'The file cannot be written', facts, error);
  });
  const stopping = stopOnSignals(() => {
    rmSync(part, { force: true });
    process.exit(INTERRUPTED);
  });
  try {
    const done = await work((line) => file.writeFile(Buffer.concat([line, NEWLINE])));
    const { size } = await file.stat();
    await file.close();
    assertNew(path);
    if (size > 0) await rename(part, path);
    return done;
  } finally {
    await file.close();
    await rm(part, { force: true });
    stopping.dispose();
  }
}

/** @throws PermanentError `FileExists` */
export function assertNew(path: string, expected = 'the name of a new file'): void {
  if (!existsSync(path)) return;
  throw new PermanentError('FileExists', 'The file exists, and is not overwritten', { got: path, expected });
}

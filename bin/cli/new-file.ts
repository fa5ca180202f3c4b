/** A file that a command writes: new, and under its name only once it is complete. */
import { existsSync, rmSync } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { INTERRUPTED, type Stopping, stopOnSignals } from './stop-signals.ts';

const NEWLINE = Buffer.from('\n');

/** The lines of a new file. Ctrl-C removes what is not complete, and ends the process. */
export class NewFile {
  lines = 0;
  readonly #path: string;
  readonly #part: FileHandle;
  readonly #stopping: Stopping;

  private constructor(path: string, part: FileHandle) {
    this.#path = path;
    this.#part = part;
    this.#stopping = stopOnSignals(() => {
      rmSync(partOf(path), { force: true });
      process.exit(INTERRUPTED);
    });
  }

  /** @throws PermanentError `FileExists`, `FileUnwritable` */
  static async open(path: string): Promise<NewFile> {
    assertNew(path);
    try {
      return new NewFile(path, await open(partOf(path), 'wx'));
    } catch (error) {
      assertNew(partOf(path));
      const facts = { got: (error as Error).message, expected: 'a file in a folder that exists', where: path };
      throw new PermanentError('FileUnwritable', 'The file cannot be written', facts, error);
    }
  }

  async write(line: Uint8Array): Promise<void> {
    await this.#part.writeFile(Buffer.concat([line, NEWLINE]));
    this.lines += 1;
  }

  /** Gives the complete file its name. @throws PermanentError `FileExists` if another has taken it meanwhile */
  async keep(): Promise<void> {
    await this.#part.close();
    assertNew(this.#path);
    await rename(partOf(this.#path), this.#path);
    this.#stopping.dispose();
  }

  /** Removes what is not complete. */
  async discard(): Promise<void> {
    await this.#part.close();
    await rm(partOf(this.#path), { force: true });
    this.#stopping.dispose();
  }
}

const partOf = (path: string): string => `${path}.part`;

/** @throws PermanentError `FileExists` */
export function assertNew(path: string): void {
  if (!existsSync(path)) return;
  const expected = 'the name of a new file';
  throw new PermanentError('FileExists', 'The file exists, and is not overwritten', { got: path, expected });
}

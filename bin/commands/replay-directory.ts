/** The directory that a replay's results go to. */
import { existsSync } from 'node:fs';
import { access, constants, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { RESULT_FILES } from '../../src/replay/results/result-set.ts';
import { PermanentError } from '../../src/shared/errors.ts';

/**
 * Makes a directory and those above it, one by one: where the file system says that there is nothing to make one in, as
 * automounters and /proc do, Node's own recursive `mkdir` tries forever.
 */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const above = dirname(path);
    if (code === 'ENOENT' && above !== path && !existsSync(above)) {
      await makeDirectory(above);
      await mkdir(path);
    } else if (code !== 'EEXIST') throw error;
  }
}

/**
 * A directory that files can be written to, made if it is missing.
 *
 * @throws PermanentError `OutputUnusable`
 */
export async function writableDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(resolve(directory));
    if (!(await stat(directory)).isDirectory()) throw new Error('it is no directory');
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    const got = `${directory}: ${(error as Error).message}`;
    const expected = 'a directory that can be made and written to (--output)';
    throw new PermanentError('OutputUnusable', 'The results cannot be written there', { got, expected }, error);
  }
}

/**
 * The directory of a replay, without what an earlier run, and a comparison with it, left there: beside the files of another
 * run they would be taken for its own.
 *
 * @throws PermanentError `OutputUnusable`
 */
export async function prepareDirectory(directory: string): Promise<void> {
  await writableDirectory(directory);
  const earlier = (await readdir(directory)).filter((name) => RESULT_FILES.has(name));
  if (earlier.length === 0) return;
  process.stderr.write(`The results of an earlier run in ${directory} are replaced.\n`);
  for (const name of earlier) await rm(join(directory, name), { force: true });
}

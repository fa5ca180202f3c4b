/** The directory that a replay's results go to. */
import { access, constants, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PermanentError } from '../../lambda/common/errors.ts';
import { RESULT_FILES } from '../../lambda/replay/results/result-set.ts';

/**
 * Makes the directory, and takes away what an earlier run, and a comparison with it, left there: beside the files of
 * another run they would be taken for its own.
 *
 * @throws PermanentError `OutputUnusable`
 */
export async function prepareDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true });
    if (!(await stat(directory)).isDirectory()) throw new Error('it is no directory');
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    const got = `${directory}: ${(error as Error).message}`;
    const expected = 'a directory that can be made and written to (--output)';
    throw new PermanentError('OutputUnusable', 'The results cannot be written there', { got, expected }, error);
  }
  const earlier = (await readdir(directory)).filter((name) => RESULT_FILES.has(name));
  if (earlier.length === 0) return;
  process.stderr.write(`The results of an earlier run in ${directory} are replaced.\n`);
  for (const name of earlier) await rm(join(directory, name), { force: true });
}

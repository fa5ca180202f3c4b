/** Prepares the directory for the results of a replay. */
import { existsSync } from 'node:fs';
import { access, constants, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { isRunning } from '../../src/core/process/is-running.ts';
import { RESULT_FILES } from '../../src/replay/results/result-set.ts';

/**
 * Creates a directory and its parents one by one. Node's recursive `mkdir` loops forever on file systems that report a
 * missing parent inside an existing directory, such as automounters and /proc.
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
 * Creates the directory if it is missing, and checks that it is writable.
 *
 * @throws PermanentError `OutputUnusable`
 */
export async function writableDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(resolve(directory));
    if (!(await stat(directory)).isDirectory()) throw new Error('it is not a directory');
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    const got = `${directory}: ${(error as Error).message}`;
    const facts = { got, expected: 'a directory that can be created and written to (--out)' };
    throw new PermanentError('OutputUnusable', 'The results cannot be written to the directory', facts, error);
  }
}

/** Holds the process that writes to the directory. */
const IN_USE = '.replay-in-use';

/** Refuses a directory to which another replay is writing. The mark of a process that has ended counts no more. */
async function claim(directory: string): Promise<void> {
  const mark = join(directory, IN_USE);
  const pid = Number(await readFile(mark, 'utf8').catch(() => ''));
  if (pid > 0 && !isRunning(pid)) await rm(mark, { force: true });
  await writeFile(mark, String(process.pid), { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
    const facts = { got: `${directory}, of process ${pid}`, expected: 'a directory of its own (--out)' };
    throw new PermanentError('OutputUnusable', 'Another replay is writing to the directory', facts);
  });
}

/** Lets another replay write to the directory. */
export const releaseDirectory = (directory: string): Promise<void> => rm(join(directory, IN_USE), { force: true });

/**
 * Prepares the directory of a replay, which it has for itself until `releaseDirectory`. Deletes the files of an earlier run and
 * of its comparison, which would otherwise be mistaken for files of this run.
 *
 * @throws PermanentError `OutputUnusable`
 */
export async function prepareDirectory(directory: string): Promise<void> {
  await writableDirectory(directory);
  await claim(directory);
  const earlier = (await readdir(directory)).filter((name) => RESULT_FILES.has(name));
  if (earlier.length === 0) return;
  process.stderr.write(`Replacing the results of an earlier run in ${directory}.\n`);
  for (const name of earlier) await rm(join(directory, name), { force: true });
}

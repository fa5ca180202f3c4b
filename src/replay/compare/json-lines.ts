/** Reads files of results that have a JSON value on each line. */
import { stat } from 'node:fs/promises';
import { PermanentError } from '../../core/errors/errors.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { scanFile } from '../source/lines.ts';

/**
 * Reads the lines of a file. Leaves out a truncated last line, which a run that was killed or filled the disk leaves
 * behind.
 *
 * Node's readline is not an alternative, because it also ends lines at Unicode's line separators, which replies may contain.
 *
 * @param onCut called with the position of a truncated line
 * @throws PermanentError `NotAReplay`
 */
export async function* jsonLines(path: string, onCut?: (where: string) => void) {
  for await (const { bytes, line, start, length } of scanFile(path)) {
    const where = `${path}, line ${line}`;
    if (!bytes) throw new PermanentError('NotAReplay', 'A line of the results is too long', { got: length, where });
    const value = jsonIn(bytes.toString('utf8'));
    if (value === undefined) {
      const isLast = line > 1 && start + length >= (await stat(path)).size;
      if (!isLast) throw new PermanentError('NotAReplay', 'A line of the results is not JSON', { where });
      onCut?.(where);
      return;
    }
    yield { value, line, start, length };
  }
}

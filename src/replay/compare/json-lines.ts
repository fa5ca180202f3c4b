/** Lines of JSON in a file of results. */
import { stat } from 'node:fs/promises';
import { PermanentError } from '../../shared/errors.ts';
import { scanLines } from '../source/lines.ts';

interface JsonLine {
  value: unknown;
  /** From 1. */
  line: number;
  /** Place of its bytes in the file. */
  start: number;
  length: number;
}

/**
 * A last line that stops in the middle is left out: a run that was killed, or whose disk was full, ends with one.
 *
 * Not by Node's readline, which takes Unicode's line separators, as they stand in replies, for the end of a line.
 *
 * @param onCut told where such a line is
 * @throws PermanentError `NotAReplay`
 */
export async function* jsonLines(path: string, onCut?: (where: string) => void): AsyncGenerator<JsonLine> {
  for await (const { bytes, line, start, length } of scanLines(path)) {
    const where = `${path}, line ${line}`;
    if (!bytes) throw new PermanentError('NotAReplay', 'A line of the results is too long', { got: length, where });
    let value: unknown;
    try {
      value = parsed(bytes, where);
    } catch (error) {
      if (line === 1 || start + length < (await stat(path)).size) throw error;
      onCut?.(where);
      return;
    }
    yield { value, line, start, length };
  }
}

/** @throws PermanentError `NotAReplay` */
export function parsed(bytes: Buffer, where: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new PermanentError('NotAReplay', 'A line of the results is not JSON', { where }, error);
  }
}

/** Lines of JSON in a file of results. */
import { PermanentError } from '../../common/errors.ts';
import { scanLines } from '../source/lines.ts';

export interface JsonLine {
  value: unknown;
  /** From 1. */
  line: number;
  /** Place of its bytes in the file. */
  start: number;
  length: number;
}

/**
 * Not by Node's readline, which takes Unicode's line separators, as they stand in replies, for the end of a line.
 *
 * @throws PermanentError `NotAReplay`
 */
export async function* jsonLines(path: string): AsyncGenerator<JsonLine> {
  for await (const { bytes, line, start, length } of scanLines(path)) {
    const where = `${path}, line ${line}`;
    if (!bytes) throw new PermanentError('NotAReplay', 'A line of the results is too long', { got: length, where });
    yield { value: parsed(bytes, where), line, start, length };
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

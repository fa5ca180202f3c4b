/** Reads the lines of a local file, with the scanner that the pipeline uses. */
import { createReadStream } from 'node:fs';
import { type ScannedLine, scanLines } from '../../captures/lines/scan-lines.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../core/values/line-bound.ts';

/** Bytes of one disk read: large enough to hide the cost of a call, small compared with the memory bound. */
const READ_BYTES = 1024 * 1024;

/**
 * Yields the lines of a file that are not blank. Memory is bounded by one line.
 *
 * @param maxLineBytes longer lines have no bytes.
 */
export const scanFile = (path: string, maxLineBytes = DEFAULT_MAX_LINE_BYTES): AsyncGenerator<ScannedLine> =>
  scanLines(createReadStream(path, { highWaterMark: READ_BYTES }), maxLineBytes);

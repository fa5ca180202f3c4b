/** The lines of a file by the scanner of the pipeline: what is a line there, byte for byte, is one here. */
import { createReadStream } from 'node:fs';
import { readLines } from '../../formats/lines/read-lines.ts';

/** A read of the disk: large enough that the cost of a call does not show, small beside the memory bound. */
const READ_BYTES = 1024 * 1024;
/** As the pipeline's own bound: a 25 MB payload as base64 on both sides is 67 MB. */
export const MAX_LINE_BYTES = 72 * 1024 * 1024;

export interface SourceLine {
  /** `undefined` when the line is over the bound. */
  bytes: Buffer | undefined;
  /** Physical line number, from 1. */
  line: number;
  start: number;
  /** Without the line ending. */
  length: number;
}

const WHOLE_FILE = { bucket: '', key: '', etag: '', start: 0, firstLine: 1, objectTimeMs: 0 };

/**
 * The non-blank lines of a file, without a byte order mark at its start. Memory is bound by one line.
 *
 * @param maxLineBytes longer lines are not kept: for files that may be anybody's
 */
export const scanLines = (path: string, maxLineBytes?: number): AsyncGenerator<SourceLine> =>
  scanBlocks(createReadStream(path, { highWaterMark: READ_BYTES }), maxLineBytes);

/** The same of the consecutive blocks of a file, whatever their lengths. */
export async function* scanBlocks(
  blocks: AsyncIterable<Buffer>,
  maxLineBytes = MAX_LINE_BYTES,
): AsyncGenerator<SourceLine> {
  for await (const read of readLines(blocks, WHOLE_FILE, { maxLineBytes })) {
    const { bytes, place } = read.kind === 'line' ? read.raw : { bytes: undefined, place: read.place };
    yield { bytes, line: place.line, start: place.start, length: place.end - place.start + 1 };
  }
}

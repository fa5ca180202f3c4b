/** Cuts a capture file into chunks: byte ranges of whole lines, for the planner. */
import { scanPieces } from './scan-lines.ts';

/** A run of whole lines. It begins and ends with a line that is not blank. Chunks do not overlap. */
export interface LineChunk {
  /** First byte, inclusive. */
  start: number;
  /** Last byte, inclusive. The line ending of the last line belongs to the chunk. */
  end: number;
  /** Physical number of the first line, from 1. */
  firstLine: number;
  /** Number of non-blank lines. */
  lines: number;
  /** `end - start + 1`. */
  bytes: number;
}

/**
 * Yields the chunks of a file. Memory is bounded by one piece of the stream, regardless of the length of the file or
 * its lines. A file with only blank lines has no chunk. A chunk has at most `maxLines` non-blank lines and `maxBytes`
 * bytes; a longer line is a chunk by itself.
 *
 * @example
 *     for await (const { start, end } of scanChunks(stream, { maxLines: 500, maxBytes: 4 * 1024 ** 2 })) plan(start, end);
 */
export async function* scanChunks(
  stream: AsyncIterable<Uint8Array>,
  { maxLines, maxBytes }: { maxLines: number; maxBytes: number },
) {
  let open: LineChunk | undefined;
  for await (const lines of scanPieces(stream, 0)) {
    for (const { line, start, end } of lines) {
      if (open !== undefined && open.lines < maxLines && end - open.start <= maxBytes) {
        open.lines += 1;
        open.end = end - 1;
        open.bytes = end - open.start;
        continue;
      }
      if (open !== undefined) yield open;
      open = { start, end: end - 1, firstLine: line, lines: 1, bytes: end - start };
    }
  }
  if (open !== undefined) yield open;
}

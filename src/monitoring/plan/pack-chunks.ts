/** Packs ranges of capture files into chunks, so that many small files are a few chunks. */

import type { CaptureRange } from '../../core/contract/payloads.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import type { UnnumberedChunk } from '../chunk/ranges.ts';

const fullness = (lines: number, bytes: number): number =>
  Math.max(lines / CHUNK_BOUNDS.maxLines, bytes / CHUNK_BOUNDS.maxBytes);

/**
 * Maximum number of fuller chunks that may precede an open chunk: far fewer than the files whose reports the summary
 * keeps open.
 */
const MOST_BEFORE = 1_000;

/** Ranges that are cut to the bounds of a chunk, each from one file. */
export class ChunkPacker {
  #open: UnnumberedChunk | undefined;
  #bytes = 0;
  /** Chunks that went before the open one. */
  #before = 0;

  /** @returns a chunk if it is full now */
  add(range: CaptureRange, experimentId: string): UnnumberedChunk | undefined {
    const bytes = range.end - range.start + 1;
    const open = this.#open;
    const isRoom =
      open?.experimentId === experimentId &&
      open.lines + range.lines <= CHUNK_BOUNDS.maxLines &&
      this.#bytes + bytes <= CHUNK_BOUNDS.maxBytes;
    if (open !== undefined && isRoom) {
      open.ranges.push(range);
      open.lines += range.lines;
      this.#bytes += bytes;
      return undefined;
    }
    const alone = { experimentId, lines: range.lines, ranges: [range] };
    // The fuller of the two is returned first, so that the ends of long files share a chunk.
    const isFuller = open !== undefined && fullness(range.lines, bytes) > fullness(open.lines, this.#bytes);
    if (isFuller && open.experimentId === experimentId && this.#before < MOST_BEFORE) {
      this.#before += 1;
      return alone;
    }
    this.#open = alone;
    this.#bytes = bytes;
    this.#before = 0;
    return open;
  }

  /** @returns the last chunk */
  close(): UnnumberedChunk | undefined {
    const open = this.#open;
    this.#open = undefined;
    return open;
  }
}

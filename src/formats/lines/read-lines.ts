/**
 * Lines of a capture file, read as a stream: for the planner as chunks (byte ranges, no bytes kept), for the
 * processor as the lines themselves. Both stand on one scanner, so that they agree on what a line is:
 *
 * - a line ends with LF; carriage returns before it belong to the line ending;
 * - a byte order mark at the very start of the file belongs to no line;
 * - a line of white space alone is blank: it is numbered, and otherwise skipped.
 */
import { RetryableError } from '../../shared/errors.ts';
import type { LinePlace, RawLine } from '../types.ts';
import { LineScanner, type LineSpan, type Piece, piecesOf } from './scanner.ts';

// --------------------------------------------------------------------------------------------------------- chunks

export interface ChunkBounds {
  /** Most non-blank lines of a chunk. */
  maxLines: number;
  /** Most bytes of a chunk; a longer line is a chunk of its own. */
  maxBytes: number;
}

/** A run of whole lines. It begins and ends with a line that is not blank; chunks do not overlap. */
export interface LineChunk {
  /** First byte, inclusive. */
  start: number;
  /** Last byte, inclusive; the line ending of the last line belongs to it. */
  end: number;
  /** Physical number of the first line, from 1. */
  firstLine: number;
  /** Non-blank lines. */
  lines: number;
  /** `end - start + 1`. */
  bytes: number;
}

/** Where reading begins, when it is not at the file's start. */
interface ScanStart {
  offset: number;
  firstLine: number;
}

/**
 * Cuts a file into chunks. Memory is that of one piece of the stream, whatever the length of the file or of its lines.
 * A file without a line that is not blank has no chunk.
 */
export async function* scanChunks(
  stream: AsyncIterable<Uint8Array>,
  bounds: ChunkBounds,
  from: ScanStart = { offset: 0, firstLine: 1 },
): AsyncGenerator<LineChunk> {
  let ready: LineChunk[] = [];
  let open: LineChunk | undefined;
  const onLine = (line: LineSpan): void => {
    const fits =
      open !== undefined && open.lines < bounds.maxLines && line.end - open.start <= bounds.maxBytes ? open : undefined;
    if (fits !== undefined) {
      fits.lines += 1;
      fits.end = line.end - 1;
      fits.bytes = line.end - fits.start;
      return;
    }
    if (open !== undefined) ready.push(open);
    open = { start: line.start, end: line.end - 1, firstLine: line.number, lines: 1, bytes: line.end - line.start };
  };

  let scanner: LineScanner | undefined;
  for await (const piece of piecesOf(stream, from.offset)) {
    scanner ??= new LineScanner(piece.offset, from.firstLine);
    scanner.scan(piece.bytes, onLine);
    if (ready.length === 0) continue;
    yield* ready;
    ready = [];
  }
  scanner?.finish(onLine);
  yield* ready;
  if (open !== undefined) yield open;
}

// ---------------------------------------------------------------------------------------------------------- lines

/** The object and where in it the stream begins; a `ManifestLine` is one. */
export interface LineSource {
  bucket: string;
  key: string;
  versionId?: string;
  etag: string;
  /** Offset of the stream's first byte. */
  start: number;
  /** Offset of the stream's last byte. When given, a stream that ends early is an error. */
  end?: number;
  /** Physical number of the first line, from 1. */
  firstLine: number;
  objectTimeMs: number;
}

/** A line that is not blank; one over the bound is named by its place only. */
export type LineRead = { kind: 'line'; raw: RawLine } | { kind: 'tooLong'; place: LinePlace };

/**
 * The lines of a stream that are not blank, in order. A line over `maxLineBytes` (its ending not counted) is reported
 * without ever being held in memory.
 *
 * @throws RetryableError `StorageUnavailable` when the stream ends before `source.end`.
 */
export async function* readLines(
  stream: AsyncIterable<Uint8Array>,
  source: LineSource,
  options: { maxLineBytes: number },
): AsyncGenerator<LineRead> {
  /** Pieces of the line that began before the current piece; `undefined` once it is over the bound. */
  let held: Buffer[] | undefined = [];
  let heldFrom = source.start;
  let heldBytes = 0;
  let piece: Piece = { bytes: Buffer.alloc(0), offset: source.start };
  let ready: LineRead[] = [];

  const onLine = (line: LineSpan): void => {
    const place: LinePlace = {
      bucket: source.bucket,
      key: source.key,
      versionId: source.versionId,
      etag: source.etag,
      line: line.number,
      start: line.start,
      end: line.contentEnd - 1,
      objectTimeMs: source.objectTimeMs,
    };
    const length = line.contentEnd - line.start;
    const isWhole = line.start >= piece.offset;
    if (length > options.maxLineBytes || (!isWhole && held === undefined)) {
      ready.push({ kind: 'tooLong', place });
    } else if (isWhole) {
      const bytes = piece.bytes.subarray(line.start - piece.offset, line.contentEnd - piece.offset);
      ready.push({ kind: 'line', raw: { bytes, place } });
    } else {
      const tail = piece.bytes.subarray(0, Math.max(0, line.contentEnd - piece.offset));
      // Cut to length: carriage returns may have been held before the line feed came.
      const bytes = Buffer.concat([...(held ?? []), tail], Math.max(length, 0));
      ready.push({ kind: 'line', raw: { bytes, place } });
    }
  };

  let scanner: LineScanner | undefined;
  let read = source.start;
  for await (piece of piecesOf(stream, source.start)) {
    scanner ??= new LineScanner(piece.offset, source.firstLine);
    scanner.scan(piece.bytes, onLine);
    read = scanner.offset;
    if (scanner.lineStart !== heldFrom) {
      held = [];
      heldBytes = 0;
      heldFrom = scanner.lineStart;
    }
    const rest = piece.bytes.subarray(Math.max(0, scanner.lineStart - piece.offset));
    heldBytes += rest.length;
    if (heldBytes > options.maxLineBytes + MAX_ENDING_BYTES) held = undefined;
    else if (rest.length > 0) held?.push(rest);
    yield* ready;
    ready = [];
  }
  assertComplete(source, read);
  piece = { bytes: Buffer.alloc(0), offset: read };
  scanner?.finish(onLine);
  held = undefined;
  yield* ready;
}

/** A line of exactly the allowed length may be followed by this much of a line ending before the line feed is seen. */
const MAX_ENDING_BYTES = 1024;

function assertComplete(source: LineSource, read: number): void {
  if (source.end === undefined || read > source.end) return;
  throw new RetryableError('StorageUnavailable', 'The capture file’s stream ended early', {
    got: `${read - source.start} bytes`,
    expected: `${source.end - source.start + 1} bytes`,
    where: `s3://${source.bucket}/${source.key}, bytes ${source.start}-${source.end}`,
  });
}

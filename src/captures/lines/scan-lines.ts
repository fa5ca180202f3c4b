/**
 * Finds the lines of a file in its byte stream. Every reader of capture files uses this scanner, so they agree on the
 * lines:
 *
 * - A line ends with LF. Carriage returns before the LF belong to the line ending.
 * - A byte order mark at the start of the file belongs to no line.
 * - A line of white space only is blank. It has a number, and is otherwise skipped.
 */

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Space, and tab to carriage return. */
const isWhite = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);

/** A line that is not blank. */
export interface ScannedLine {
  /** `undefined` when the line is longer than `maxLineBytes`. */
  bytes: Buffer | undefined;
  /** Physical line number, from 1. */
  line: number;
  /** Offset of the first byte in the file. */
  start: number;
  /** Bytes without the line ending. */
  length: number;
  /** Offset behind the last byte, line ending included. */
  end: number;
}

/** The position in its file at which the stream begins. */
interface ScanStart {
  offset: number;
  firstLine: number;
}

/** Carriage returns at the end of an oversized part may still turn out to be a line ending. */
const MAX_ENDING_BYTES = 1024;

/** The line that has not ended yet. */
class OpenLine {
  readonly number: number;
  readonly start: number;
  isBlank = true;
  /** Number of carriage returns at the end of the bytes added so far. */
  returns = 0;
  #length = 0;
  /** `undefined` once the line is longer than the bound. */
  #parts: Buffer[] | undefined = [];

  constructor(number: number, start: number) {
    this.number = number;
    this.start = start;
  }

  add(part: Buffer): void {
    if (part.length === 0) return;
    for (let at = 0; this.isBlank && at < part.length; at += 1) this.isBlank = isWhite(part[at] as number);
    let last = part.length;
    while (last > 0 && part[last - 1] === CR) last -= 1;
    this.returns = last === 0 ? this.returns + part.length : part.length - last;
    this.#length += part.length;
    this.#parts?.push(part);
  }

  /** Drops the bytes of a line that is too long, so that it is never held in memory. */
  holdAtMost(bytes: number): void {
    if (this.#length > bytes) this.#parts = undefined;
  }

  close(end: number, maxLineBytes: number): ScannedLine {
    const length = this.#length - this.returns;
    const parts = length <= maxLineBytes ? this.#parts : undefined;
    const bytes = parts?.length === 1 ? parts[0]?.subarray(0, length) : parts && Buffer.concat(parts, length);
    return { bytes, line: this.number, start: this.start, length, end };
  }
}

/**
 * Yields the lines of a stream that are not blank, in order. Memory is bounded by one piece of the stream and one line
 * of at most `maxLineBytes`.
 *
 * @param maxLineBytes bound without the line ending. The bytes of a longer line are not kept.
 *
 * @example
 *     for await (const { line, bytes } of scanLines(createReadStream(path), 8 * 1024 ** 2)) read(line, bytes);
 */
export async function* scanLines(stream: AsyncIterable<Uint8Array>, maxLineBytes: number, from?: ScanStart) {
  for await (const lines of scanPieces(stream, maxLineBytes, from)) yield* lines;
}

/** Yields the same lines, as a list for each piece of the stream: faster where lines are many and short. */
export async function* scanPieces(
  stream: AsyncIterable<Uint8Array>,
  maxLineBytes: number,
  from: ScanStart = { offset: 0, firstLine: 1 },
): AsyncGenerator<ScannedLine[]> {
  let open: OpenLine | undefined;
  let end = from.offset;
  for await (const { bytes, offset } of piecesOf(stream, from.offset)) {
    open ??= new OpenLine(from.firstLine, offset);
    end = offset + bytes.length;
    const lines: ScannedLine[] = [];
    let at = 0;
    for (let found = bytes.indexOf(LF); found !== -1; found = bytes.indexOf(LF, at)) {
      open.add(bytes.subarray(at, found));
      at = found + 1;
      if (!open.isBlank) lines.push(open.close(offset + at, maxLineBytes));
      open = new OpenLine(open.number + 1, offset + at);
    }
    open.add(bytes.subarray(at));
    open.holdAtMost(maxLineBytes + MAX_ENDING_BYTES);
    yield lines;
  }
  // The last line may have no line feed.
  if (open !== undefined && !open.isBlank) yield [open.close(end, maxLineBytes)];
}

/** Yields the pieces of the stream with their offsets, without a byte order mark at offset 0. */
async function* piecesOf(stream: AsyncIterable<Uint8Array>, start: number) {
  let offset = start;
  let head: Buffer = Buffer.alloc(0);
  for await (const data of stream) {
    const piece = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    const bytes = head.length === 0 ? piece : Buffer.concat([head, piece]);
    // The mark may arrive in several pieces.
    if (offset === 0 && bytes.length < BOM.length) {
      head = bytes;
      continue;
    }
    head = Buffer.alloc(0);
    const marked = offset === 0 && bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
    yield { bytes: bytes.subarray(marked), offset: offset + marked };
    offset += bytes.length;
  }
  if (head.length > 0) yield { bytes: head, offset };
}

/** Finds the lines in the pieces of a stream: one scanner for all who read capture files. */

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Space, and tab to carriage return. */
const isWhite = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);

/** A line that is not blank. Offsets are those of the file. */
export interface LineSpan {
  /** Physical number, from 1. */
  number: number;
  /** First byte. */
  start: number;
  /** Behind the last byte, line ending not included. */
  contentEnd: number;
  /** Behind the last byte, line ending included. */
  end: number;
}

/** Finds the lines in consecutive pieces of a file; keeps a few numbers, no bytes. */
export class LineScanner {
  /** Offset of the next piece. */
  #offset: number;
  #number: number;
  #lineStart: number;
  #blank = true;
  /** Carriage returns at the end of what has been seen of the line. */
  #returns = 0;

  constructor(offset: number, firstLine: number) {
    this.#offset = offset;
    this.#lineStart = offset;
    this.#number = firstLine;
  }

  get offset(): number {
    return this.#offset;
  }

  /** Start of the line that has not ended yet. */
  get lineStart(): number {
    return this.#lineStart;
  }

  /** Calls `onLine` for every line that ends in this piece and is not blank. */
  scan(piece: Buffer, onLine: (line: LineSpan) => void): void {
    let from = 0;
    for (;;) {
      const found = piece.indexOf(LF, from);
      const to = found === -1 ? piece.length : found;
      this.#look(piece, from, to);
      if (found === -1) break;
      this.#endLine(this.#offset + found + 1, this.#offset + found, onLine);
      from = found + 1;
    }
    this.#offset += piece.length;
  }

  /** Calls `onLine` for a last line without a line feed. */
  finish(onLine: (line: LineSpan) => void): void {
    if (this.#offset > this.#lineStart) this.#endLine(this.#offset, this.#offset, onLine);
  }

  /** Takes note of the part of the current line that lies in `piece[from, to)`. */
  #look(piece: Buffer, from: number, to: number): void {
    if (from === to) return;
    for (let at = from; this.#blank && at < to; at += 1) this.#blank = isWhite(piece[at] as number);
    let last = to;
    while (last > from && piece[last - 1] === CR) last -= 1;
    this.#returns = last === from ? this.#returns + (to - from) : to - last;
  }

  #endLine(end: number, lineFeed: number, onLine: (line: LineSpan) => void): void {
    if (!this.#blank) {
      onLine({ number: this.#number, start: this.#lineStart, contentEnd: lineFeed - this.#returns, end });
    }
    this.#number += 1;
    this.#lineStart = end;
    this.#blank = true;
    this.#returns = 0;
  }
}

export interface Piece {
  bytes: Buffer;
  offset: number;
}

/** The stream's pieces with their offsets; a byte order mark at offset 0 is left out, however it is cut up. */
export async function* piecesOf(stream: AsyncIterable<Uint8Array>, start: number): AsyncGenerator<Piece> {
  let offset = start;
  /** What may turn out to be a byte order mark; `undefined` once that is settled. */
  let head: Buffer | undefined = start === 0 ? Buffer.alloc(0) : undefined;
  for await (const data of stream) {
    if (data.byteLength === 0) continue;
    let bytes = Buffer.isBuffer(data) ? data : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    if (head !== undefined) {
      bytes = head.length === 0 ? bytes : Buffer.concat([head, bytes]);
      if (bytes.length < BOM.length && bytes.equals(BOM.subarray(0, bytes.length))) {
        head = bytes;
        continue;
      }
      head = undefined;
      if (bytes.subarray(0, BOM.length).equals(BOM)) {
        bytes = bytes.subarray(BOM.length);
        offset = BOM.length;
      }
    }
    yield { bytes, offset };
    offset += bytes.length;
  }
  if (head !== undefined && head.length > 0) yield { bytes: head, offset };
}

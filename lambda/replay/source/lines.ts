import { open } from 'node:fs/promises';

/** A read of the disk: large enough that the cost of a call does not show, small beside the memory bound. */
const READ_BYTES = 1024 * 1024;
/** As the pipeline's own bound: a 25 MB payload as base64 on both sides is 67 MB. */
export const MAX_LINE_BYTES = 72 * 1024 * 1024;

export interface ScannedLine {
  /** Valid until the next line is asked for; `undefined` when the line is over the bound. */
  bytes: Buffer | undefined;
  /** Physical line number, from 1. */
  line: number;
  start: number;
  /** Without the line ending (LF or CRLF). */
  length: number;
}

const LF = 0x0a;
const CR = 0x0d;
const BOM = [0xef, 0xbb, 0xbf];

const isBlank = (bytes: Buffer): boolean => {
  for (const byte of bytes) if (byte !== 0x20 && byte !== 0x09 && byte !== CR) return false;
  return true;
};

/**
 * The non-blank lines of a file, without a byte order mark at its start. Memory is bound by one line.
 *
 * @param maxLineBytes longer lines are not kept: for files that may be anybody's
 */
export const scanLines = (path: string, maxLineBytes = MAX_LINE_BYTES): AsyncGenerator<ScannedLine> =>
  scanBlocks(fileBlocks(path), maxLineBytes);

async function* fileBlocks(path: string): AsyncGenerator<Buffer> {
  const file = await open(path, 'r');
  try {
    const block = Buffer.allocUnsafeSlow(READ_BYTES);
    for (let position = 0; ; ) {
      const { bytesRead } = await file.read(block, 0, READ_BYTES, position);
      if (bytesRead === 0) return;
      yield block.subarray(0, bytesRead);
      position += bytesRead;
    }
  } finally {
    await file.close();
  }
}

/** The same of consecutive blocks, whatever their lengths. A block may be used again once the next one is asked for. */
export async function* scanBlocks(
  blocks: AsyncIterable<Buffer>,
  maxLineBytes = MAX_LINE_BYTES,
): AsyncGenerator<ScannedLine> {
  /** The unfinished line of the blocks before; its pieces are dropped once it is over the bound. */
  let held: Buffer[] = [];
  let heldBytes = 0;
  let position = 0;
  let lineStart = 0;
  let line = 1;

  const lineOf = (end: Buffer): ScannedLine | undefined => {
    let length = heldBytes + end.length;
    let bytes: Buffer | undefined;
    let start = lineStart;
    if (length <= maxLineBytes) {
      bytes = held.length === 0 ? end : Buffer.concat([...held, end]);
      if (bytes[length - 1] === CR) bytes = bytes.subarray(0, --length);
      if (start === 0 && BOM.every((byte, i) => bytes?.[i] === byte)) {
        bytes = bytes.subarray(BOM.length);
        start = BOM.length;
        length -= BOM.length;
      }
      if (isBlank(bytes)) return undefined;
    }
    return { bytes, line, start, length };
  };

  for await (const block of blocks) {
    let at = 0;
    for (;;) {
      const newline = block.indexOf(LF, at);
      if (newline < 0) break;
      const found = lineOf(block.subarray(at, newline));
      if (found) yield found;
      held = [];
      heldBytes = 0;
      line++;
      at = newline + 1;
      lineStart = position + at;
    }
    heldBytes += block.length - at;
    if (heldBytes <= maxLineBytes) held.push(Buffer.from(block.subarray(at)));
    else held = [];
    position += block.length;
  }
  if (heldBytes > 0) {
    const found = lineOf(Buffer.alloc(0));
    if (found) yield found;
  }
}

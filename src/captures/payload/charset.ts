/** Decodes bytes to text, in the character set they were written in. */
import { TextDecoder } from 'node:util';
import { brotliDecompressSync } from 'node:zlib';
import { decoderOf } from '../content-type.ts';

type DecodedText = { text: string; note?: string } | { binary: true };

const utf8 = new TextDecoder('utf-8', { fatal: true });

const decodeWith = (decoder: TextDecoder, bytes: Uint8Array): string | undefined => {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
};

/** A byte order mark takes precedence over a content type. */
export function charsetOfMark(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return undefined;
}

/**
 * Detects the byte order of `utf-16` without a mark from the positions of zero bytes, which Latin letters and
 * punctuation have.
 */
function utf16Order(bytes: Uint8Array): string {
  let even = 0;
  let odd = 0;
  for (let at = 0; at + 1 < Math.min(bytes.length, 512); at += 2) {
    if (bytes[at] === 0) even += 1;
    if (bytes[at + 1] === 0) odd += 1;
  }
  return even > odd ? 'utf-16be' : 'utf-16le';
}

/** A text has at most this share of control characters. */
const MAX_CONTROL_SHARE = 0.1;
/** Number of characters to check. */
const CONTROL_SAMPLE = 4096;

/** Whether the share of control characters other than white space is too high for a text. Models do emit a few. */
function looksBinary(text: string): boolean {
  const sample = text.length > CONTROL_SAMPLE ? text.slice(0, CONTROL_SAMPLE) : text;
  let control = 0;
  for (let at = 0; at < sample.length; at += 1) {
    const code = sample.charCodeAt(at);
    const isControl = code < 0x20 && !(code >= 0x09 && code <= 0x0d) && code !== 0x1b;
    // Latin-1 has no characters from 0x80 to 0x9f, and Windows-1252 only punctuation.
    if (isControl || (code >= 0x7f && code <= 0x9f)) control += 1;
  }
  return control > sample.length * MAX_CONTROL_SHARE;
}

/** First bytes of gzip, zstd, xz, LZ4 and bzip2. */
const COMPRESSED = /^(?:1f8b|28b52ffd|fd377a58|04224d18|425a68)/;
/** Enough to see that bytes are Brotli, which has no mark. */
const BROTLI_SAMPLE_BYTES = 65_536;

/**
 * Whether bytes that are not UTF-8 are a compressed body. Only bodies compressed with gzip and deflate are unpacked.
 */
function isCompressed(bytes: Uint8Array): boolean {
  if (COMPRESSED.test(Buffer.from(bytes.subarray(0, 4)).toString('hex'))) return true;
  try {
    return brotliDecompressSync(bytes, { maxOutputLength: BROTLI_SAMPLE_BYTES }).length > 0;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
  }
}

/** Decodes UTF-8 that was cut within its last character, of which at most three bytes remain. */
function withoutCutCharacter(bytes: Uint8Array): string | undefined {
  for (let cut = 1; cut <= 3 && cut < bytes.length; cut += 1) {
    const last = bytes[bytes.length - cut] as number;
    // The lead byte of a cut character. The bytes before it must be complete.
    if (last >= 0xc2 && last <= 0xf4) return decodeWith(utf8, bytes.subarray(0, bytes.length - cut));
    if (last < 0x80 || last > 0xbf) return undefined;
  }
  return undefined;
}

/**
 * Decodes bytes to text.
 *
 * @param charset of the content type, if it names one.
 * @param isText the content type announces text. Bytes that are not UTF-8 are then read as Latin-1, with a note, instead
 *   of as binary.
 */
export function decodeText(bytes: Uint8Array, charset: string | undefined, isText: boolean): DecodedText {
  const mark = charsetOfMark(bytes);
  const wanted = mark ?? (charset === 'utf-16' || charset === 'utf16' ? utf16Order(bytes) : charset);
  const notes: string[] = [];
  const read = (text: string, note: string): DecodedText => ({ text, note: [...notes, note].join(', ') });
  if (wanted !== undefined) {
    const decoder = decoderOf(wanted);
    if (decoder === undefined) notes.push(`unknown charset “${charset?.slice(0, 40)}”`);
    else {
      const text = decodeWith(decoder, bytes);
      if (text !== undefined) return isText || !looksBinary(text) ? { text } : { binary: true };
      notes.push(`the bytes are not valid ${decoder.encoding}`);
    }
  }
  const text = decodeWith(utf8, bytes);
  if (text !== undefined && !looksBinary(text)) return notes.length > 0 ? read(text, 'read as UTF-8') : { text };
  if (isText && text === undefined) {
    const cut = withoutCutCharacter(bytes);
    if (cut !== undefined) return read(cut, 'the bytes end in the middle of a character');
    const latin = Buffer.from(bytes).toString('latin1');
    if (!looksBinary(latin) && !isCompressed(bytes)) return read(latin, 'not valid UTF-8, read as Latin-1');
  }
  return { binary: true };
}

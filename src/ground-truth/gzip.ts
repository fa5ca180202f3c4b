/**
 * Compresses and decompresses objects as streams. Neither side is in memory as a whole, except the result of `gzipped`.
 */
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { PermanentError } from '../core/errors/errors.ts';

export type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** A third of the time of zlib's default, for a tenth more bytes. */
const LEVEL = 3;
/** Lines are passed on in pieces of this many characters: each piece costs a round of the event loop. */
const PIECE_CHARS = 65_536;

/**
 * Yields the decompressed bytes. @throws PermanentError `NotGzip`, after the bytes before the fault; and the errors of
 * `bytes`
 */
export async function* gunzipped(bytes: Bytes, where: string): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  const fed = pipeline(Readable.from(bytes), gunzip);
  // The reader of `gunzip` gets the same error.
  fed.catch(() => undefined);
  try {
    yield* gunzip as AsyncIterable<Buffer>;
    await fed;
  } catch (error) {
    if (!String((error as { code?: unknown }).code).startsWith('Z_')) throw error;
    throw new PermanentError('NotGzip', 'The content is not gzip, or not all of it', { where }, error);
  }
}

/** Returns values as compressed lines of JSON. */
export function gzipped(values: AsyncIterable<unknown> | Iterable<unknown>): Promise<Buffer> {
  return pipeline(Readable.from(piecesOf(values)), createGzip({ level: LEVEL }), buffer);
}

async function* piecesOf(values: AsyncIterable<unknown> | Iterable<unknown>): AsyncGenerator<Buffer> {
  let text = '';
  for await (const value of values) {
    text += `${JSON.stringify(value)}\n`;
    if (text.length < PIECE_CHARS) continue;
    yield Buffer.from(text);
    text = '';
  }
  yield Buffer.from(text);
}

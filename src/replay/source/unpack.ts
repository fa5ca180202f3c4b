/** Capture files that were compressed with gzip. */
import { createReadStream, createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { PermanentError } from '../../core/errors/errors.ts';

export const GZIP_MARK = Buffer.from([0x1f, 0x8b]);

/** Whether the content is compressed, whatever the name is. A file that cannot be read is reported by its reader. */
export async function isGzip(path: string): Promise<boolean> {
  const file = await open(path, 'r').catch(() => undefined);
  try {
    const first = await file?.read(Buffer.alloc(2), 0, 2, 0).catch(() => undefined);
    return first?.buffer.equals(GZIP_MARK) ?? false;
  } finally {
    await file?.close();
  }
}

/** Unpacks a file to another one. @throws PermanentError `CaptureUnreadable` if it is damaged */
export async function unpack(path: string, to: string, signal?: AbortSignal): Promise<void> {
  try {
    await pipeline(createReadStream(path), createGunzip(), createWriteStream(to), { signal });
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    if (!code.startsWith('Z_')) throw error;
    const facts = { got: `damaged gzip: ${message}`, where: path };
    throw new PermanentError('CaptureUnreadable', 'The file cannot be read', facts, error);
  }
}

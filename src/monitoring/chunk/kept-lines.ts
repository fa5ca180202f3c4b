/** Bytes of quarantined lines, which outlive the capture file. */

import type { ManifestLine } from '../../contract/payloads.ts';
import type { QuarantineEntry } from '../../contract/receipts.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { parseStored } from '../../shared/storage-errors.ts';

/**
 * The bytes of a chunk: from its capture file or, where that is gone or another one, from the quarantine that the chunk's
 * lines lie in.
 *
 * @throws those of `Storage.read`
 */
export async function openChunk(
  storage: Storage,
  chunk: Omit<ManifestLine, 'chunk'>,
  workBucket: string,
): Promise<AsyncIterable<Uint8Array>> {
  try {
    return await storage.read(chunk, { start: chunk.start, end: chunk.end });
  } catch (error) {
    if (chunk.keptIn === undefined || !(error instanceof PermanentError)) throw error;
    const stored = await storage.getText(workBucket, chunk.keptIn);
    if (stored === undefined) throw error;
    const where = `s3://${workBucket}/${chunk.keptIn}`;
    return keptBytes(entriesOf(stored.text, where), chunk);
  }
}

/** The lines at their places; between them are the one or two bytes of line ending that were there. */
async function* keptBytes(
  entries: readonly QuarantineEntry[],
  { start, end }: Pick<ManifestLine, 'start' | 'end'>,
): AsyncGenerator<Buffer> {
  let at = start;
  for (const entry of entries) {
    if (entry.start < start || entry.end > end || entry.base64 === undefined) continue;
    if (entry.start > at) yield Buffer.from(entry.start - at === 2 ? '\r\n' : '\n');
    yield Buffer.from(entry.base64, 'base64');
    at = entry.end + 1;
  }
}

/** The entries of a quarantine object, in the order of their lines. */
export const entriesOf = (text: string, where: string): QuarantineEntry[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => parseStored<QuarantineEntry>(line, where));

/** Reads the bytes of a chunk. The bytes of quarantined lines outlive the capture file. */

import type { ManifestLine } from '../../contract/payloads.ts';
import type { QuarantineEntry } from '../../contract/receipts.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';

/**
 * Opens the bytes of a chunk: from its capture file, or from the quarantine object that contains the chunk’s lines if the
 * capture file was deleted or overwritten.
 *
 * @throws the errors of `Storage.read`
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
    const entries = await storage.getJsonLines<QuarantineEntry>(workBucket, chunk.keptIn);
    if (entries.length === 0) throw error;
    return keptBytes(entries, chunk);
  }
}

/** Yields the lines at their original places, with line endings of the original one or two bytes between them. */
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

/** The quarantined lines of a run, with their bytes as they were captured. */

import { isOfOneFile } from '../../src/captures/files/capture-objects.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';

export interface QuarantinedLine {
  entry: QuarantineEntry;
  /** Without its line end. Absent: only the place was kept, since the line is over the bound, and its file is gone. */
  bytes?: Buffer;
}

/**
 * Yields the lines in the order of the run's chunks. Bytes that quarantine does not have are read from the capture file.
 *
 * @param reason only lines that are there for this reason
 */
export async function* quarantinedLines(
  storage: Storage,
  workBucket: string,
  run: string,
  reason?: string,
): AsyncGenerator<QuarantinedLine> {
  for await (const { entry } of quarantinedEntries(storage, workBucket, run)) {
    if (reason !== undefined && entry.reason.name !== reason) continue;
    const bytes =
      entry.base64 === undefined ? await fromCaptureFile(storage, entry) : Buffer.from(entry.base64, 'base64');
    yield { entry, ...(bytes === undefined ? {} : { bytes }) };
  }
}

async function fromCaptureFile(storage: Storage, entry: QuarantineEntry): Promise<Buffer | undefined> {
  const { bucket, key, etag, versionId, start, end } = entry;
  try {
    const object = { bucket, key, etag, ...(versionId ? { versionId } : {}) };
    const pieces: Buffer[] = [];
    for await (const piece of await storage.read(object, { start, end })) pieces.push(piece);
    return Buffer.concat(pieces);
  } catch (error) {
    if (isOfOneFile(error)) return undefined;
    throw error;
  }
}

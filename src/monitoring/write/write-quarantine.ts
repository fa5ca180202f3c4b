/** Writes the quarantined lines of a chunk. */

import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest, ManifestLine } from '../../core/contract/payloads.ts';
import type { QuarantineEntry } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { partOf } from '../chunk/parts.ts';
import { isInside } from '../chunk/ranges.ts';
import { quarantineOfChunk } from '../receipts.ts';

/**
 * Writes the quarantine object of the chunk. A later attempt replaces the lines of its part, also by nothing: a line that
 * MLflow refused once and has accepted since must not stay in quarantine.
 */
export async function writeQuarantine(
  { storage, environment: { WORK_BUCKET: bucket } }: { storage: Storage; environment: { WORK_BUCKET: string } },
  request: ChunkRequest,
  part: ManifestLine,
  entries: readonly QuarantineEntry[],
): Promise<void> {
  const { run, chunk } = request;
  const before = partOf(request).isRepeated ? await quarantineOfChunk(storage, bucket, run, chunk.chunk) : [];
  const others = before.filter((entry) => !part.ranges.some((range) => isInside(entry, range)));
  const body = [...others, ...entries]
    .toSorted((a, b) => (a.key === b.key ? a.start - b.start : a.key < b.key ? -1 : 1))
    .map((entry) => `${JSON.stringify(entry)}\n`)
    .join('');
  await storage.putText(bucket, workKeys.quarantine(run, chunk.chunk), body, 'application/jsonlines');
}

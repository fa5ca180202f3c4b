/** A chunk of capture lines in memory, for tests of the steps that process one. */

import { CONTRACT } from '../../src/core/contract/contract.ts';
import type { CaptureRange, ChunkRequest, ManifestLine } from '../../src/core/contract/payloads.ts';
import type { MemoryStorage } from '../doubles/memory-storage.ts';

/** Returns a chunk of these ranges. */
export const chunkOf = (ranges: CaptureRange[], more: Partial<ManifestLine> = {}): ManifestLine => ({
  contract: CONTRACT,
  chunk: 0,
  experimentId: '7',
  lines: ranges.reduce((total, { lines }) => total + lines, 0),
  ranges,
  ...more,
});

/** Puts the lines into the storage as a file. @returns the range of all of them */
export function rangeOf(storage: MemoryStorage, path: string, lines: readonly string[]): CaptureRange {
  const text = lines.map((line) => `${line}\n`).join('');
  const { bucket, key, etag, size } = storage.put(path, text);
  return { bucket, key, etag, objectTimeMs: 0, start: 0, end: size - 1, firstLine: 1, lines: lines.length };
}

/** Puts the lines into the storage as a file. @returns the request that processes all of them as one chunk */
export function chunkRequest(
  storage: MemoryStorage,
  lines: readonly string[],
  more: Partial<ChunkRequest> = {},
  chunk = 0,
): ChunkRequest {
  return {
    run: 'run',
    chunk: chunkOf([rangeOf(storage, `p/AllTraffic/${chunk}.jsonl`, lines)], { chunk }),
    options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
    attempt: 0,
    ...more,
  };
}

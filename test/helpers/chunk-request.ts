/** A chunk of capture lines in memory, for tests of the steps that process one. */
import type { ChunkRequest } from '../../src/contract/payloads.ts';
import type { MemoryStorage } from '../doubles/memory-storage.ts';

/** Puts the lines into the storage as a file. @returns the request that processes all of them as one chunk */
export function chunkRequest(
  storage: MemoryStorage,
  lines: readonly string[],
  more: Partial<ChunkRequest> = {},
  chunk = 0,
): ChunkRequest {
  const text = lines.map((line) => `${line}\n`).join('');
  const { bucket, key, etag, size } = storage.put(`p/AllTraffic/${chunk}.jsonl`, text);
  const place = { bucket, key, etag, objectTimeMs: 0, chunk, experimentId: '7' };
  return {
    run: 'run',
    chunk: { ...place, start: 0, end: size - 1, firstLine: 1, lines: lines.length },
    options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
    attempt: 0,
    ...more,
  };
}

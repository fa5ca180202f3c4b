/** Chunks that span files: packing, reading, counting, and files that disappear after they were planned. */
import fc from 'fast-check';
import type { CaptureRange, ChunkRequest, ManifestLine } from '../../../src/core/contract/payloads.ts';
import { NO_LOG_COUNTS, type QuarantineEntry } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { CHUNK_BOUNDS } from '../../../src/monitoring/chunk/chunk-bounds.ts';
import { withRanges } from '../../../src/monitoring/chunk/ranges.ts';
import { logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { ChunkPacker } from '../../../src/monitoring/plan/pack-chunks.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { memoryWriting } from '../../doubles/memory-table.ts';
import { chunkOf, rangeOf } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

const range = (key: string, lines: number, bytes = lines * 100): CaptureRange => ({
  ...{ bucket: 'b', key, etag: 'x', start: 0, end: bytes - 1, firstLine: 1, lines, objectTimeMs: 0 },
});

function packed(ranges: readonly CaptureRange[], experimentOf = (_: number) => '7') {
  const packer = new ChunkPacker();
  const chunks = ranges.flatMap((one, index) => packer.add(one, experimentOf(index)) ?? []);
  return [...chunks, ...[packer.close() ?? []].flat()];
}

describe('packing', () => {
  const sizes = (ranges: readonly CaptureRange[]) => packed(ranges).map(({ lines, ranges }) => [lines, ranges.length]);

  test('lets the ends of long files share a chunk', () => {
    const files = ['a', 'b', 'c'].flatMap((key) => [range(key, 500), range(key, 1)]);
    expect(sizes(files)).toEqual([
      [500, 1],
      [500, 1],
      [500, 1],
      [3, 3],
    ]);
  });

  test('keeps to the bytes of a chunk, and leaves a longer line alone', () => {
    const { maxBytes } = CHUNK_BOUNDS;
    expect(sizes([range('a', 1, maxBytes), range('b', 1, 1), range('c', 1, 3 * maxBytes), range('d', 1, 1)])).toEqual([
      [1, 1],
      [1, 1],
      [2, 2],
    ]);
  });

  test('puts no two experiments into a chunk', () => {
    const files = Array.from({ length: 4 }, (_, n) => range(`${n}`, 1));
    expect(packed(files, (n) => (n < 3 ? 'a' : 'b')).map(({ experimentId, lines }) => [experimentId, lines])).toEqual([
      ['a', 3],
      ['b', 1],
    ]);
  });

  test('loses and doubles nothing, and exceeds no bound', () => {
    const file = fc.record({
      lines: fc.integer({ min: 1, max: 500 }),
      bytes: fc.integer({ min: 500, max: 9_000_000 }),
    });
    fc.assert(
      fc.property(fc.array(file, { maxLength: 60 }), (files) => {
        const ranges = files.map(({ lines, bytes }, n) => range(`${n}`, lines, bytes));
        const chunks = packed(ranges);
        expect(chunks.flatMap((chunk) => chunk.ranges.map(({ key }) => Number(key))).sort((a, b) => a - b)).toEqual(
          ranges.map((_, n) => n),
        );
        for (const chunk of chunks) {
          const bytes = chunk.ranges.reduce((total, one) => total + one.end + 1, 0);
          expect(chunk.lines).toBe(chunk.ranges.reduce((total, one) => total + one.lines, 0));
          expect(chunk.lines).toBeLessThanOrEqual(CHUNK_BOUNDS.maxLines);
          if (chunk.ranges.length > 1) expect(bytes).toBeLessThanOrEqual(CHUNK_BOUNDS.maxBytes);
        }
      }),
    );
  });
});

describe('a chunk of several files', () => {
  const mlflow = useScriptedMlflow();
  const files = [
    ['a', 'b'],
    ['c', 'not JSON', 'd'],
    ['a', 'e'],
  ].map((names) => names.map((name) => (name === 'not JSON' ? name : chatLine(name))));
  let memory: MemoryStorage;
  let chunk: ManifestLine;
  beforeEach(async () => {
    await mlflow.start();
    memory = new MemoryStorage();
    chunk = chunkOf(files.map((lines, n) => rangeOf(memory, `p/AllTraffic/${n}.jsonl`, lines)));
  });
  const log = (more: Partial<ChunkRequest> = {}) => {
    const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
    const deps = {
      storage: memory.storage,
      store: mlflow.client,
      environment: testEnvironment(),
      requestId: 'r',
      ...memoryWriting(),
    };
    return logChunk({ run: 'run', chunk, options, attempt: 0, ...more }, deps);
  };
  const quarantine = (): Promise<QuarantineEntry[]> => memory.getJsonLines('', workKeys.quarantine('run', 0));
  const terms = (...counts: number[]) =>
    Object.fromEntries(Object.keys(NO_LOG_COUNTS).map((term, n) => [term, counts[n]]));

  test('counts the lines of all files', async () => {
    const { counts } = await log();
    expect(counts).toEqual(terms(7, 6, 5, 0, 1, 1, 0));
    expect(await quarantine()).toMatchObject([{ key: 'p/AllTraffic/1.jsonl', line: 2 }]);
  });

  test('is processed without a file that was deleted, whose lines are missing in the counts', async () => {
    memory.objects.delete('p/AllTraffic/1.jsonl');
    const { ok, counts, unread } = await log();
    expect({ ok, counts }).toEqual({ ok: true, counts: terms(4, 4, 3, 0, 1, 0, 0) });
    expect(unread).toEqual([{ range: 1, lines: 3, error: expect.objectContaining({ name: 'CaptureChanged' }) }]);
  });

  test('fails if it has only the file that was deleted', async () => {
    memory.objects.delete('p/AllTraffic/1.jsonl');
    chunk = chunkOf(chunk.ranges.slice(1, 2));
    await expect(log()).rejects.toMatchObject({ name: 'CaptureChanged' });
  });

  test('has the quarantined lines of its last attempt alone', async () => {
    await log();
    chunk = chunkOf(chunk.ranges.slice(0, 1));
    await log({ attempt: 1 });
    expect(await quarantine()).toEqual([]);
  });

  test('may have its ranges in an object of their own', async () => {
    memory.put('ranges', chunk.ranges);
    const line = { ...chunk, ranges: [], rangesIn: 'ranges' };
    expect((await withRanges({ storage: memory.storage, workBucket: 'work' }, line)).ranges).toEqual(chunk.ranges);
    await expect(
      withRanges({ storage: memory.storage, workBucket: 'work' }, { ...line, rangesIn: 'gone' }),
    ).rejects.toMatchObject({
      name: 'RangesMissing',
    });
  });
});

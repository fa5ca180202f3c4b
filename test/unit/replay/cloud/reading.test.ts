/** Reading captured records and result lines from S3. */
import fc from 'fast-check';
import { scanLines } from '../../../../src/captures/lines/scan-lines.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../../../src/core/values/line-bound.ts';
import { linesOf, mergeLines, objectReader } from '../../../../src/replay/cloud/work-bucket/object-lines.ts';
import type { CaptureObject } from '../../../../src/replay/cloud/work-bucket/schedule-file.ts';
import { scanFile } from '../../../../src/replay/source/lines.ts';
import { coalesce } from '../../../../src/replay/source/range-reader.ts';
import type { IndexEntry } from '../../../../src/replay/source/types.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';
import { ReplayFolder } from '../../../helpers/replay.ts';

const entry = (file: number, start: number, length: number): IndexEntry => ({
  timeMs: 0,
  file,
  line: 1,
  start,
  length,
});
/** The object as planned, with the etag of this content. */
const object = (name: string, content: string): CaptureObject => {
  const { bucket, etag, size } = new MemoryStorage().put(name, content);
  return { bucket, name, path: '', etag, size };
};

describe('RangeReader', () => {
  test('joins close records, but not distant ones or those of other files', () => {
    const entries = [entry(0, 100, 50), entry(1, 0, 10), entry(0, 0, 90), entry(0, 1_000_000, 5)];
    expect(coalesce(entries).map(({ file, start, end, entries: own }) => [file, start, end, own.length])).toEqual([
      [0, 0, 150, 2],
      [0, 1_000_000, 1_000_005, 1],
      [1, 0, 10, 1],
    ]);
  });

  test('returns the bytes of each record, for any order and grouping', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.nat(900), fc.integer({ min: 1, max: 99 })), {
          maxLength: 600,
        }),
        async (places) => {
          const memory = new MemoryStorage();
          const files = [0, 1, 2].map((i) => {
            const content = Array.from({ length: 100 }, (_, at) => `${i}:${String(at).padStart(7, '0')}|`).join('');
            memory.put(`f${i}`, content);
            return object(`f${i}`, content);
          });
          const entries = places.map(([file, start, length]) => entry(file, start, length));
          const reader = objectReader(memory.storage, files);
          reader.expect(entries);
          for (const one of entries) {
            const bytes = await reader.read(one);
            const whole = memory.objects.get(`f${one.file}`) as Buffer;
            expect(bytes.equals(whole.subarray(one.start, one.start + one.length))).toBe(true);
          }
          await reader.close();
          // Three files of a kilobyte: one range each for every 256 records.
          expect(memory.reads.length).toBeLessThanOrEqual(3 * Math.ceil(entries.length / 256));
        },
      ),
      { numRuns: 30 },
    );
  });

  test('a file that changed affects only its own records', async () => {
    const memory = new MemoryStorage();
    memory.put('kept', 'abc');
    memory.put('changed', 'longer than before');
    const reader = objectReader(memory.storage, [object('changed', 'abc'), object('kept', 'abc')]);
    const entries = [entry(0, 0, 3), entry(1, 0, 3)];
    reader.expect(entries);
    await expect((async () => reader.read(entries[0] as IndexEntry))()).rejects.toMatchObject({
      name: 'CaptureChanged',
    });
    expect((await reader.read(entries[1] as IndexEntry)).toString()).toBe('abc');
  });
});

test('lines of a stream equal those of a file, for any chunk size', async () => {
  const folder = new ReplayFolder();
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('a', 'bc', '{"x":1}', '', ' ', '\r', '\u00e4'), { maxLength: 30 }),
        fc.integer({ min: 1, max: 9 }),
        fc.boolean(),
        async (lines, cut, bom) => {
          const path = folder.write('x.jsonl', [`${bom ? '\ufeff' : ''}${lines[0] ?? ''}`, ...lines.slice(1)]);
          const bytes = Buffer.from(`${bom ? '\ufeff' : ''}${lines.join('\n')}\n`);
          async function* blocks() {
            for (let at = 0; at < bytes.length; at += cut) yield bytes.subarray(at, at + cut);
          }
          const read = async (from: ReturnType<typeof scanLines>) => {
            const found: unknown[] = [];
            for await (const { bytes: own, ...place } of from) found.push([own?.toString(), place]);
            return found;
          };
          expect(await read(scanLines(blocks(), DEFAULT_MAX_LINE_BYTES))).toEqual(await read(scanFile(path)));
        },
      ),
      { numRuns: 60 },
    );
  } finally {
    folder.delete();
  }
});

describe('lines of objects', () => {
  test('merges lines by key, also of objects without a final line break', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(fc.nat(10_000), { maxLength: 40 }), { maxLength: 12 }), async (shards) => {
        const memory = new MemoryStorage();
        const sources = shards.map((keys, i) => {
          const sorted = keys.toSorted((a, b) => a - b);
          const content =
            sorted.map((key) => `${key} of shard ${i}`).join('\n') + (i % 2 === 0 && keys.length > 0 ? '\n' : '');
          return { object: memory.put(`s${i}`, content), leastKey: sorted[0] ?? 0 };
        });
        const merged: string[] = [];
        const keyOf = (line: Buffer): number => Number.parseInt(line.toString(), 10);
        for await (const line of mergeLines(memory.storage, sources, keyOf)) merged.push(line.toString());
        const expected = shards
          .flatMap((keys, i) => keys.map((key) => ({ key, i })))
          .toSorted((a, b) => a.key - b.key || a.i - b.i)
          .map(({ key, i }) => `${key} of shard ${i}`);
        expect(merged).toEqual(expected);
        const read: string[] = [];
        const objects = sources.map(({ object: facts }) => facts);
        for await (const line of linesOf(memory.storage, objects)) read.push(line.toString());
        expect(read.sort()).toEqual(expected.sort());
      }),
      { numRuns: 60 },
    );
  });

  test('prefetches the next objects and the next block', async () => {
    const memory = new MemoryStorage();
    const long = Array.from({ length: 3 }, (_, i) => `${i} `.padEnd(1024 * 1024, 'x')).join('\n');
    const objects = Array.from({ length: 40 }, (_, i) => memory.put(`s${i}`, i === 0 ? long : `${i + 10}\n`));
    const keyOf = (line: Buffer): number => Number.parseInt(line.toString('latin1', 0, 4), 10);
    const sources = objects.map((own) => ({ object: own, leastKey: 0 }));
    for (const lines of [linesOf(memory.storage, objects), mergeLines(memory.storage, sources, keyOf)]) {
      memory.reads.length = 0;
      await lines.next();
      const keys = memory.reads.map((read) => read.split(' ')[0]);
      expect(new Set(keys).size).toBeGreaterThanOrEqual(16);
      expect(keys.filter((key) => key === 's0').length).toBeGreaterThanOrEqual(2);
      let left = 0;
      for await (const _ of lines) left++;
      expect(left).toBe(41);
    }
  });

  test('reads lines that are longer than a block', async () => {
    const memory = new MemoryStorage();
    const long = ['1 '.padEnd(2_500_000, 'x'), '3 '.padEnd(1_100_000, 'y')];
    const sources = [
      { object: memory.put('a', `${long.join('\n')}\n`), leastKey: 0 },
      { object: memory.put('b', '2\n4\n'), leastKey: 2 },
    ];
    const lengths: number[] = [];
    const keyOf = (line: Buffer): number => Number.parseInt(line.toString('latin1', 0, 4), 10);
    for await (const line of mergeLines(memory.storage, sources, keyOf)) lengths.push(line.length);
    expect(lengths).toEqual([2_500_000, 1, 1_100_000, 1]);
  });
});

/** Reading captured records in order from S3. */
import fc from 'fast-check';
import { DEFAULT_MAX_LINE_BYTES } from '../../../../src/core/values/line-bound.ts';
import {
  type CaptureObject,
  objectReader,
  scannersOf,
} from '../../../../src/replay/cloud/work-bucket/schedule-file.ts';
import { coalesce } from '../../../../src/replay/source/range-reader.ts';
import type { IndexEntry } from '../../../../src/replay/source/types.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

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

describe('the reader of ranges', () => {
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

test('prefetches the next blocks, also of the next objects', async () => {
  const memory = new MemoryStorage();
  const long = Array.from({ length: 3 }, (_, i) => `${i} `.padEnd(1024 * 1024, 'x')).join('\n');
  const objects = Array.from({ length: 40 }, (_, i) => memory.put(`s${i}`, i === 0 ? long : `${i + 10}\n`));
  const [first] = scannersOf(memory.storage, objects, DEFAULT_MAX_LINE_BYTES);
  await first?.next();
  const keys = memory.reads.map((read) => read.split(' ')[0]);
  expect(keys.slice(0, 16)).toEqual(['s0', 's0', 's0', 's0', ...Array.from({ length: 12 }, (_, i) => `s${i + 1}`)]);
  // The first line ends in the second block.
  expect(keys).toHaveLength(17);
});

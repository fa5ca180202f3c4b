/** Indexing the captures of a replay by time. */
import { execFileSync } from 'node:child_process';
import { createReadStream, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { readLines } from '../../../src/captures/lines/read-lines.ts';
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import { indexCaptures } from '../../../src/replay/source/index-captures.ts';
import { scanFile } from '../../../src/replay/source/lines.ts';
import { localFiles, openSource } from '../../../src/replay/source/open-source.ts';
import { peekLine } from '../../../src/replay/source/peek.ts';
import { localReader } from '../../../src/replay/source/range-reader.ts';
import { SortedIndex } from '../../../src/replay/source/sorted-index.ts';
import type { IndexEntry, SkippedLine } from '../../../src/replay/source/types.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';

let directory: string;
beforeEach(() => {
  directory = temporaryFolder('replay-test-');
});

const record = (eventMetadata: object, data = 'x'): string =>
  JSON.stringify({ captureData: { endpointInput: { data, encoding: 'JSON' } }, eventMetadata, eventVersion: '0' });

const entries = (index: SortedIndex): IndexEntry[] => [...index.batches()].flat();

/** Indexes the captures at a path. */
async function indexed(path: string, options: Partial<Parameters<typeof indexCaptures>[1]> = {}) {
  const files = await localFiles(path);
  const skipped: SkippedLine[] = [];
  const onSkipped = (line: SkippedLine) => skipped.push(line);
  const index = await indexCaptures(files, { needsTime: true, onSkipped, ...options });
  return { files, skipped, index, entries: entries(index) };
}

describe('lines of a file', () => {
  test('equal those of the pipeline byte for byte, so that their traces have the same ids', async () => {
    const content = Buffer.from('\ufeff{"a":1}\r\r\n\f\n\v \r\n{"b":2}\r\r\n {"c":3} \r');
    const path = join(directory, 'lines');
    writeFileSync(path, content);
    const source = { bucket: '', key: '', etag: '', start: 0, firstLine: 1, objectTimeMs: 0 };
    const expected: unknown[] = [];
    for await (const read of readLines(createReadStream(path), source, { maxLineBytes: 100 }))
      if (read.kind === 'line') expected.push([read.raw.place.line, traceIdOf('1', read.raw.bytes)]);
    const found: unknown[] = [];
    for await (const { line, bytes } of scanFile(path)) found.push([line, traceIdOf('1', bytes ?? Buffer.alloc(0))]);
    expect(found).toEqual(expected);
  });
});

describe('peekLine', () => {
  test('finds the time wherever the metadata is', () => {
    const time = '2026-11-20T10:00:01Z';
    const payload = 'x\\"eventMetadata\\":{}'.repeat(3);
    for (const line of [
      record({ eventId: 'e', inferenceTime: time }, payload),
      JSON.stringify({ eventMetadata: { inferenceTime: time }, captureData: { endpointInput: { data: payload } } }),
      JSON.stringify({
        captureData: { nested: { eventMetadata: { inferenceTime: '1999-01-01T00:00:00Z' } } },
        eventMetadata: { inferenceTime: time },
        more: 1,
      }),
    ]) {
      expect(peekLine(Buffer.from(line), true)).toMatchObject({ kind: 'record', timeMs: Date.parse(time) });
    }
  });

  test.each([
    ['NotJson', 'not json at all'],
    ['NotACaptureRecord', '"a string"'],
    ['NoInferenceTime', record({ eventId: 'e' })],
    ['NoInferenceTime', record({ inferenceTime: 'yesterday' })],
  ])('skips a line with the reason %s', (reason, line) => {
    expect(peekLine(Buffer.from(line), true)).toMatchObject({ kind: 'skipped', reason });
  });

  test('finds the inference id of a registered replay', () => {
    const [inferenceTime, inferenceId] = ['2026-11-20T10:00:01Z', `replay-${'0a'.repeat(24)}`];
    const marked = { capturedInferenceId: inferenceId, inferenceTimeMs: Date.parse(inferenceTime) };
    expect(peekLine(Buffer.from(record({ inferenceTime, inferenceId })), true)).toMatchObject({
      kind: 'record',
      marked,
    });
  });

  test.each<[object, string]>([
    [{ inferenceId: 'replay-of-the-incident' }, 'hello'],
    // Of a replay that was not registered.
    [{ inferenceId: `replay-${'0a'.repeat(16)}` }, 'hello'],
    [{ customAttributes: ['replay_run=r1;event_id=e'] }, 'hello'],
    [{}, 'what does replay_run=1 mean?'],
  ])('%j marks no request of a replay', (metadata, prompt) => {
    const line = record({ inferenceTime: '2026-11-20T10:00:01Z', ...metadata }, prompt);
    expect(peekLine(Buffer.from(line), true)).toEqual({ kind: 'record', timeMs: expect.any(Number) });
  });

  test.each([
    ['2026-11-20T10:00:02', '2026-11-20T10:00:02Z'],
    ['2026-11-20 10:00:02.5+01:00', '2026-11-20T09:00:02.500Z'],
    [1_795_168_802, '2026-11-20T10:00:02Z'],
  ])('reads the time %j as the pipeline does, in any time zone', (inferenceTime, expected) => {
    const zone = process.env.TZ;
    process.env.TZ = 'Asia/Tokyo';
    try {
      const line = JSON.stringify({ captureData: {}, eventMetadata: { inferenceTime } });
      expect(peekLine(Buffer.from(line), true)).toMatchObject({ kind: 'record', timeMs: Date.parse(expected) });
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
  });
});

describe('the index', () => {
  test('sorts by time, file and line', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 20 }), { maxLength: 200 }),
        // Enough entries for several blocks.
        fc.constantFrom(1, 1, 1, 200),
        async (some, often) => {
          const times = Array.from({ length: often }, () => some).flat();
          const placeOf = (i: number) => ({ file: Math.floor(i / 7), line: i + 1, start: i, length: 9 });
          const rows = times.map((timeMs, i) => ({ timeMs, ...placeOf(i) }));
          const index = new SortedIndex();
          for (const row of rows) index.add(row);
          const expected = [...rows].sort((a, b) => a.timeMs - b.timeMs || a.file - b.file || a.line - b.line);
          expect(entries(index)).toEqual(expected);
          // The second pass of `--repeat`.
          expect(entries(index)).toEqual(expected);
          expect(index.total).toBe(rows.length);
        },
      ),
      { numRuns: 40 },
    );
  });

  test('lists every record of a directory once, reports bad ones with their place, and reads records back', async () => {
    const at = (second: number, id: string): string =>
      record({ eventId: id, inferenceTime: `2026-11-20T10:00:0${second}Z` }, id);
    writeFileSync(join(directory, 'b.jsonl'), `${at(2, 'b1')}\n{"cut": "of\n${at(1, 'b2')}\n`);
    writeFileSync(join(directory, 'a.jsonl'), `${at(2, 'a1')}\n\n${at(3, 'a2')}`);
    writeFileSync(join(directory, 'notes.txt'), 'not a capture');
    const { files, skipped, entries: all } = await indexed(directory);
    const reader = localReader(files);
    const order: string[] = [];
    reader.expect(all);
    for (const entry of all) {
      const line = JSON.parse((await reader.read(entry)).toString()) as { eventMetadata: { eventId: string } };
      order.push(line.eventMetadata.eventId);
    }
    await reader.close();
    expect(order).toEqual(['b2', 'a1', 'b1', 'a2']);
    expect(skipped).toMatchObject([{ file: join(directory, 'b.jsonl'), line: 2, reason: 'NotJson' }]);
  });

  test('reports an unreadable file, and reads the others', async () => {
    const line = record({ inferenceTime: '2026-11-20T10:00:05Z' });
    writeFileSync(join(directory, 'good.jsonl'), line);
    mkdirSync(join(directory, 'elsewhere'));
    symlinkSync(join(directory, 'gone'), join(directory, 'dangling.jsonl'));
    symlinkSync(join(directory, 'elsewhere'), join(directory, 'folder.jsonl'));
    const found = await indexed(directory);
    expect(found.entries).toHaveLength(1);
    const missing = { line: 0, reason: 'CaptureUnreadable', message: expect.stringContaining('ENOENT') };
    expect(found.skipped).toEqual([{ file: join(directory, 'dangling.jsonl'), ...missing }]);
  });

  test('accepts captures from a pipe', async () => {
    const pipe = join(directory, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const writing = writeFile(pipe, 'a line\n');
    const source = await openSource(pipe, { storage: () => Promise.reject(new Error('none')) });
    await writing;
    expect(source.files).toMatchObject([{ name: pipe, size: 7 }]);
    expect(readFileSync(source.files[0]?.path ?? '', 'utf8')).toBe('a line\n');
    await source.dispose();
    expect(existsSync(source.files[0]?.path ?? '')).toBe(false);
  });

  test('keeps records within a time window, its end excluded', async () => {
    const path = join(directory, 'w.jsonl');
    writeFileSync(path, [0, 1, 2, 3].map((s) => record({ inferenceTime: `2026-11-20T10:00:0${s}Z` })).join('\n'));
    const window = { fromMs: Date.parse('2026-11-20T10:00:01Z'), toMs: Date.parse('2026-11-20T10:00:03Z') };
    expect((await indexed(path, window)).entries.map(({ line }) => line)).toEqual([2, 3]);
  });

  test('places a record without a time after the one before it, when there is no schedule', async () => {
    const path = join(directory, 't.jsonl');
    const [late, early] = [5, 1].map((second) => record({ inferenceTime: `2026-11-20T10:00:0${second}Z` }));
    writeFileSync(path, [late, record({}), early].join('\n'));
    expect((await indexed(path, { needsTime: false })).entries.map(({ line }) => line)).toEqual([3, 1, 2]);
  });

  test('reports the maximum number of records', () => {
    const index = new SortedIndex(3);
    const add = () => index.add({ timeMs: 0, file: 0, line: 1, start: 0, length: 1 });
    for (let i = 0; i < 3; i++) add();
    expect(add).toThrow(
      expect.objectContaining({
        name: 'ReplayTooLarge',
        message: expect.stringMatching(/got: more than 3 records; expected: 3 at most: a narrower window/),
      }),
    );
  });

  test('stops when it is aborted', async () => {
    const path = join(directory, 's.jsonl');
    writeFileSync(path, Array.from({ length: 50 }, () => record({ inferenceTime: '2026-11-20T10:00:05Z' })).join('\n'));
    const stopping = new AbortController();
    let seen = 0;
    const onRecord = (): void => {
      if (++seen === 25) stopping.abort();
    };
    await expect(indexed(path, { onRecord, signal: stopping.signal })).rejects.toMatchObject({ name: 'AbortError' });
    expect(seen).toBe(25);
  });

  test('fails with a named error for a path without captures', async () => {
    await expect(localFiles(join(directory, 'none'))).rejects.toMatchObject({ name: 'SourceMissing' });
    await expect(localFiles(directory)).rejects.toMatchObject({ name: 'NoCaptureFiles' });
  });
});

/** Splitting capture files into lines, and lines into chunks. */
import fc from 'fast-check';
import { type LineChunk, scanChunks } from '../../../src/captures/lines/chunks.ts';
import { type LineRead, type LineSource, readLines } from '../../../src/captures/lines/read-lines.ts';

const SOURCE: LineSource = { bucket: 'b', key: 'k', etag: 'e', start: 0, firstLine: 1, objectTimeMs: 5 };
const UNBOUND = { maxLineBytes: Number.MAX_SAFE_INTEGER };

/** Yields the bytes in pieces of the given lengths, repeatedly. */
async function* inPieces(bytes: Buffer, lengths: readonly number[]): AsyncGenerator<Buffer> {
  let at = 0;
  for (let index = 0; at < bytes.length; index += 1) {
    const length = Math.max(1, lengths[index % lengths.length] ?? bytes.length);
    yield bytes.subarray(at, at + length);
    at += length;
  }
}

const linesOf = (text: string | Buffer, options = UNBOUND, source: Partial<LineSource> = {}, pieces = [7]) =>
  Array.fromAsync(readLines(inPieces(Buffer.from(text), pieces), { ...SOURCE, ...source }, options));

const textOf = (line: LineRead): string => (line.kind === 'line' ? line.raw.bytes.toString() : 'too long');

describe('readLines', () => {
  test('yields lines with their place', async () => {
    const lines = await linesOf('one\ntwo\n', UNBOUND, { versionId: 'v' });
    expect(lines.map(textOf)).toEqual(['one', 'two']);
    const place = { bucket: 'b', key: 'k', versionId: 'v', etag: 'e', line: 2, start: 4, end: 6, objectTimeMs: 5 };
    expect(lines[1]).toMatchObject({ raw: { place } });
  });

  test.each([
    ['accepts LF and CRLF', 'a\nb\r\nc', ['a', 'b', 'c'], [1, 2, 3]],
    ['yields a last line without an ending', 'a\nb', ['a', 'b'], [1, 2]],
    ['removes a CR at the end of the file', 'a\r', ['a'], [1]],
    ['skips blank lines, but counts them', '\n  \t\r\n\na\n \n\nb\n\n', ['a', 'b'], [4, 7]],
    ['keeps white space around a line', '  a \n', ['  a '], [1]],
    ['skips a byte order mark', '\ufeffa\nb', ['a', 'b'], [1, 2]],
    ['skips a byte order mark before a blank line', '\ufeff\r\na', ['a'], [2]],
    ['yields nothing for an empty file', '', [], []],
    ['yields nothing for a byte order mark alone', '\ufeff', [], []],
    ['removes several CRs before the line feed', 'a\r\r\nb', ['a', 'b'], [1, 2]],
    ['keeps a byte order mark within the file', 'a\n\ufeffb', ['a', '\ufeffb'], [1, 2]],
  ])('%s', async (_title, text, expected, numbers) => {
    for (const pieces of [[1], [2], [3], [1000]]) {
      const lines = await linesOf(text, UNBOUND, {}, pieces);
      expect(lines.map(textOf)).toEqual(expected);
      expect(lines.map((line) => (line.kind === 'line' ? line.raw.place.line : 0))).toEqual(numbers);
    }
  });

  test('yields the beginning of a byte order mark as a line', async () => {
    const lines = await linesOf(Buffer.from([0xef, 0xbb]));
    expect(lines).toHaveLength(1);
  });

  test('reports a line over the bound by its place, and reads the lines around it', async () => {
    for (const pieces of [[1], [5], [1000]]) {
      const lines = await linesOf('short\nmuch too long\r\n12345678\r\nend', { maxLineBytes: 8 }, {}, pieces);
      expect(lines.map(textOf)).toEqual(['short', 'too long', '12345678', 'end']);
      expect(lines[1]).toMatchObject({ kind: 'tooLong', place: { line: 2, start: 6, end: 18 } });
    }
  });

  test('continues numbers and offsets from the start of the chunk, and keeps a byte order mark there', async () => {
    const lines = await linesOf('\ufeffx\ny', UNBOUND, { start: 100, firstLine: 40 });
    expect(lines.map(textOf)).toEqual(['\ufeffx', 'y']);
    expect(lines[1]).toMatchObject({ raw: { place: { line: 41, start: 105, end: 105 } } });
  });

  test('throws a retryable error when the stream ends before the chunk', async () => {
    await expect(linesOf('one\ntw', UNBOUND, { end: 7 })).rejects.toMatchObject({ name: 'StorageUnavailable' });
    await expect(linesOf('one\ntwo\n', UNBOUND, { end: 7 })).resolves.toHaveLength(2);
    await expect(linesOf('\ufeff', UNBOUND, { end: 2 })).resolves.toHaveLength(0);
  });

  test('closes the stream when the reader stops early', async () => {
    let ended = false;
    async function* stream(): AsyncGenerator<Buffer> {
      try {
        for (;;) yield Buffer.from('line\n');
      } finally {
        ended = true;
      }
    }
    for await (const _line of readLines(stream(), SOURCE, UNBOUND)) break;
    expect(ended).toBe(true);
  });
});

describe('scanChunks', () => {
  const chunksOf = (text: string, bounds: { maxLines: number; maxBytes: number }, pieces = [3]) =>
    Array.fromAsync(scanChunks(inPieces(Buffer.from(text), pieces), bounds));

  test('limits the lines of a chunk', async () => {
    expect(await chunksOf('a\nb\nc\n', { maxLines: 2, maxBytes: 100 })).toEqual([
      { start: 0, end: 3, firstLine: 1, lines: 2, bytes: 4 },
      { start: 4, end: 5, firstLine: 3, lines: 1, bytes: 2 },
    ]);
  });

  test('limits the bytes of a chunk, and makes a longer line a separate chunk', async () => {
    expect(await chunksOf('aa\nbb\ncccccccccc\ndd\nee', { maxLines: 100, maxBytes: 6 })).toEqual([
      { start: 0, end: 5, firstLine: 1, lines: 2, bytes: 6 },
      { start: 6, end: 16, firstLine: 3, lines: 1, bytes: 11 },
      { start: 17, end: 21, firstLine: 4, lines: 2, bytes: 5 },
    ]);
  });

  test('omits blank lines and the byte order mark at both ends', async () => {
    expect(await chunksOf('\ufeff\n\na\n\n\nb\n\n \n', { maxLines: 10, maxBytes: 100 })).toEqual([
      { start: 5, end: 10, firstLine: 3, lines: 2, bytes: 6 },
    ]);
  });

  test.each(['', '\n\n', '\ufeff', ' \r\n\t\n'])('yields no chunk for a file without a line: %j', async (text) => {
    expect(await chunksOf(text, { maxLines: 10, maxBytes: 100 })).toEqual([]);
  });
});

// ------------------------------------------------------------------------------------------------------ properties

/** Files with difficult lines: mixed endings, blank lines, byte order marks, long and empty lines. */
const files = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('\n', '\r\n', '\r', ' ', '\t', '\ufeff', '{}', 'x', '\n\n', '\u00e9') },
      { weight: 1, arbitrary: fc.string({ maxLength: 30 }) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 200 }).map((length) => 'y'.repeat(length)) },
    ),
    { maxLength: 60 },
  )
  .map((parts) => Buffer.from(parts.join('')));
const pieceLengths = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
const chunkBounds = fc.record({ maxLines: fc.integer({ min: 1, max: 5 }), maxBytes: fc.integer({ min: 1, max: 80 }) });

/** The reference implementation: a file in memory, split at its line feeds. */
function plainLines(file: Buffer): { line: number; start: number; text: string }[] {
  const hasMark = file.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf]));
  let start = hasMark ? 3 : 0;
  const lines: { line: number; start: number; text: string }[] = [];
  for (const [index, content] of file.subarray(start).toString('latin1').split('\n').entries()) {
    const text = content.replace(/\r+$/, '');
    if (!/^[ \t\n\v\f\r]*$/.test(content)) lines.push({ line: index + 1, start, text });
    start += content.length + 1;
  }
  return lines;
}

test('yields the lines of the file, however the stream is cut', async () => {
  await fc.assert(
    fc.asyncProperty(files, pieceLengths, async (file, lengths) => {
      const lines = await Array.fromAsync(
        readLines(inPieces(file, lengths), { ...SOURCE, end: file.length - 1 }, UNBOUND),
      );
      const found = lines.map((line) => {
        if (line.kind !== 'line') throw new Error('no bound was set');
        const { place, bytes } = line.raw;
        // The place is the exact range of the line's bytes.
        expect(file.subarray(place.start, place.end + 1).equals(bytes)).toBe(true);
        return { line: place.line, start: place.start, text: bytes.toString('latin1') };
      });
      expect(found).toEqual(plainLines(file));
    }),
    { numRuns: 1000 },
  );
});

test('chunks together contain all lines of the file, and state their numbers correctly', async () => {
  await fc.assert(
    fc.asyncProperty(files, pieceLengths, pieceLengths, chunkBounds, async (file, lengths, others, bounds) => {
      const chunks = await Array.fromAsync(scanChunks(inPieces(file, lengths), bounds));
      const found: { line: number; start: number; text: string }[] = [];
      let behind = -1;
      for (const chunk of chunks) {
        assertBounded(chunk, bounds);
        expect(chunk.start).toBeGreaterThan(behind);
        behind = chunk.end;
        const part = file.subarray(chunk.start, chunk.end + 1);
        const source = { ...SOURCE, start: chunk.start, end: chunk.end, firstLine: chunk.firstLine };
        const lines = await Array.fromAsync(readLines(inPieces(part, others), source, UNBOUND));
        expect(lines).toHaveLength(chunk.lines);
        for (const line of lines) {
          if (line.kind !== 'line') throw new Error('no bound was set');
          const { place, bytes } = line.raw;
          found.push({ line: place.line, start: place.start, text: bytes.toString('latin1') });
        }
      }
      expect(found).toEqual(plainLines(file));
    }),
    { numRuns: 1000 },
  );
});

function assertBounded(chunk: LineChunk, bounds: { maxLines: number; maxBytes: number }): void {
  expect(chunk.bytes).toBe(chunk.end - chunk.start + 1);
  expect(chunk.lines).toBeGreaterThan(0);
  expect(chunk.lines).toBeLessThanOrEqual(bounds.maxLines);
  if (chunk.lines > 1) expect(chunk.bytes).toBeLessThanOrEqual(bounds.maxBytes);
}

test('the same lines are over the bound, however the stream is cut', async () => {
  await fc.assert(
    fc.asyncProperty(files, pieceLengths, fc.integer({ min: 1, max: 60 }), async (file, lengths, maxLineBytes) => {
      const lines = await Array.fromAsync(readLines(inPieces(file, lengths), SOURCE, { maxLineBytes }));
      const found = lines.map((line) =>
        line.kind === 'line' ? line.raw.bytes.toString('latin1') : { over: line.place.end - line.place.start + 1 },
      );
      const wanted = plainLines(file).map(({ text }) => (text.length > maxLineBytes ? { over: text.length } : text));
      expect(found).toEqual(wanted);
    }),
    { numRuns: 1000 },
  );
});

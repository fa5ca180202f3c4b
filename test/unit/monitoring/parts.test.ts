/** A chunk in parts. The test does the work of the state machine, which uses only `partOf`. */
import fc from 'fast-check';
import type { CaptureRange, ChunkProgress, ManifestLine } from '../../../src/core/contract/payloads.ts';
import { CHUNK_BOUNDS, MOST_KILLS } from '../../../src/monitoring/chunk/chunk-bounds.ts';
import { chunkOfPart, KILLED, leftOut, partOf } from '../../../src/monitoring/chunk/parts.ts';
import { lineId } from '../../../src/monitoring/chunk/ranges.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

const place = { bucket: 'b', key: 'e/AllTraffic/2026/11/20/10/a.jsonl', etag: 'x', objectTimeMs: 0 };
const chunkOf = (lines: number, range: Partial<CaptureRange> = {}): ManifestLine => ({
  chunk: 0,
  experimentId: '1',
  lines,
  ranges: [{ ...place, start: 0, end: 0, firstLine: 1, lines, ...range }],
});

/** Processes a chunk whose function is killed on each part that `kills` returns true for. */
function play(lines: number, kills: (part: { from: number; to: number }, invocation: number) => boolean) {
  const handled: number[] = [];
  const condemned: number[] = [];
  let progress: ChunkProgress = { bounds: [], kills: 0 };
  let invocations = 0;
  let isFailed = false;
  for (let more = true; more; ) {
    const part = partOf({ chunk: chunkOf(lines), attempt: 0, progress });
    invocations += 1;
    // Only the first invocation may assume that there was no earlier attempt.
    expect(part.isRepeated).toBe(invocations > 1);
    if (!part.condemned && kills(part, invocations)) {
      progress = { ...progress, kills: progress.kills + 1 };
      isFailed = progress.kills > MOST_KILLS;
      more = !isFailed;
      continue;
    }
    if (part.condemned) condemned.push(part.from);
    else for (let line = part.from; line < part.to; line += 1) handled.push(line);
    progress = part.next;
    more = part.next.more === true;
  }
  return { handled, condemned, invocations, isFailed };
}

const deepest = (lines: number): number => Math.ceil(Math.log2(lines));
const chunk = fc
  .integer({ min: 1, max: CHUNK_BOUNDS.maxLines })
  .chain((lines) => fc.tuple(fc.constant(lines), fc.uniqueArray(fc.nat(lines - 1), { maxLength: 12 })));

test('processes every good line once and condemns every killer, with at most 2⌈log₂ lines⌉ + 1 further invocations each', () => {
  fc.assert(
    fc.property(chunk, ([lines, killers]) => {
      const deadly = new Set(killers);
      const { handled, condemned, invocations } = play(lines, ({ from, to }) =>
        killers.some((killer) => killer >= from && killer < to),
      );
      expect(condemned).toEqual([...deadly].sort((a, b) => a - b));
      expect(handled).toEqual(Array.from({ length: lines }, (_, n) => n).filter((line) => !deadly.has(line)));
      expect(invocations - 1).toBeLessThanOrEqual(killers.length * (2 * deepest(lines) + 1));
    }),
  );
});

test.each([1, 2, 3, 4, 5, 499, 500])('a killer at any place of %d lines stays within the bound', (lines) => {
  for (let killer = 0; killer < lines; killer += 1) {
    const { invocations } = play(lines, ({ from, to }) => killer >= from && killer < to);
    expect(invocations - 1).toBeLessThanOrEqual(2 * deepest(lines) + 1);
  }
});

test('condemns all lines of a chunk in which every line kills', () => {
  const { handled, condemned } = play(CHUNK_BOUNDS.maxLines, () => true);
  expect({ handled, condemned: condemned.length }).toEqual({ handled: [], condemned: CHUNK_BOUNDS.maxLines });
});

test('condemns no line because a host failed once: each line is tried alone first', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: CHUNK_BOUNDS.maxLines }), (lines) => {
      const { handled, condemned } = play(lines, (_, invocation) => invocation === 1);
      expect({ handled: handled.length, condemned }).toEqual({ handled: lines, condemned: [] });
    }),
  );
});

test('stops after a function is killed even on a condemned line', () => {
  let progress = { bounds: [], kills: 0 };
  let condemned = 0;
  for (; progress.kills <= MOST_KILLS; progress = { ...progress, kills: progress.kills + 1 }) {
    condemned += partOf({ chunk: chunkOf(CHUNK_BOUNDS.maxLines), attempt: 0, progress }).condemned ? 1 : 0;
  }
  // A condemned line gets two tries, because a host may fail there too.
  expect(condemned).toBe(2);
});

describe('a part as a chunk', () => {
  const text = '\ufeffone\n\n  \r\ntwo\r\nthree\nfour\n\n';
  const memory = new MemoryStorage();
  const { etag, size } = memory.put('a', text);
  const whole = chunkOf(4, { key: 'a', etag, start: 3, end: size - 2 });
  const textOf = ({ ranges }: ManifestLine): string =>
    ranges
      .filter(({ lines }) => lines > 0)
      .map(({ start, end }) => Buffer.from(text).subarray(start, end + 1))
      .join('|');
  const of = async (from: number, to: number) => {
    const part = await chunkOfPart(memory.storage, 'work', whole, { from, to, kills: 1 });
    return { text: textOf(part), firstLine: part.ranges[0]?.firstLine, lines: part.lines };
  };

  test('has the bytes of its lines, and their numbers in the file', async () => {
    expect(await of(0, 1)).toEqual({ text: 'one', firstLine: 1, lines: 1 });
    expect(await of(1, 3)).toEqual({ text: 'two\r\nthree', firstLine: 4, lines: 2 });
    expect(await of(3, 4)).toEqual({ text: 'four\n', firstLine: 6, lines: 1 });
    expect(await of(0, 4)).toEqual({ text: textOf(whole), firstLine: 1, lines: 4 });
  });

  test('fails by name when the chunk has fewer lines than planned', async () => {
    const planned = chunkOf(9, { ...whole.ranges[0], lines: 9 });
    await expect(chunkOfPart(memory.storage, 'work', planned, { from: 7, to: 8, kills: 0 })).rejects.toMatchObject({
      name: 'LineCountMismatch',
      message: expect.stringMatching(/got: 4 lines; expected: 9 lines/),
    });
  });
});

test('leaves out a line that killed the log step with that reason, and a line that killed this step with its own', () => {
  const place = (line: number) => ({
    bucket: 'b',
    key: 'k',
    etag: 'x',
    line,
    start: line * 10,
    end: 0,
    objectTimeMs: 0,
  });
  const request = { run: 'r', chunk: chunkOf(1), attempt: 0, progress: { bounds: [], kills: 1 } } as never;
  const first = leftOut({ ...(request as object), progress: { bounds: [], kills: 0 }, leaveOut: [3] } as never, [
    lineId(place(4)),
  ]);
  expect([2, 3, 4].map((line) => first(place(line))?.name)).toEqual([undefined, 'LeftOut', 'FunctionKilled']);
  expect(first(place(4))).toBe(KILLED);
  expect(leftOut(request)(place(5))).toBe(KILLED);
});

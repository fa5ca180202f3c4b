/** Leaves the requests of the stack's own replays out of a capture file, before it is forwarded. */
import { scanLines } from '../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../core/values/line-bound.ts';
import { Marks } from '../../replay/marks/believe.ts';
import { REPLAY_ID_PREFIX } from '../../replay/marks/inference-id.ts';
import { peekAt } from '../../replay/source/index-captures.ts';

interface Content {
  /** Bytes. */
  size: number;
  open(): Promise<AsyncIterable<Buffer>>;
}

/** Returns what is to be forwarded of a file. It is read once more where the stack has registered a replay: uploads need their size. */
export async function withoutReplays(storage: Storage, workBucket: string, file: ObjectFacts): Promise<Content> {
  const whole: Content = { size: file.size, open: () => storage.read(file) };
  const marks = new Marks(storage, workBucket);
  if ((await marks.firstMs()) === undefined) return whole;
  const left: (typeof NONE)[] = [];
  for await (const { bytes, start, end } of scanLines(await whole.open(), DEFAULT_MAX_LINE_BYTES)) {
    const peek = bytes?.includes(REPLAY_ID_PREFIX) ? peekAt(bytes, false) : undefined;
    if (peek?.kind !== 'record' || peek.claim === undefined) continue;
    if ((await marks.runOf(peek.claim)) !== undefined) left.push({ start, end });
  }
  if (left.length === 0) return whole;
  const size = left.reduce((rest, { start, end }) => rest - (end - start), file.size);
  return { size, open: async () => outside(await whole.open(), left) };
}

const NONE = { start: Number.POSITIVE_INFINITY, end: Number.POSITIVE_INFINITY };

/** Yields the bytes outside of the ranges, which are in order. */
async function* outside(blocks: AsyncIterable<Buffer>, ranges: readonly (typeof NONE)[]): AsyncGenerator<Buffer> {
  let offset = 0;
  let next = 0;
  for await (const block of blocks) {
    for (let at = 0; at < block.length; ) {
      const { start, end } = ranges[next] ?? NONE;
      const isInside = offset + at >= start;
      const until = Math.min(block.length, (isInside ? end : start) - offset);
      if (!isInside) yield block.subarray(at, until);
      at = until;
      if (offset + at === end) next += 1;
    }
    offset += block.length;
  }
}

/** Reads lines of objects, one object after the other or merged, in bounded memory. */
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';

const LF = 0x0a;
/** Bytes per read of an object. Less if many objects are merged. */
const BLOCK_BYTES = 1024 * 1024;
const LEAST_BLOCK_BYTES = 64 * 1024;
/** Bytes in memory during a merge: for each object, the current block and the prefetched one. */
const MERGE_BYTES = 128 * 1024 * 1024;
/**
 * Objects that are prefetched. S3 takes about 30 ms to the first byte: one by one, a thousand shards would cost half a minute
 * for each kind of file.
 */
const FILES_AHEAD = 16;

/** The lines of one object, without line breaks. A line is valid until the next one is read. */
export class ObjectLines {
  readonly #storage: Storage;
  readonly #object: ObjectFacts;
  readonly #blockBytes: number;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  /** End of the bytes in memory, and of the requested bytes. */
  #loaded: number;
  #asked: number;
  #ahead: Promise<Buffer[]> | undefined;

  /** @param start first byte of the first line */
  constructor(storage: Storage, object: ObjectFacts, blockBytes = BLOCK_BYTES, start = 0) {
    this.#storage = storage;
    this.#object = object;
    this.#blockBytes = blockBytes;
    this.#loaded = start;
    this.#asked = start;
  }

  /** First byte of the next line. */
  get offset(): number {
    return this.#loaded - (this.#bytes.length - this.#at);
  }

  /** @returns `undefined` at the end */
  async next(): Promise<Buffer | undefined> {
    for (let from = this.#at; ; ) {
      const end = this.#bytes.indexOf(LF, from);
      if (end >= 0) {
        const line = this.#bytes.subarray(this.#at, end);
        this.#at = end + 1;
        return line;
      }
      const rest = this.#bytes.subarray(this.#at);
      if (this.#loaded >= this.#object.size) {
        this.#bytes = Buffer.alloc(0);
        this.#at = 0;
        return rest.length > 0 ? rest : undefined;
      }
      from = rest.length;
      this.#bytes = Buffer.concat([rest, ...(await this.#block())]);
      this.#at = 0;
    }
  }

  /** Requests the next block, if there is one, before it is needed. */
  prefetch(): void {
    if (this.#ahead || this.#asked >= this.#object.size) return;
    this.#ahead = this.#fetch();
    // An error is thrown when the block is needed.
    this.#ahead.catch(() => {});
  }

  async #block(): Promise<Buffer[]> {
    this.prefetch();
    const chunks = (await this.#ahead) ?? [];
    this.#ahead = undefined;
    this.#loaded = this.#asked;
    this.prefetch();
    return chunks;
  }

  async #fetch(): Promise<Buffer[]> {
    const start = this.#asked;
    const end = Math.min(this.#object.size, start + this.#blockBytes) - 1;
    this.#asked = end + 1;
    const chunks: Buffer[] = [];
    for await (const chunk of await this.#storage.read(this.#object, { start, end })) chunks.push(chunk as Buffer);
    return chunks;
  }
}

/** All lines of the objects, one object after the other. */
export async function* linesOf(storage: Storage, objects: readonly ObjectFacts[]): AsyncGenerator<Buffer> {
  const all = objects.map((object) => new ObjectLines(storage, object));
  for (const [i, lines] of all.entries()) {
    for (const next of all.slice(i, i + FILES_AHEAD)) next.prefetch();
    for (let line = await lines.next(); line !== undefined; line = await lines.next()) yield line;
  }
}

export interface MergeSource {
  object: ObjectFacts;
  /** Lower bound of its keys. The object is not opened before the merge reaches it. */
  leastKey: number;
}

interface Open {
  key: number;
  ordinal: number;
  lines: ObjectLines;
  line?: Buffer;
}

/**
 * Merges the lines of nearly sorted objects by key. Equal keys are in the order of the objects.
 *
 * @param keyOf returns the key of a line
 */
export async function* mergeLines(
  storage: Storage,
  sources: readonly MergeSource[],
  keyOf: (line: Buffer) => number,
): AsyncGenerator<Buffer> {
  const bytesOfEach = Math.floor(MERGE_BYTES / 2 / sources.length);
  const blockBytes = Math.max(LEAST_BLOCK_BYTES, Math.min(BLOCK_BYTES, bytesOfEach));
  const inOrder = sources
    .map(({ object, leastKey }, ordinal): Open => {
      return { key: leastKey, ordinal, lines: new ObjectLines(storage, object, blockBytes) };
    })
    .sort((a, b) => a.key - b.key || a.ordinal - b.ordinal);
  const open = [...inOrder];
  let asked = 0;
  const askNext = (): void => inOrder[asked++]?.lines.prefetch();
  while (asked < FILES_AHEAD) askNext();
  for (let first = open.shift(); first; first = open.shift()) {
    if (first.line) yield first.line;
    else askNext();
    first.line = await first.lines.next();
    if (!first.line) continue;
    first.key = keyOf(first.line);
    open.splice(placeOf(first, open), 0, first);
  }
}

const isBefore = (a: Open, b: Open): boolean => (a.key === b.key ? a.ordinal < b.ordinal : a.key < b.key);

/** The index in the sorted list at which the object belongs. */
function placeOf(one: Open, sorted: readonly Open[]): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(sorted[middle] as Open, one)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Reads the lines that shards have written, one shard after the other or merged, in memory that is bound. */
import type { ObjectFacts, Storage } from '../../../shared/storage.ts';

const LF = 0x0a;
/** Of a file at a time; where many shards are merged, less. */
const BLOCK_BYTES = 1024 * 1024;
const LEAST_BLOCK_BYTES = 64 * 1024;
/** All blocks of a merge together: of each file the one that is read, and the next, which is on its way. */
const MERGE_BYTES = 128 * 1024 * 1024;
/**
 * Files that are asked for before their turn. S3 takes some 30 ms to the first byte: one file after the other, a thousand
 * shards would wait half a minute for each kind of file.
 */
const FILES_AHEAD = 16;

/** The lines of one object, without their endings; a line is valid until the next is asked for. */
export class ObjectLines {
  readonly #storage: Storage;
  readonly #object: ObjectFacts;
  readonly #blockBytes: number;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  /** End of what is in memory, and of what was asked for. */
  #loaded: number;
  #asked: number;
  #ahead: Promise<Buffer[]> | undefined;

  /** @param start first byte of the first line that is read */
  constructor(storage: Storage, object: ObjectFacts, blockBytes = BLOCK_BYTES, start = 0) {
    this.#storage = storage;
    this.#object = object;
    this.#blockBytes = blockBytes;
    this.#loaded = start;
    this.#asked = start;
  }

  /** First byte of the line that is read next. */
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

  /** Asks for the next block, if there is one, before it is needed. */
  prefetch(): void {
    if (this.#ahead || this.#asked >= this.#object.size) return;
    this.#ahead = this.#fetch();
    // What goes wrong is thrown when its turn comes.
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
  /** No line of it has a lower key: it is not opened before. */
  leastKey: number;
}

interface Open {
  key: number;
  ordinal: number;
  lines: ObjectLines;
  line?: Buffer;
}

/**
 * The lines of objects whose own lines are about in order, merged by their keys; equal keys in the order of the objects.
 *
 * @param keyOf reads a line's key
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
  // A sorted list is a heap.
  const heap = new MergeHeap([...inOrder]);
  let asked = 0;
  const askNext = (): void => inOrder[asked++]?.lines.prefetch();
  while (asked < FILES_AHEAD) askNext();
  for (let top = heap.top; top; top = heap.top) {
    if (top.line) yield top.line;
    else askNext();
    top.line = await top.lines.next();
    if (top.line) top.key = keyOf(top.line);
    heap.settle(top.line !== undefined);
  }
}

/** A binary heap, the lowest key on top. */
class MergeHeap {
  readonly #items: Open[];

  /** @param items sorted */
  constructor(items: Open[]) {
    this.#items = items;
  }

  get top(): Open | undefined {
    return this.#items[0];
  }

  /** Puts the top where its new key belongs, or takes it out. */
  settle(stays: boolean): void {
    if (!stays) {
      const last = this.#items.pop();
      if (last && this.#items.length > 0) this.#items[0] = last;
    }
    for (let parent = 0; ; ) {
      const left = 2 * parent + 1;
      let least = parent;
      if (this.#before(left, least)) least = left;
      if (this.#before(left + 1, least)) least = left + 1;
      if (least === parent) return;
      const held = this.#items[parent] as Open;
      this.#items[parent] = this.#items[least] as Open;
      this.#items[least] = held;
      parent = least;
    }
  }

  #before(a: number, b: number): boolean {
    const [left, right] = [this.#items[a], this.#items[b]];
    if (!left || !right) return false;
    return left.key !== right.key ? left.key < right.key : left.ordinal < right.ordinal;
  }
}

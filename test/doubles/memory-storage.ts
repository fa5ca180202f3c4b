/** An in-memory S3 for unit tests. The real operations are tested against the emulator. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ObjectFacts, Storage, Work } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';

/** The pieces in which an object is read: short ones, so that they split lines, and no more of them than this. */
const MOST_PIECES = 1_000;
const PIECE_BYTES = 7;

export class MemoryStorage {
  readonly objects = new Map<string, Buffer>();
  /** When an object was written, epoch ms; 0 by default. */
  readonly writtenMs = new Map<string, number>();
  /** The ranges that were read, as `key start-end`. */
  readonly reads: string[] = [];

  /** Typed as the code under test expects it. */
  get work(): Work {
    return { storage: this.storage, workBucket: 'work' };
  }

  get storage(): Storage {
    return this as unknown as Storage;
  }

  put(key: string, content: string | object): ObjectFacts {
    const bytes = Buffer.from(typeof content === 'string' ? content : JSON.stringify(content));
    this.objects.set(key, bytes);
    return this.#facts(key, bytes);
  }

  #facts(key: string, bytes: Buffer): ObjectFacts {
    const etag = createHash('md5').update(bytes).digest('hex');
    return { bucket: 'b', key, etag, size: bytes.length, lastModifiedMs: this.writtenMs.get(key) ?? 0 };
  }

  async head(_: string, key: string): Promise<ObjectFacts | undefined> {
    const bytes = this.objects.get(key);
    return bytes && this.#facts(key, bytes);
  }

  async read(object: { key: string; etag: string }, range?: { start: number; end?: number }): Promise<Readable> {
    const bytes = this.objects.get(object.key);
    if (!bytes || this.#facts(object.key, bytes).etag !== object.etag) {
      throw new PermanentError('CaptureChanged', 'the object was overwritten', { where: object.key });
    }
    const start = range?.start ?? 0;
    const end = (range?.end ?? bytes.length - 1) + 1;
    this.reads.push(`${object.key} ${start}-${end}`);
    const size = Math.max(PIECE_BYTES, Math.ceil((end - start) / MOST_PIECES));
    const pieces: Buffer[] = [];
    for (let at = start; at < end; at += size) pieces.push(bytes.subarray(at, Math.min(end, at + size)));
    return Readable.from(pieces);
  }

  async getText(_: string, key: string): Promise<{ text: string; etag: string } | undefined> {
    const bytes = this.objects.get(key);
    return bytes && { text: bytes.toString(), etag: this.#facts(key, bytes).etag };
  }

  async getJson<T>(_: string, key: string): Promise<T | undefined> {
    const bytes = this.objects.get(key);
    return bytes && (JSON.parse(bytes.toString()) as T);
  }

  async getJsonLines<T>(_: string, key: string): Promise<T[]> {
    const lines = this.objects.get(key)?.toString().split('\n') ?? [];
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as T);
  }

  async putText(_: string, key: string, body: string): Promise<void> {
    this.put(key, body);
  }

  async putJson(_: string, key: string, value: object): Promise<void> {
    this.put(key, value);
  }

  async putJsonIf(_: string, key: string, value: object, replaces?: string): Promise<string | undefined> {
    const bytes = this.objects.get(key);
    if ((bytes && this.#facts(key, bytes).etag) !== replaces) return undefined;
    return this.put(key, value).etag;
  }

  async putBytes(_: string, key: string, { body }: { body: string | Buffer }): Promise<void> {
    this.objects.set(key, Buffer.from(body));
  }

  async getBytes(_: string, key: string): Promise<{ bytes: Buffer; etag: string } | undefined> {
    const bytes = this.objects.get(key);
    return bytes && { bytes, etag: this.#facts(key, bytes).etag };
  }

  async putIf(
    _: string,
    key: string,
    { body }: { body: string | Buffer },
    replaces?: string,
  ): Promise<string | undefined> {
    const bytes = this.objects.get(key);
    if ((bytes && this.#facts(key, bytes).etag) !== replaces) return undefined;
    this.objects.set(key, Buffer.from(body));
    return this.#facts(key, Buffer.from(body)).etag;
  }

  /** Only deletes. */
  readonly s3 = {
    send: async ({ input }: { input: { Key: string } }): Promise<void> => {
      this.objects.delete(input.Key);
    },
  };

  async hasAny(_: string, prefix: string): Promise<boolean> {
    return [...this.objects.keys()].some((key) => key.startsWith(prefix));
  }

  async *list(_: string, prefix: string, startAfter = ''): AsyncGenerator<ObjectFacts> {
    for (const key of [...this.objects.keys()].sort()) {
      if (key.startsWith(prefix) && key > startAfter) yield this.#facts(key, this.objects.get(key) ?? Buffer.alloc(0));
    }
  }
}

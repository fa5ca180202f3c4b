/**
 * Reads captured lines from S3 shortly before they are needed, in bounded memory. Lines that are close to each other in a
 * file are read with one request, and several files concurrently.
 */
import { buffer } from 'node:stream/consumers';
import type { Storage } from '../../../core/aws/storage.ts';
import { PipelineError } from '../../../core/errors/errors.ts';
import type { IndexEntry, LineReader } from '../../source/types.ts';
import type { CaptureObject } from '../work-bucket/schedule-file.ts';

/** Records that are read together. Two groups are in memory, so this is half of the records that wait. */
const GROUP_RECORDS = 256;
/** Bytes per group, unless a single line is longer. */
const GROUP_BYTES = 4 * 1024 * 1024;
/** Longest gap between two records that is read rather than skipped: 1 ms at 80 MB/s, while a request takes 20 ms. */
const MAX_GAP = 64 * 1024;

/** Consecutive bytes of a file with expected records. */
interface ByteRange {
  file: number;
  start: number;
  /** Exclusive. */
  end: number;
  entries: IndexEntry[];
}

/** Merges the records of a group into ranges, in the order of file and position. */
export function coalesce(entries: readonly IndexEntry[]): ByteRange[] {
  const ranges: ByteRange[] = [];
  const byPlace = entries.toSorted((a, b) => a.file - b.file || a.start - b.start);
  for (const entry of byPlace) {
    const end = entry.start + entry.length;
    const last = ranges.at(-1);
    if (last && last.file === entry.file && entry.start - last.end <= MAX_GAP) {
      last.end = Math.max(last.end, end);
      last.entries.push(entry);
    } else {
      ranges.push({ file: entry.file, start: entry.start, end, entries: [entry] });
    }
  }
  return ranges;
}

type Lines = Map<IndexEntry, Buffer | PipelineError>;

interface Group {
  entries: IndexEntry[];
  lines?: Promise<Lines>;
}

/** Reads expected records in their order. */
export class RangeReader implements LineReader {
  readonly #storage: Storage;
  readonly #files: readonly CaptureObject[];
  /** Groups of expected records. The first is the current one. */
  #groups: Group[] = [];
  #current: Lines | undefined;
  readonly #abort = new AbortController();

  constructor(storage: Storage, files: readonly CaptureObject[]) {
    this.#storage = storage;
    this.#files = files;
  }

  expect(entries: readonly IndexEntry[]): void {
    let group: Group = { entries: [] };
    let bytes = 0;
    for (const entry of entries) {
      if (group.entries.length > 0 && (group.entries.length >= GROUP_RECORDS || bytes + entry.length > GROUP_BYTES)) {
        this.#groups.push(group);
        group = { entries: [] };
        bytes = 0;
      }
      group.entries.push(entry);
      bytes += entry.length;
    }
    if (group.entries.length > 0) this.#groups.push(group);
  }

  /** @throws PipelineError of the storage, such as `CaptureChanged`, `CaptureMissing`, `StorageUnavailable` */
  read(entry: IndexEntry): Buffer | Promise<Buffer> {
    const found = this.#current?.get(entry);
    return found === undefined ? this.#advance(entry) : lineOf(found);
  }

  async #advance(entry: IndexEntry): Promise<Buffer> {
    for (let group = this.#groups[0]; group; group = this.#groups[0]) {
      group.lines ??= this.#load(group.entries);
      const next = this.#groups[1];
      if (next) next.lines ??= this.#load(next.entries);
      this.#current = await group.lines;
      const found = this.#current.get(entry);
      if (found !== undefined) return lineOf(found);
      this.#groups.shift();
    }
    throw new Error(`Line ${entry.line} of ${this.#files[entry.file]?.name} was not expected to be read`);
  }

  async #load(entries: readonly IndexEntry[]): Promise<Lines> {
    const lines: Lines = new Map();
    await Promise.all(coalesce(entries).map((range) => this.#fetch(range, lines)));
    return lines;
  }

  async #fetch({ file, start, end, entries }: ByteRange, lines: Lines): Promise<void> {
    const object = this.#files[file] as CaptureObject;
    try {
      const place = { bucket: object.bucket, key: object.name, etag: object.etag, versionId: object.versionId };
      const body = await this.#storage.read(place, { start, end: end - 1 }, this.#abort.signal);
      const bytes = await buffer(body);
      for (const entry of entries) {
        lines.set(entry, bytes.subarray(entry.start - start, entry.start - start + entry.length));
      }
    } catch (error) {
      const named =
        error instanceof PipelineError
          ? error
          : new PipelineError('CaptureUnreadable', 'The capture file cannot be read', { where: object.name }, error);
      for (const entry of entries) lines.set(entry, named);
    }
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await Promise.all(this.#groups.map(({ lines }) => lines));
    this.#groups = [];
    this.#current = undefined;
  }
}

function lineOf(found: Buffer | PipelineError): Buffer {
  if (Buffer.isBuffer(found)) return found;
  throw found;
}

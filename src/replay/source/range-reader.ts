/**
 * Reads captured lines shortly before they are needed, in bounded memory, from the local disk or from S3. Lines that are
 * close to each other in a file are read together, and several files concurrently.
 */
import { open } from 'node:fs/promises';
import { PermanentError, PipelineError } from '../../core/errors/errors.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import type { IndexEntry, SourceFile } from './types.ts';

/** Records that are read together. Two groups are in memory, so this is half of the records that wait. */
const GROUP_RECORDS = 256;
/** Bytes per group, unless a single line is longer. */
const GROUP_BYTES = 4 * 1024 * 1024;
/** Longest gap between two records that is read rather than skipped: 1 ms at 80 MB/s, while a request to S3 takes 20 ms. */
const MAX_GAP = 64 * 1024;
/** Ranges that are read at the same time, each with a file descriptor. */
const RANGES_AT_ONCE = 32;

/** Consecutive bytes of a file with expected records. */
interface ByteRange {
  file: number;
  start: number;
  /** Exclusive. */
  end: number;
  entries: IndexEntry[];
}

/**
 * Reads a range of a file.
 *
 * @returns a function that returns the bytes of a record in the range, or throws if they have changed
 */
type ReadRange = (range: Omit<ByteRange, 'entries'>, signal: AbortSignal) => Promise<LineOf>;
type LineOf = (entry: IndexEntry) => Buffer;

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

type Lines = Map<IndexEntry, LineOf>;

type Group = { entries: IndexEntry[]; lines?: Promise<Lines> };

/** Divides records into groups that are read together. */
function groupsOf(entries: readonly IndexEntry[]): Group[] {
  const groups: Group[] = [];
  let bytes = 0;
  for (const entry of entries) {
    const last = groups.at(-1)?.entries;
    bytes += entry.length;
    if (last !== undefined && last.length < GROUP_RECORDS && bytes <= GROUP_BYTES) last.push(entry);
    else {
      groups.push({ entries: [entry] });
      bytes = entry.length;
    }
  }
  return groups;
}

export type RangeReader = ReturnType<typeof rangeReader>;

/** Reads expected records in their order: directly when they are in memory, else by a promise. */
export function rangeReader(files: readonly SourceFile[], readRange: ReadRange) {
  /** Groups of expected records. The first group is the current group. */
  let groups: Group[] = [];
  let current: Lines | undefined;
  const abort = new AbortController();
  const load = async (entries: readonly IndexEntry[]): Promise<Lines> => {
    const lines: Lines = new Map();
    await forEachConcurrently(RANGES_AT_ONCE, coalesce(entries), async (range) => {
      const failed = (error: Error): LineOf => unreadable(files[range.file] as SourceFile, error);
      const lineOf = await readRange(range, abort.signal).catch(failed);
      for (const entry of range.entries) lines.set(entry, lineOf);
    });
    return lines;
  };
  const advance = async (entry: IndexEntry): Promise<Buffer> => {
    for (let [group, next] = groups; group; [group, next] = groups) {
      group.lines ??= load(group.entries);
      if (next) next.lines ??= load(next.entries);
      current = await group.lines;
      const lineOf = current.get(entry);
      if (lineOf) return lineOf(entry);
      groups.shift();
    }
    throw new Error(`Line ${entry.line} of ${files[entry.file]?.name} was not expected to be read`);
  };
  return {
    /** Announces the next reads, in order. */
    expect: (entries: readonly IndexEntry[]): void => {
      groups.push(...groupsOf(entries));
    },
    /** @throws PipelineError such as `CaptureChanged`, `CaptureMissing`, `CaptureUnreadable`, `StorageUnavailable` */
    read: (entry: IndexEntry): Buffer | Promise<Buffer> => current?.get(entry)?.(entry) ?? advance(entry),
    close: async (): Promise<void> => {
      abort.abort();
      await Promise.all(groups.map(({ lines }) => lines));
      groups = [];
      current = undefined;
    },
  };
}

/** An error affects the records of its range only. */
const unreadable =
  ({ name }: SourceFile, error: NodeJS.ErrnoException): LineOf =>
  ({ line }) => {
    if (error instanceof PipelineError) throw error;
    const facts = { got: error.code, where: `${name}, line ${line}` };
    throw new PipelineError('CaptureUnreadable', 'The capture file could not be read', facts, error);
  };

// ------------------------------------------------------------------------------------------------- the local disk

const LF = 0x0a;
const CR = 0x0d;
const BOM_BYTES = 3;

/** Reads records of local files. Each must still be a line of its file, from one line ending to the next. */
export const localReader = (files: readonly SourceFile[]): RangeReader =>
  rangeReader(files, async (range) => {
    const { path, name } = files[range.file] as SourceFile;
    // A file may begin with a byte order mark, and may lack the last line ending.
    const from = Math.max(0, range.start - BOM_BYTES);
    const block = Buffer.allocUnsafe(range.end + 1 - from);
    const file = await open(path, 'r');
    const { bytesRead } = await file.read(block, 0, block.length, from).finally(() => file.close());
    const bytes = block.subarray(0, bytesRead);
    return ({ start, length, line }) => {
      const [first, end] = [start - from, start - from + length];
      const begins = start === 0 || start === BOM_BYTES || bytes[first - 1] === LF;
      const ends = end === bytes.length || bytes[end] === LF || bytes[end] === CR;
      if (begins && ends && end <= bytes.length) return bytes.subarray(first, end);
      const where = `${name}, line ${line}`;
      throw new PermanentError('CaptureChanged', 'The file changed during the replay', { where });
    };
  });

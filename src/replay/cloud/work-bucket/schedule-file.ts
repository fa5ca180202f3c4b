/**
 * The requests of one shard as lines: pointers, no payload. A line names a capture file the first time it is needed; the
 * requests after it point to the files by their order. Keys are short: a replay has millions of these lines.
 */
import { PermanentError } from '../../../shared/errors.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import type { IndexEntry, SourceFile } from '../../source/types.ts';

/** A capture file in S3, as it was when it was planned. */
export interface CaptureObject extends SourceFile {
  bucket: string;
  etag: string;
  versionId?: string;
}

interface FileLine {
  bucket: string;
  key: string;
  etag: string;
  versionId?: string;
  size: number;
}

interface EntryLine {
  /** File, line, first byte, bytes, captured time. */
  f: number;
  l: number;
  s: number;
  b: number;
  c: number;
  /** Due, ms after the clock's start; not there without a schedule. */
  d?: number;
  /** Repetition of the captures. */
  p?: number;
  /** Conversation: its number in the run, and from the second turn on the turn and the conversation's name. */
  n: number;
  t?: [turnIndex: number, conversationId: string];
}

/** Writes the lines of one shard. */
export class ScheduleLines {
  readonly #files: readonly CaptureObject[];
  readonly #known = new Map<number, number>();
  readonly #lines: string[] = [];

  constructor(files: readonly CaptureObject[]) {
    this.#files = files;
  }

  add({ entry, dueMs, pass, turn }: ScheduledEntry): void {
    const line: EntryLine = {
      f: this.#fileOf(entry.file),
      l: entry.line,
      s: entry.start,
      b: entry.length,
      c: entry.timeMs,
      ...(Number.isNaN(dueMs) ? {} : { d: dueMs }),
      ...(pass === 0 ? {} : { p: pass }),
      n: turn?.session ?? 0,
      ...(turn?.conversationId === undefined ? {} : { t: [turn.turnIndex, turn.conversationId] }),
    };
    this.#lines.push(JSON.stringify(line));
  }

  #fileOf(file: number): number {
    const known = this.#known.get(file);
    if (known !== undefined) return known;
    const object = this.#files[file];
    if (!object) throw new Error(`The index names file ${file} of ${this.#files.length}`);
    const { bucket, name: key, etag, versionId, size } = object;
    const line: FileLine = { bucket, key, etag, versionId, size };
    this.#lines.push(JSON.stringify({ file: line }));
    this.#known.set(file, this.#known.size);
    return this.#known.size - 1;
  }

  get text(): string {
    return this.#lines.length === 0 ? '' : `${this.#lines.join('\n')}\n`;
  }
}

export interface ShardSchedule {
  files: CaptureObject[];
  /** In the order of their time. */
  entries: ScheduledEntry[];
}

/** @throws PermanentError `InvalidSchedule` for text that is no schedule */
export function readSchedule(text: string, where: string): ShardSchedule {
  const files: CaptureObject[] = [];
  const entries: ScheduledEntry[] = [];
  for (const [i, line] of text.split('\n').entries()) {
    if (line === '') continue;
    const parsed = JSON.parse(line) as { file?: FileLine } & EntryLine;
    if (parsed.file) {
      const { key, ...object } = parsed.file;
      files.push({ ...object, name: key, path: '' });
      continue;
    }
    if (parsed.f >= files.length) {
      throw new PermanentError('InvalidSchedule', 'A line points to a file that none before it names', {
        got: line,
        where: `${where}, line ${i + 1}`,
      });
    }
    entries.push(entryOf(parsed));
  }
  return { files, entries };
}

function entryOf({ f, l, s, b, c, d, p, n, t }: EntryLine): ScheduledEntry {
  const entry: IndexEntry = { timeMs: c, file: f, line: l, start: s, length: b };
  const turn = t ? { session: n, turnIndex: t[0], conversationId: t[1] } : { session: n, turnIndex: 0 };
  return { entry, dueMs: d ?? Number.NaN, pass: p ?? 0, turn };
}

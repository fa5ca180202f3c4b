/**
 * The schedule of one shard as lines that point to captures. A line names a capture file before its first request; requests
 * refer to the files by their order. Keys are short because a replay has millions of these lines.
 */
import type { ObjectVersion } from '../../../core/contract/execution.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import type { IndexEntry, SourceFile } from '../../source/types.ts';

/** A capture file in S3, in the version that was planned. */
export interface CaptureObject extends SourceFile {
  bucket: string;
  etag: string;
  versionId?: string;
}

interface FileLine extends ObjectVersion {
  size: number;
}

interface EntryLine {
  /** File, line, first byte, number of bytes, captured time. */
  f: number;
  l: number;
  s: number;
  b: number;
  c: number;
  /** Due time, ms after the clock's start; missing without a schedule. */
  d?: number;
  /** Pass through the captures, missing for the first one. */
  p?: number;
  /** Conversation: its number in the run; from the second turn on, also the turn and the conversation's name. */
  n: number;
  t?: [turnIndex: number, conversationId: string];
}

/** Returns the lines of one shard. */
export function scheduleText(files: readonly CaptureObject[], entries: readonly ScheduledEntry[]): string {
  const known = new Map<number, number>();
  const lines: string[] = [];
  for (const { entry, dueMs, pass, turn } of entries) {
    let f = known.get(entry.file);
    if (f === undefined) {
      const { bucket, name: key, etag, versionId, size } = files[entry.file] as CaptureObject;
      lines.push(JSON.stringify({ file: { bucket, key, etag, versionId, size } satisfies FileLine }));
      f = known.size;
      known.set(entry.file, f);
    }
    const line: EntryLine = {
      f,
      l: entry.line,
      s: entry.start,
      b: entry.length,
      c: entry.timeMs,
      ...(Number.isNaN(dueMs) ? {} : { d: dueMs }),
      ...(pass === 0 ? {} : { p: pass }),
      n: turn?.session ?? 0,
      ...(turn?.conversationId === undefined ? {} : { t: [turn.turnIndex, turn.conversationId] }),
    };
    lines.push(JSON.stringify(line));
  }
  return lines.map((line) => `${line}\n`).join('');
}

export interface ShardSchedule {
  files: CaptureObject[];
  /** In the order of due times. */
  entries: ScheduledEntry[];
}

/** Parses a schedule. @throws PermanentError `InvalidSchedule` */
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
      throw new PermanentError('InvalidSchedule', 'A line refers to a file that no earlier line names', {
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

/**
 * The schedule of one shard as lines that point to captures. A line names a capture file before its first request; requests
 * refer to the files by their order.
 */
import { PermanentError } from '../../../core/errors/errors.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import type { SourceFile } from '../../source/types.ts';

/** A capture file in S3, in the version that was planned. */
export interface CaptureObject extends SourceFile {
  bucket: string;
  etag: string;
  versionId?: string;
}

interface FileLine {
  file: Omit<CaptureObject, 'path'>;
}

/** Returns the lines of one shard. */
export function scheduleText(files: readonly CaptureObject[], entries: readonly ScheduledEntry[]): string {
  const known = new Map<number, number>();
  const lines: (FileLine | ScheduledEntry)[] = [];
  for (const one of entries) {
    const file = known.get(one.entry.file) ?? known.size;
    if (file === known.size) {
      const { path: _, ...named } = files[one.entry.file] as CaptureObject;
      lines.push({ file: named });
      known.set(one.entry.file, file);
    }
    lines.push({ ...one, entry: { ...one.entry, file } });
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
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
    const parsed = JSON.parse(line) as FileLine | ScheduledEntry;
    if ('file' in parsed) {
      files.push({ ...parsed.file, path: '' });
      continue;
    }
    if (parsed.entry.file >= files.length) {
      throw new PermanentError('InvalidSchedule', 'A line refers to a file that no earlier line names', {
        got: line,
        where: `${where}, line ${i + 1}`,
      });
    }
    // JSON has no NaN, which is the due time without a schedule.
    entries.push({ ...parsed, dueMs: parsed.dueMs ?? Number.NaN });
  }
  return { files, entries };
}

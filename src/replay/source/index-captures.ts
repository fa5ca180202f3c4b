/** Indexes the records of capture files by their captured time. */
import type { ScannedLine } from '../../captures/lines/scan-lines.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../core/values/line-bound.ts';
import type { Marks } from '../marks/believe.ts';
import { scanFile } from './lines.ts';
import { peekLine } from './peek.ts';
import { SortedIndex } from './sorted-index.ts';
import type { CaptureWindow, OnSkipped, SourceFile } from './types.ts';

interface IndexOptions extends CaptureWindow {
  /** Skip a record without a readable time, since it cannot be scheduled. Otherwise it follows the record before it. */
  needsTime: boolean;
  onSkipped: OnSkipped;
  /** Yields the lines of the next file, if the files are not on the local disk. */
  scan?(): AsyncIterable<ScannedLine>;
  /** Called for every record that is kept. */
  onRecord?(): void;
  /**
   * Returns the reader of replay registrations, to leave out requests of earlier replays. Absent: all requests are
   * kept.
   */
  marks?(): Pick<Marks, 'runOf'>;
  signal?: AbortSignal;
}

/**
 * Finds every record of the files and sorts them by captured time, then file and line.
 *
 * @throws PermanentError `ReplayTooLarge`
 *
 * @example
 *     const index = await indexCaptures(files, { needsTime: true, onSkipped: warn });
 */
export async function indexCaptures(files: readonly SourceFile[], options: IndexOptions): Promise<SortedIndex> {
  const index = new SortedIndex();
  for (const [ordinal, file] of files.entries()) {
    try {
      await addFile(index, file, ordinal, options);
    } catch (error) {
      const { code, syscall, path } = error as NodeJS.ErrnoException;
      const isUnreadable = !options.scan && (path === file.path || syscall === 'read');
      // If the only file is unreadable, fail: the user asked for it.
      if (!isUnreadable || files.length === 1) throw error;
      const message = `The capture file could not be read; got: ${code}`;
      options.onSkipped({ file: file.name, line: 0, reason: 'CaptureUnreadable', message });
    }
  }
  return index;
}

async function addFile(index: SortedIndex, file: SourceFile, ordinal: number, options: IndexOptions): Promise<void> {
  const from = options.fromMs ?? Number.NEGATIVE_INFINITY;
  const to = options.toMs ?? Number.POSITIVE_INFINITY;
  let lastMs = 0;
  const marks = options.marks?.();
  for await (const { bytes, line, start, length } of options.scan?.() ?? scanFile(file.path)) {
    options.signal?.throwIfAborted();
    const skip = (reason: string, message: string): void =>
      options.onSkipped({ file: file.name, line, reason, message });
    if (bytes === undefined) {
      skip('LineTooLong', `The line is too long; got: ${length} bytes; expected: at most ${DEFAULT_MAX_LINE_BYTES}`);
      continue;
    }
    const peek = peekLine(bytes, options.needsTime);
    if (peek.kind === 'skipped') {
      skip(peek.reason, peek.message);
      continue;
    }
    if (peek.marked !== undefined && (await marks?.runOf(peek.marked)) !== undefined) {
      skip('SentByReplay', 'The request was sent by an earlier replay');
      continue;
    }
    const timeMs = Number.isNaN(peek.timeMs) ? lastMs : peek.timeMs;
    lastMs = timeMs;
    if (timeMs < from || timeMs >= to) continue;
    options.onRecord?.();
    index.add({ timeMs, file: ordinal, line, start, length });
  }
}

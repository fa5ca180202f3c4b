/** Where captured requests come from. */

/** A capture file that can be read from the local disk: the user's own, or the spooled copy of an S3 object. */
export interface SourceFile {
  /** Path to read. */
  path: string;
  /** What people know it by, and what records are sorted by: the path as given, or the S3 key. */
  name: string;
  /** There for S3 objects. */
  bucket?: string;
  size: number;
}

/** Where one record is and when it was captured: all that is held of it until its time comes near. */
export interface IndexEntry {
  /** Captured time, epoch ms. */
  timeMs: number;
  /** Ordinal of the file in the list of files. */
  file: number;
  /** Physical line number, from 1. */
  line: number;
  /** Byte range without the line ending. */
  start: number;
  length: number;
}

/** A line that is not replayed, and why. */
export interface SkippedLine {
  file: string;
  line: number;
  /** Short and stable, counted in the summary: `NotJson`, `NoRequest`, `UnknownEncoding`, … */
  reason: string;
  message: string;
}

/** Reads the lines of records. */
export interface LineReader {
  /** The line's bytes, valid for as long as they are held. At once when they are in memory, else a promise. */
  read(entry: IndexEntry): Buffer | Promise<Buffer>;
  /** Told what will be read next, in that order; for those that read from afar. */
  expect?(entries: readonly IndexEntry[]): void;
  close(): Promise<void>;
}

/** @param pass which repetition of the captures it was met in, from 0 */
export type OnSkipped = (skipped: SkippedLine, pass?: number) => void;

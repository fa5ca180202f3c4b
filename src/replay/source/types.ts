/** Types of the sources of captured requests. */
import type { ScannedLine } from '../../captures/lines/scan-lines.ts';

/** A capture file on the local disk: the user's file, or the local copy of an S3 object. */
export interface SourceFile {
  /** Path to read. */
  path: string;
  /** The name that users know, by which records are sorted: the path as given, or the S3 key. */
  name: string;
  /** Present for S3 objects. */
  bucket?: string;
  size: number;
}

/** Range of captured times to read, epoch ms. `fromMs` is inclusive, `toMs` exclusive. */
export interface CaptureWindow {
  fromMs?: number;
  toMs?: number;
}

/** The location of a record and its captured time, which is all that is kept until the record is due. */
export interface IndexEntry extends Pick<ScannedLine, 'line' | 'start' | 'length'> {
  /** Captured time, epoch ms. */
  timeMs: number;
  /** Ordinal of the file in the list of files. */
  file: number;
}

/** A line that is not replayed, and why. */
export interface SkippedLine {
  file: string;
  line: number;
  /** A short stable name, counted in the summary: `NotJson`, `NoRequest`, `UnknownEncoding`, … */
  reason: string;
  message: string;
}

/** Reason why a line cannot be replayed. */
export type Skipped = { kind: 'skipped' } & Pick<SkippedLine, 'reason' | 'message'>;

/** @param pass repetition of the captures in which the line was found, from 0. */
export type OnSkipped = (skipped: SkippedLine, pass?: number) => void;

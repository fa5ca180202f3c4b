/** Reads the lines of a chunk with their places, for the processor. */
import type { ObjectVersion } from '../../core/contract/execution.ts';
import { RetryableError } from '../../core/errors/errors.ts';
import type { LinePlace, RawLine } from '../types.ts';
import { scanLines } from './scan-lines.ts';

/** The object, and the offset in it at which the stream begins. A `ManifestLine` is a source too. */
export interface LineSource extends ObjectVersion {
  /** Offset of the stream's first byte. */
  start: number;
  /** Offset of the stream's last byte. When given, a stream that ends early is an error. */
  end?: number;
  /** Physical number of the first line, from 1. */
  firstLine: number;
  objectTimeMs: number;
}

/** A line that is not blank. A line over the bound has its place only. */
export type LineRead = { kind: 'line'; raw: RawLine } | { kind: 'tooLong'; place: LinePlace };

/**
 * Yields the lines of a stream that are not blank, in order. A line over `maxLineBytes`, its ending not counted, is
 * reported without being held in memory.
 *
 * @throws RetryableError `StorageUnavailable` when the stream ends before `source.end`.
 *
 * @example
 *     for await (const line of readLines(bytes, source, { maxLineBytes })) {
 *       if (line.kind === 'line') judge(decodeLine(line.raw));
 *       else quarantine(line.place);
 *     }
 */
export async function* readLines(
  stream: AsyncIterable<Uint8Array>,
  source: LineSource,
  options: { maxLineBytes: number },
): AsyncGenerator<LineRead> {
  const { bucket, key, versionId, etag, objectTimeMs } = source;
  const complete = wholeStream(stream, source);
  const from = { offset: source.start, firstLine: source.firstLine };
  for await (const { bytes, line, start, length } of scanLines(complete, options.maxLineBytes, from)) {
    const place = { bucket, key, versionId, etag, line, start, end: start + length - 1, objectTimeMs };
    yield bytes === undefined ? { kind: 'tooLong', place } : { kind: 'line', raw: { bytes, place } };
  }
}

/** Passes the stream through. If it ends early, throws: a cut last line must not look like a whole line. */
async function* wholeStream(stream: AsyncIterable<Uint8Array>, source: LineSource): AsyncGenerator<Uint8Array> {
  let read = 0;
  for await (const piece of stream) {
    read += piece.byteLength;
    yield piece;
  }
  if (source.end === undefined || source.start + read > source.end) return;
  throw new RetryableError('StorageUnavailable', 'The stream of the capture file ended early', {
    got: `${read} bytes`,
    expected: `${source.end - source.start + 1} bytes`,
    where: `s3://${source.bucket}/${source.key}, bytes ${source.start}-${source.end}`,
  });
}

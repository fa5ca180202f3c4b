/** Reads the lines of one chunk from S3 and decodes them. */

import { readLines } from '../../captures/lines/read-lines.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { type HeavyLine, type LightLine, LineDecoder, type LineReading } from './decode-lines.ts';
import { notTrafficIn } from './not-traffic.ts';
import { openRanges, type UnnumberedChunk } from './ranges.ts';

/** A line, or a range that cannot be read although others of the chunk can; with the ordinal of the range. */
type ChunkLine = { range: number } & (LightLine | HeavyLine | { kind: 'unread'; lines: number; fault: Error });

/**
 * Yields the non-blank lines of a chunk in order, decoded. A line identical to an earlier line of the chunk is marked
 * as its duplicate: both are counted, and they share one trace.
 *
 * @throws PermanentError `CaptureChanged`, `CaptureMissing`, `CaptureArchived` if the chunk has one range;
 *   RetryableError `StorageUnavailable`
 */
export async function* readChunk(
  storage: Storage,
  chunk: UnnumberedChunk,
  environment: LambdaEnvironment,
  { window, replay }: Pick<RunOptions, 'window' | 'replay'>,
  how: LineReading,
): AsyncGenerator<ChunkLine> {
  const work = { storage, workBucket: environment.WORK_BUCKET };
  const areExchanges = replay !== undefined;
  const decoder = new LineDecoder(environment, { experimentId: chunk.experimentId, window, areExchanges }, how);
  // A run over a replay judges the replay's own requests.
  const decide = areExchanges ? undefined : await notTrafficIn(work, environment.NOT_TRAFFIC);
  for await (const opened of openRanges(work, chunk)) {
    const { index: range } = opened;
    if (opened.fault !== undefined) {
      yield { kind: 'unread', range, lines: opened.range.lines, fault: opened.fault };
      continue;
    }
    const lines = readLines(opened.bytes, opened.range, { maxLineBytes: environment.MAX_LINE_BYTES });
    for await (const line of lines) {
      const decoded = await decoder.decode(line);
      if (decoded.kind !== 'heavy') yield { range, ...(await marked(decoded, decide)) };
      else yield { range, ...decoded, read: async () => marked(await decoded.read(), decide) };
    }
  }
}

async function marked(line: LightLine, decide?: Awaited<ReturnType<typeof notTrafficIn>>): Promise<LightLine> {
  if (line.kind !== 'capture') return line;
  return { ...line, notTraffic: await decide?.(line.capture, line.raw.place.key) };
}

/** Reads the lines of one chunk from S3 and decodes them. */

import { capturePathOf } from '../../captures/files/capture-path.ts';
import { readLines } from '../../captures/lines/read-lines.ts';
import { chosenId } from '../../captures/trace/build.ts';
import type { Storage, Work } from '../../core/aws/storage.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { firstMet, readExcluded, WINDOW } from '../../ledger/excluded.ts';
import { Marks } from '../../replay/marks/believe.ts';
import { type HeavyLine, type LightLine, LineDecoder, type LineReading } from './decode-lines.ts';
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
  const mark = areExchanges ? async (line: LightLine) => line : await markerOf(work, environment);
  for await (const opened of openRanges(work, chunk)) {
    const { index: range } = opened;
    if (opened.fault !== undefined) {
      yield { kind: 'unread', range, lines: opened.range.lines, fault: opened.fault };
      continue;
    }
    const lines = readLines(opened.bytes, opened.range, { maxLineBytes: environment.MAX_LINE_BYTES });
    for await (const line of lines) {
      const decoded = await decoder.decode(line);
      if (decoded.kind !== 'heavy') yield { range, ...(await mark(decoded)) };
      else yield { range, ...decoded, read: async () => mark(await decoded.read()) };
    }
  }
}

/** Returns a function that marks captures which are no traffic. It reads the excluded windows once. */
async function markerOf(work: Work, { NOT_TRAFFIC: rules }: Pick<LambdaEnvironment, 'NOT_TRAFFIC'>) {
  const windows = await readExcluded(work);
  const marks = new Marks(work.storage, work.workBucket);
  return async (line: LightLine): Promise<LightLine> => {
    if (line.kind !== 'capture') return line;
    const { attributes, inferenceTimeMs: timeMs } = line.capture;
    const { variant } = capturePathOf(line.raw.place.key);
    const about = { timeMs, variant, inferenceId: chosenId(line.capture), attributes };
    const run = await marks.runOf(line.capture);
    if (run !== undefined) return { ...line, notTraffic: { by: 'replay', name: run } };
    const rule = firstMet(rules, about);
    if (rule !== undefined) return { ...line, notTraffic: { by: 'rule', name: `rule ${rule.name}` } };
    return firstMet(windows, about) ? { ...line, notTraffic: { by: 'window', name: WINDOW } } : line;
  };
}

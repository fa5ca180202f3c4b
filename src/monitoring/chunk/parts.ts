/**
 * Processes a chunk in parts, to isolate a line that kills the function.
 *
 * The state machine passes each invocation the bounds of the remaining parts, and how often in a row the function was
 * killed on the first of them. The invocation halves the first part that many times, processes the first piece, and
 * returns the bounds of everything after it. A line that killed the function while it was alone is condemned: the next
 * invocation settles it without decoding its content. So a capture that kills the function costs at most 2⌈log₂ lines⌉ + 1
 * further invocations: for each halving the piece that was killed and the piece next to it, and one that settles the line.
 */

import { isOfOneFile } from '../../captures/files/capture-objects.ts';
import { readLines } from '../../captures/lines/read-lines.ts';
import type { LinePlace, QuarantineCause } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { CaptureRange, ChunkProgress, ChunkRequest, ManifestLine } from '../../core/contract/payloads.ts';
import type { PartFacts } from '../../core/contract/receipts.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { lineId, openRange } from './ranges.ts';

/** The reason for a line that killed the function while it was alone in its part. */
export const KILLED = {
  name: 'FunctionKilled',
  message:
    'The function was killed (by its memory limit, its time limit, or its host) each time it processed this line, the last time alone',
};

/** The reason for a line that a person excluded from a direct invocation. */
const LEFT_OUT = { name: 'LeftOut', message: 'The line was left out of a direct invocation (leaveOut)' };

export interface Part extends PartFacts {
  /** The part is a single line, and the function was killed on it. */
  condemned: boolean;
  /** An earlier attempt may have processed this part or some of it. */
  isRepeated: boolean;
  /** The progress that the state machine keeps when this part is done. */
  next: ChunkProgress;
}

/** Returns the part of the chunk that this invocation processes. */
export function partOf({ chunk, attempt, progress }: Pick<ChunkRequest, 'chunk' | 'attempt' | 'progress'>): Part {
  const { lines } = chunk;
  const kills = progress?.kills ?? 0;
  const [from = 0, first = lines, ...later] = progress?.bounds ?? [];
  let to = first;
  let halvings = kills;
  for (; halvings > 0 && to - from > 1; halvings -= 1) {
    later.unshift(to);
    to = from + Math.ceil((to - from) / 2);
  }
  const condemned = halvings > 0;
  // The pieces that were cut off on the way to a condemned line are joined again: one invocation may process them all.
  const bounds = condemned ? [to, lines] : [to, ...later];
  const more = to < lines;
  return {
    from,
    to,
    kills,
    condemned,
    isRepeated: attempt > 0 || kills > 0 || from > 0 || (progress?.waitSeconds ?? 0) > 0,
    next: { bounds: more ? bounds : [], kills: 0, more, attempts: 0, waitSeconds: 0 },
  };
}

/** Whether another run has processed lines of the chunk, and this one retries them. */
export const isRetry = ({ ranges }: Pick<ManifestLine, 'ranges'>): boolean =>
  ranges.some(({ answersIn = [] }) => answersIn.length > 0);

/** Returns the part as its receipt records it; nothing for a chunk that was never split. */
export function partFacts(request: ChunkRequest): { part?: PartFacts } {
  const { from, to, kills } = partOf(request);
  return kills === 0 && from === 0 && to === request.chunk.lines ? {} : { part: { from, to, kills } };
}

/**
 * Returns the part as a chunk with the same ranges, of which those outside the part have no lines. Scans the bytes for line
 * endings; keeps no line in memory and decodes none.
 *
 * @throws PermanentError `LineCountMismatch` when a range has fewer lines
 */
export async function chunkOfPart(
  storage: Storage,
  workBucket: string,
  chunk: ManifestLine,
  { from, to }: PartFacts,
): Promise<ManifestLine> {
  if (from === 0 && to === chunk.lines) return chunk;
  const ranges: CaptureRange[] = [];
  let before = 0;
  for (const range of chunk.ranges) {
    const lines = { from: Math.max(0, from - before), to: Math.min(range.lines, to - before) };
    before += range.lines;
    if (lines.from >= lines.to) {
      ranges.push({ ...range, lines: 0 });
      continue;
    }
    const part = linesOfRange(storage, workBucket, range, lines).catch((error: unknown) => {
      if (chunk.ranges.length === 1 || !isOfOneFile(error)) throw error;
      // Whoever reads the range meets the same fault.
      return { ...range, lines: lines.to - lines.from };
    });
    ranges.push(await part);
  }
  return { ...chunk, ranges, lines: to - from };
}

async function linesOfRange(
  storage: Storage,
  workBucket: string,
  range: CaptureRange,
  { from, to }: { from: number; to: number },
): Promise<CaptureRange> {
  if (from === 0 && to === range.lines) return range;
  let first: LinePlace | undefined;
  let { end } = range;
  let seen = 0;
  for await (const line of readLines(await openRange(storage, range, workBucket), range, { maxLineBytes: 0 })) {
    // With a bound of 0 bytes every line is too long, and is not read.
    if (line.kind !== 'tooLong') continue;
    if (seen === from) first = line.place;
    // The last part extends to the end of the range, so that lines beyond the planned number are noticed.
    if (seen === to - 1 && to < range.lines) end = line.place.end;
    seen += 1;
  }
  if (first === undefined) throw lineCountMismatch(range, seen);
  return { ...range, start: first.start, end, firstLine: first.line, lines: to - from };
}

export const lineCountMismatch = (range: CaptureRange, lines: number): PermanentError =>
  new PermanentError('LineCountMismatch', 'The number of lines in the capture file differs from the plan', {
    got: `${lines} lines`,
    expected: `${range.lines} lines`,
    where: `s3://${range.bucket}/${range.key}, bytes ${range.start}-${range.end}`,
  });

/**
 * Returns a function that gives the reason not to decode a line: it killed the function alone in this step or in an
 * earlier phase, or a person left it out.
 *
 * @param killed ids of the lines that killed the function alone in an earlier phase
 */
export function leftOut(
  request: ChunkRequest,
  killed: readonly string[] = [],
): (place: LinePlace) => QuarantineCause | undefined {
  const isKiller = new Set(killed);
  const excluded = new Set(request.leaveOut);
  const { condemned } = partOf(request);
  return (place) => {
    if (condemned || isKiller.has(lineId(place))) return KILLED;
    return excluded.has(place.line) ? LEFT_OUT : undefined;
  };
}

/**
 * A chunk in parts: what kills a function is halved until it stands alone.
 *
 * The state machine hands each invocation the bounds of the parts that are left, and how often in a row the function was
 * killed on the first of them. The invocation halves that one as often, handles its first piece and returns the bounds of
 * all that is left after it. A line that killed the function alone is condemned: the next invocation settles it without
 * looking at its content. So a capture that kills costs 2⌈log₂ lines⌉ + 1 further invocations at most: a piece that was
 * killed and the one beside it at each halving, and the one that settles it.
 */

import type { ChunkProgress, ChunkRequest, ManifestLine } from '../../contract/payloads.ts';
import type { PartFacts, QuarantineEntry } from '../../contract/receipts.ts';
import { readLines } from '../../formats/lines/read-lines.ts';
import type { LinePlace, QuarantineCause } from '../../formats/types.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { openChunk } from './kept-lines.ts';

/** Reason of a line that killed the function alone. */
export const KILLED = {
  name: 'FunctionKilled',
  message: 'The function was killed (its memory, its time, or its host) each time it handled this line, at last alone',
};

/** Reason of a line that a person has left out of a direct invocation. */
const LEFT_OUT = { name: 'LeftOut', message: 'The line was left out of a direct invocation (leaveOut)' };

export interface Part extends PartFacts {
  /** The one line of this part has killed the function alone. */
  condemned: boolean;
  /** An earlier attempt may have done this part, or some of it. */
  isRepeated: boolean;
  /** What the state machine keeps when this part is done. */
  next: ChunkProgress;
}

/** The part of the chunk that this invocation handles. */
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
  // What was cut off on the way to a condemned line is whole again: it may be handled in one invocation.
  const bounds = condemned ? [to, lines] : [to, ...later];
  const more = to < lines;
  return {
    from,
    to,
    kills,
    condemned,
    isRepeated: attempt > 0 || kills > 0 || from > 0,
    next: { bounds: more ? bounds : [], kills: 0, more },
  };
}

/** What the receipt says of the part; nothing where it is a chunk that was never cut. */
export function partFacts(request: ChunkRequest): { part?: PartFacts } {
  const { from, to, kills } = partOf(request);
  return kills === 0 && from === 0 && to === request.chunk.lines ? {} : { part: { from, to, kills } };
}

/**
 * The part as a chunk of its own: the bytes are looked through for lines, none is held or decoded.
 *
 * @throws PermanentError `LineCountMismatch` when the chunk has not so many lines
 */
export async function chunkOfPart(
  storage: Storage,
  workBucket: string,
  chunk: ManifestLine,
  { from, to }: PartFacts,
): Promise<ManifestLine> {
  if (from === 0 && to === chunk.lines) return chunk;
  const stream = await openChunk(storage, chunk, workBucket);
  let first: LinePlace | undefined;
  let end = chunk.end;
  let seen = 0;
  for await (const { place } of placesOf(stream, chunk)) {
    if (seen === from) first = place;
    // The last part goes to the chunk's end, so that lines over the number that was planned are noticed.
    if (seen === to - 1 && to < chunk.lines) end = place.end;
    seen += 1;
  }
  if (first === undefined) throw lineCountMismatch(chunk, seen);
  return { ...chunk, start: first.start, end, firstLine: first.line, lines: to - from };
}

export const lineCountMismatch = (chunk: ManifestLine, lines: number): PermanentError =>
  new PermanentError('LineCountMismatch', 'The chunk has another number of lines than was planned', {
    got: `${lines} lines`,
    expected: `${chunk.lines} lines`,
    where: `s3://${chunk.bucket}/${chunk.key}, bytes ${chunk.start}-${chunk.end}`,
  });

async function* placesOf(stream: AsyncIterable<Uint8Array>, chunk: ManifestLine): AsyncGenerator<{ place: LinePlace }> {
  for await (const line of readLines(stream, chunk, { maxLineBytes: 0 })) if (line.kind === 'tooLong') yield line;
}

/**
 * Lines that are not taken apart, and why: what killed the function alone in this step, what did so in an earlier one, and
 * what a person leaves out.
 *
 * @param quarantine what the log step has put there
 * @param killed first bytes of lines that killed an earlier phase alone
 */
export function leftOut(
  request: ChunkRequest,
  quarantine: readonly QuarantineEntry[] = [],
  killed: readonly number[] = [],
): (place: LinePlace) => QuarantineCause | undefined {
  const { condemned } = partOf(request);
  const gone = quarantine.filter(({ reason: { name } }) => name === KILLED.name || name === LEFT_OUT.name);
  const reasons = new Map([
    ...killed.map((start) => [start, KILLED] as const),
    ...gone.map(({ start, reason }) => [start, reason] as const),
  ]);
  const byHand = new Set(request.leaveOut);
  return ({ line, start }) =>
    reasons.get(start) ?? (condemned ? KILLED : undefined) ?? (byHand.has(line) ? LEFT_OUT : undefined);
}

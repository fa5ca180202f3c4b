/** Reads the captures of a chunk that may be judged, for EvaluateTraces and for the requests of a batch job. */

import type { Capture, LinePlace } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { NamedError, UnreadRange } from '../../core/contract/receipts.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { KILLED, type LineAtWork } from '../chunk/line-at-work.ts';
import type { KeptLine, LineBook } from '../write/line-book.ts';
import { tryToEvaluate } from './evaluate-trial.ts';
import { HeldCaptures } from './held-captures.ts';

interface Line extends KeptLine {
  traceId: string;
}

/** A distinct capture of the chunk. */
export interface ReadCapture extends Line {
  weight: number;
  /** Returns the capture; decodes it again if there was no room to keep it. */
  read(): Capture;
  /** The reason why the capture can be traced, but not judged. */
  onlyTraced?: NamedError | undefined;
}

interface ChunkCaptures {
  captures: ReadCapture[];
  /** Lines that are identical to one of the captures. */
  duplicates: Line[];
  /** Lines that must not be decoded here, because they killed the function alone or are too heavy. */
  condemned: (Line & { reason: NamedError })[];
  unread: UnreadRange[];
}

/**
 * Reads the chunk.
 *
 * @param atWork knows the lines that must not be decoded
 * @param book receives the lines that are no captures, where the step also traces them
 */
export async function readCaptures(
  { chunk, options }: ChunkRequest,
  { storage, environment }: { storage: Storage; environment: LambdaEnvironment },
  atWork: LineAtWork,
  book?: LineBook,
): Promise<ChunkCaptures> {
  const all: ChunkCaptures = { captures: [], duplicates: [], condemned: [], unread: [] };
  const leaveOut = (place: LinePlace) => atWork.reading(place);
  const how = { leaveOut, tryOut: tryToEvaluate, traces: book !== undefined };
  const held = new HeldCaptures();
  for await (const line of readChunk(storage, chunk, environment, options.window, how)) {
    const { range } = line;
    if (line.kind === 'unread') {
      all.unread.push({ range, lines: line.lines, error: toNamedError(line.fault) });
    } else if (line.kind === 'capture') {
      const { traceId, weight, duplicate, raw, onlyTraced, replay } = line;
      if (duplicate) all.duplicates.push({ traceId, range, raw });
      else all.captures.push({ traceId, range, raw, weight, read: held.hold(line), onlyTraced, replay });
    } else if (line.kind === 'outsideWindow') {
      book?.outsideWindow(range);
    } else {
      const { traceId, place, bytes, reason, tooHeavy } = line;
      const isCondemned = reason === KILLED || (tooHeavy && book === undefined);
      if (isCondemned && traceId !== undefined && bytes !== undefined) {
        all.condemned.push({ traceId, range, raw: { place, bytes }, reason });
      } else {
        book?.quarantine({ range, place, bytes }, reason);
      }
    }
  }
  for (const range of all.unread) book?.unread(range);
  return all;
}

/** Reads the captures of a part that may be judged, for EvaluateTraces and for the requests of a batch job. */

import type { Capture } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest, ManifestLine } from '../../core/contract/payloads.ts';
import type { NamedError, UnreadRange } from '../../core/contract/receipts.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { chunkOfPart, KILLED, leftOut, partOf } from '../chunk/parts.ts';
import type { KeptLine, LineBook } from '../write/line-book.ts';
import { tryToEvaluate } from './evaluate-trial.ts';
import { HeldCaptures } from './held-captures.ts';

interface Line extends KeptLine {
  traceId: string;
}

/** A distinct capture of the part. */
export interface ReadCapture extends Line {
  weight: number;
  /** Returns the capture; decodes it again if there was no room to keep it. */
  read(): Capture;
  /** The reason why the capture can be traced, but not judged. */
  onlyTraced?: NamedError | undefined;
}

interface PartCaptures {
  chunk: ManifestLine;
  captures: ReadCapture[];
  /** Lines that are identical to one of the captures. */
  duplicates: Line[];
  /** Lines that must not be decoded here, because they killed the function alone or are too heavy. */
  condemned: (Line & { reason: NamedError })[];
  unread: UnreadRange[];
}

/**
 * Reads the part of the chunk that the request is about.
 *
 * @param how.book receives the lines that are no captures, where the step also traces them
 * @param how.killed ids of the lines that killed the function alone in an earlier phase
 */
export async function readCaptures(
  request: ChunkRequest,
  { storage, environment }: { storage: Storage; environment: LambdaEnvironment },
  { book, killed }: { book?: LineBook | undefined; killed?: readonly string[] | undefined } = {},
): Promise<PartCaptures> {
  const chunk = await chunkOfPart(storage, environment.WORK_BUCKET, request.chunk, partOf(request));
  const part: PartCaptures = { chunk, captures: [], duplicates: [], condemned: [], unread: [] };
  const how = { leaveOut: leftOut(request, killed), tryOut: tryToEvaluate, traces: book !== undefined };
  const held = new HeldCaptures();
  for await (const line of readChunk(storage, chunk, environment, request.options.window, how)) {
    const { range } = line;
    if (line.kind === 'unread') {
      part.unread.push({ range, lines: line.lines, error: toNamedError(line.fault) });
    } else if (line.kind === 'capture') {
      const { traceId, weight, duplicate, raw, onlyTraced, replay } = line;
      if (duplicate) part.duplicates.push({ traceId, range, raw });
      else part.captures.push({ traceId, range, raw, weight, read: held.hold(line), onlyTraced, replay });
    } else if (line.kind === 'outsideWindow') {
      book?.outsideWindow(range);
    } else {
      const { traceId, place, bytes, reason, tooHeavy } = line;
      const isCondemned = reason === KILLED || (tooHeavy && book === undefined);
      if (isCondemned && traceId !== undefined && bytes !== undefined) {
        part.condemned.push({ traceId, range, raw: { place, bytes }, reason });
      } else {
        book?.quarantine({ range, place, bytes }, reason);
      }
    }
  }
  for (const range of part.unread) book?.unread(range);
  return part;
}

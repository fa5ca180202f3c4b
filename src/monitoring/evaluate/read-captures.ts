/** Reads the captures of a part that may be judged, for EvaluateTraces and for the requests of a batch job. */

import type { ChunkRequest, ManifestLine } from '../../contract/payloads.ts';
import type { NamedError, UnreadRange } from '../../contract/receipts.ts';
import type { Capture } from '../../formats/types.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { toNamedError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { chunkOfPart, KILLED, leftOut, partOf } from '../chunk/parts.ts';
import { lineId } from '../chunk/ranges.ts';
import { quarantineOfChunk } from '../receipts.ts';
import { tryToEvaluate } from './evaluate-trial.ts';
import { HeldCaptures } from './held-captures.ts';

interface Line {
  traceId: string;
  /** As `lineId` makes it. */
  id: string;
  /** The ordinal of its range in the chunk. */
  range: number;
  /** Of its file. */
  key: string;
}

interface PartCaptures {
  chunk: ManifestLine;
  /** The distinct captures of the part, each decoded when `read` is called if there was no room to keep it. */
  captures: (Line & { weight: number; read(): Capture })[];
  /** Lines that are identical to one of the captures. */
  duplicates: Line[];
  /** Lines that must not be decoded here, because they killed the function alone or are too heavy. */
  condemned: (Line & { reason: NamedError })[];
  /** Ids of the lines that the log step quarantined. Those that MLflow refused decode to a capture all the same. */
  quarantined: ReadonlySet<string>;
  unread: UnreadRange[];
}

/**
 * Reads the part of the chunk that the request is about.
 *
 * @param killed ids of the lines that killed the function alone in an earlier phase
 */
export async function readCaptures(
  request: ChunkRequest,
  { storage, environment }: { storage: Storage; environment: LambdaEnvironment },
  killed?: readonly string[],
): Promise<PartCaptures> {
  const bucket = environment.WORK_BUCKET;
  const chunk = await chunkOfPart(storage, bucket, request.chunk, partOf(request));
  const quarantine = await quarantineOfChunk(storage, bucket, request.run, chunk.chunk);
  const quarantined = new Set(quarantine.map(lineId));
  const part: PartCaptures = { chunk, captures: [], duplicates: [], condemned: [], quarantined, unread: [] };
  const how = { leaveOut: leftOut(request, quarantine, killed), tryOut: tryToEvaluate };
  const held = new HeldCaptures();
  for await (const line of readChunk(storage, chunk, environment, request.options.window, how)) {
    const { range } = line;
    if (line.kind === 'unread') {
      part.unread.push({ range, lines: line.lines, error: toNamedError(line.fault) });
    } else if (line.kind === 'capture') {
      const { traceId, weight, duplicate, raw } = line;
      const place = { traceId, range, id: lineId(raw.place), key: raw.place.key };
      if (duplicate) part.duplicates.push(place);
      else part.captures.push({ ...place, weight, read: held.hold(line) });
    } else if (line.kind === 'quarantine' && line.traceId !== undefined) {
      const { traceId, place, reason, tooHeavy } = line;
      if (reason === KILLED || tooHeavy) {
        part.condemned.push({ traceId, range, id: lineId(place), key: place.key, reason });
      }
    }
  }
  return part;
}

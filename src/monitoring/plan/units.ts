/** The steps of planning: a unit is planned whole or not at all, and names where to go on after it. */

import type { FailedFile } from '../../contract/receipts.ts';
import { type ChunkBounds, scanChunks } from '../../formats/lines/chunks.ts';
import { PermanentError, toNamedError } from '../../shared/errors.ts';
import type { ObjectFacts, Storage } from '../../shared/storage.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import type { UnnumberedChunk } from './retry-source.ts';

export interface PlannedUnit {
  /** Planning goes on behind this. */
  cursor: string;
  chunks: UnnumberedChunk[];
  /** There was no time to read the unit to its end; `chunks` is empty. */
  outOfTime: boolean;
  /** The file could not be read; `chunks` is empty. What is wrong with one file is no fault of the others. */
  failed?: FailedFile;
}

interface UnitLimits {
  maxLineBytes: number;
  /** Milliseconds left for reading. */
  deadlineMs(): number;
  /** Of a chunk; default as everywhere. */
  bounds?: ChunkBounds;
}

/** Objects read at a time: 10,000 small ones at 40 ms each take 50 s instead of 400 s. */
const OBJECTS_AT_ONCE = 8;

export async function* single<T>(value: T): AsyncGenerator<T> {
  yield value;
}

/** One unit per object, in the given order, several being read ahead. */
export async function* unitsOfObjects(
  storage: Storage,
  objects: AsyncIterable<ObjectFacts>,
  limits: UnitLimits,
): AsyncGenerator<PlannedUnit> {
  const ahead: Promise<PlannedUnit>[] = [];
  try {
    for await (const object of objects) {
      const unit = scanObject(storage, object, limits);
      // Awaited in order below; a failure must not count as unhandled until then.
      unit.catch(() => undefined);
      ahead.push(unit);
      if (ahead.length >= OBJECTS_AT_ONCE) yield await (ahead.shift() as Promise<PlannedUnit>);
    }
    while (ahead.length > 0) yield await (ahead.shift() as Promise<PlannedUnit>);
  } finally {
    await Promise.allSettled(ahead);
  }
}

async function scanObject(storage: Storage, object: ObjectFacts, limits: UnitLimits): Promise<PlannedUnit> {
  const unit: PlannedUnit = { cursor: object.key, chunks: [], outOfTime: false };
  if (object.size === 0) return unit;
  const timeout = AbortSignal.timeout(Math.max(1, limits.deadlineMs()));
  try {
    const stream = await storage.read(object, undefined, timeout);
    for await (const chunk of scanChunks(stream, limits.bounds ?? CHUNK_BOUNDS)) {
      // Blank lines alone make no chunk worth a child.
      if (chunk.lines === 0) continue;
      unit.chunks.push({
        bucket: object.bucket,
        key: object.key,
        versionId: object.versionId,
        etag: object.etag,
        start: chunk.start,
        end: chunk.end,
        firstLine: chunk.firstLine,
        lines: chunk.lines,
        experimentId: '',
        objectTimeMs: object.lastModifiedMs,
      });
    }
    return unit;
  } catch (error) {
    if (timeout.aborted) {
      const tooLarge = new PermanentError(
        'CaptureFileTooLarge',
        'One capture file takes longer to plan than a Lambda has',
        {
          got: `${object.size} bytes`,
          expected: 'a file of some tens of GB at most',
          where: `s3://${object.bucket}/${object.key}`,
        },
      );
      return { ...failedUnit(object, tooLarge), outOfTime: true };
    }
    return failedUnit(object, error);
  }
}

/** @throws what is no fault of the file */
function failedUnit({ bucket, key, versionId, etag }: Omit<FailedFile, 'error'>, error: unknown): PlannedUnit {
  if (!(error instanceof PermanentError)) throw error;
  const version = versionId === undefined ? {} : { versionId };
  const failed = { bucket, key, ...version, etag, error: toNamedError(error) };
  return { cursor: key, chunks: [], outOfTime: false, failed };
}

/** One unit per chunk, then one per file, as it is now; the cursor counts those already planned. */
export async function* unitsOfRetry(
  storage: Storage,
  chunks: AsyncIterable<UnnumberedChunk>,
  files: AsyncIterable<FailedFile>,
  done: number,
  limits: UnitLimits,
): AsyncGenerator<PlannedUnit> {
  let seen = 0;
  for await (const chunk of chunks) {
    seen += 1;
    if (seen > done) yield { cursor: String(seen), chunks: [chunk], outOfTime: false };
  }
  for await (const file of files) {
    seen += 1;
    if (seen > done) yield { ...(await scanAgain(storage, file, limits)), cursor: String(seen) };
  }
}

async function scanAgain(storage: Storage, file: FailedFile, limits: UnitLimits): Promise<PlannedUnit> {
  try {
    const object = await storage.head(file.bucket, file.key, file.versionId);
    if (object !== undefined) return await scanObject(storage, object, limits);
    const where = `s3://${file.bucket}/${file.key}`;
    throw new PermanentError('CaptureMissing', 'The capture file does not exist any more', { where });
  } catch (error) {
    return failedUnit(file, error);
  }
}

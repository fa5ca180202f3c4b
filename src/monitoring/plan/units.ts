/** The steps of planning. A unit is planned completely or not at all, and names the cursor to continue from. */

import { scanChunks } from '../../captures/lines/chunks.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import type { ListedFile } from '../../core/contract/input.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { FailedFile } from '../../core/contract/receipts.ts';
import { PermanentError, RetryableError, toNamedError } from '../../core/errors/errors.ts';
import { inOrder } from '../../core/process/concurrency.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import type { UnnumberedChunk } from '../chunk/ranges.ts';

export interface PlannedUnit {
  /** Planning continues after this. */
  cursor: string;
  /** Ranges that are packed into chunks with ranges of other units. */
  ranges: CaptureRange[];
  /** Experiment of the ranges. Empty: the experiment of the stack. */
  experimentId: string;
  /** A chunk of an earlier run. It stays one chunk, because the judge's answers are stored by chunk. */
  chunk?: UnnumberedChunk;
  /** The time ran out before the unit was read to its end; `ranges` is empty. */
  outOfTime: boolean;
  /** The run that processes the file; `ranges` is empty. */
  duplicateOf?: string;
  /** The file could not be read; `ranges` is empty. Other files are not affected. */
  failed?: FailedFile;
  /** The failure, if the file could not be read now, and may be later. */
  unavailable?: RetryableError;
  /** Chunks of an earlier run that need no retry, so that planning advances where there are many. */
  passedOver?: true;
}

/** Number of objects that are read at the same time: 300,000 small objects at 40 ms each take 6 minutes. */
export const OBJECTS_AT_ONCE = 32;

export const emptyUnit = (cursor: string): PlannedUnit => ({ cursor, ranges: [], experimentId: '', outOfTime: false });

/** Yields one unit per object, in the given order, and reads ahead. @param remainingMs time left for reading */
export const unitsOfObjects = (
  storage: Storage,
  objects: AsyncIterable<ObjectFacts> | Iterable<ObjectFacts>,
  remainingMs: () => number,
): AsyncGenerator<PlannedUnit> =>
  inOrder(OBJECTS_AT_ONCE, objects, (object) => scanObject(storage, object, remainingMs));

/**
 * Yields one unit per listed file, in this order, and reads ahead. The cursor is the number of files planned.
 *
 * @param find returns the object of a file, or the run that processes it
 */
export async function* unitsOfFiles(
  storage: Storage,
  files: readonly ListedFile[],
  done: number,
  remainingMs: () => number,
  find: (file: ListedFile) => Promise<ObjectFacts | { duplicateOf: string }>,
): AsyncGenerator<PlannedUnit> {
  let seen = done;
  const plan = async (file: ListedFile): Promise<PlannedUnit> => {
    try {
      const found = await find(file);
      return 'duplicateOf' in found ? { ...emptyUnit(''), ...found } : await scanObject(storage, found, remainingMs);
    } catch (error) {
      return failedUnit({ ...file, etag: file.etag ?? '' }, error);
    }
  };
  for await (const unit of inOrder(OBJECTS_AT_ONCE, files.slice(done), plan)) {
    seen += 1;
    yield { ...unit, cursor: String(seen) };
  }
}

export async function scanObject(
  storage: Storage,
  object: ObjectFacts,
  remainingMs: () => number,
): Promise<PlannedUnit> {
  const unit = emptyUnit(object.key);
  if (object.size === 0) return unit;
  const { bucket, key, versionId, etag, lastModifiedMs } = object;
  const timeout = AbortSignal.timeout(Math.max(1, remainingMs()));
  try {
    const stream = await storage.read(object, undefined, timeout);
    for await (const { start, end, firstLine, lines } of scanChunks(stream, CHUNK_BOUNDS)) {
      // A chunk of blank lines needs no child.
      if (lines === 0) continue;
      const place = { bucket, key, versionId, etag, objectTimeMs: lastModifiedMs };
      unit.ranges.push({ ...place, start, end, firstLine, lines });
    }
    return unit;
  } catch (error) {
    if (!timeout.aborted) return failedUnit(object, error);
    const message = 'Planning this capture file takes longer than a Lambda has';
    const [got, expected] = [`${object.size} bytes`, 'a file of a few tens of GB at most'];
    const facts = { got, expected, where: `s3://${bucket}/${key}` };
    return { ...failedUnit(object, new PermanentError('CaptureFileTooLarge', message, facts)), outOfTime: true };
  }
}

/** @throws an error that is not the file’s fault. S3 throttles whole prefixes, so planning waits for S3 as chunks do */
export function failedUnit({ bucket, key, versionId, etag }: Omit<FailedFile, 'error'>, error: unknown): PlannedUnit {
  const isUnavailable = error instanceof RetryableError && error.name === 'StorageUnavailable';
  const unavailable = isUnavailable ? error : undefined;
  if (unavailable === undefined && !(error instanceof PermanentError)) throw error;
  const failed = { bucket, key, versionId, etag, error: toNamedError(error) };
  return { ...emptyUnit(key), failed, ...(unavailable === undefined ? {} : { unavailable }) };
}

/** The steps of planning: a unit is planned whole or not at all, and names where to go on after it. */
import { scanChunks } from '../capture/lines.ts';
import type { ObjectFacts, Storage } from '../common/storage.ts';
import { CHUNK_BOUNDS } from './chunk-bounds.ts';
import type { UnnumberedChunk } from './retry-source.ts';

export interface PlannedUnit {
  /** Planning goes on behind this. */
  cursor: string;
  chunks: UnnumberedChunk[];
  /** There was no time to read the unit to its end; `chunks` is empty. */
  outOfTime: boolean;
}

export interface UnitLimits {
  maxLineBytes: number;
  /** Milliseconds left for reading. */
  deadlineMs(): number;
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
    for await (const chunk of scanChunks(stream, CHUNK_BOUNDS)) {
      // Blank lines alone make no chunk worth a child.
      if (chunk.lines === 0) continue;
      unit.chunks.push({
        bucket: object.bucket,
        key: object.key,
        ...(object.versionId === undefined ? {} : { versionId: object.versionId }),
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
    if (timeout.aborted) return { cursor: object.key, chunks: [], outOfTime: true };
    throw error;
  }
}

/** One unit per chunk; the cursor counts the chunks already planned. */
export async function* unitsOfChunks(
  chunks: AsyncIterable<UnnumberedChunk>,
  done: number,
): AsyncGenerator<PlannedUnit> {
  let seen = 0;
  for await (const chunk of chunks) {
    seen += 1;
    if (seen > done) yield { cursor: String(seen), chunks: [chunk], outOfTime: false };
  }
}

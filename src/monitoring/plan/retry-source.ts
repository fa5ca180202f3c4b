/** Finds the work of a retry: chunks of an earlier run, from its receipts, or lines, from its quarantine. */
import { isOfOneFile } from '../../captures/files/capture-objects.ts';
import { readLines } from '../../captures/lines/read-lines.ts';
import type { ObjectFacts, Storage, Work } from '../../core/aws/storage.ts';
import type { RetryInput, RetryWhat, RunOptions } from '../../core/contract/input.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { FailedFile, QuarantineEntry } from '../../core/contract/receipts.ts';
import { areaOf } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { inOrder } from '../../core/process/concurrency.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import { withRanges } from '../chunk/ranges.ts';
import { type ChunkState, readChunks, readPlanReceipts } from '../receipts.ts';
import { emptyUnit, failedUnit, type PlannedUnit, scanObject } from './units.ts';

/**
 * Returns the options of the earlier run, which a retry keeps unless its input overrides them. Quarantined lines
 * contain the options too: the lines outlive the plan of the run, and a direct invocation has no plan.
 *
 * @throws PermanentError `RunUnknown` when the work bucket contains nothing of that run
 */
export async function optionsOfRun(work: Work, { run, what }: RetryInput['retry']): Promise<RunOptions> {
  if (what === 'quarantined') {
    for await (const { entry } of quarantinedEntries(work, run)) return entry.options;
  }
  const last = (await Array.fromAsync(readPlanReceipts(work, run))).at(-1);
  if (last === undefined) {
    throw new PermanentError('RunUnknown', 'The work bucket contains no plan of a run of that name', {
      got: run,
      expected: 'the name of an execution of this state machine, within the lifecycle of runs/',
      where: `s3://${work.workBucket}/${areaOf('plan', run)}`,
    });
  }
  return last.options;
}

/** Returns whether the retry must run a chunk again. */
function isUndone({ log, evaluate }: ChunkState, what: RetryWhat, evaluated: boolean): boolean {
  const { counts } = evaluate.done ?? {};
  if (what === 'held') return counts !== undefined && counts.heldByBudget > 0;
  if (log.done === undefined) return true;
  return evaluated && (counts === undefined || counts.failed > 0);
}

/** Chunks that need no retry, after which planning may stop. */
const PASSED_OVER = 1_000;

/** Begins the cursor of a retry that has planned all chunks or lines, and this many files. */
const FILES_DONE = 'files ';

/**
 * Yields the units of a retry: the chunks or the lines of the earlier run, in its order, then the files that it could not plan, in their
 * current state.
 */
export async function* unitsOfRetry(
  work: Work,
  { retry }: RetryInput,
  original: RunOptions,
  cursor: string | undefined,
  remainingMs: () => number,
): AsyncGenerator<PlannedUnit> {
  const filesDone = cursor?.startsWith(FILES_DONE) ? Number(cursor.slice(FILES_DONE.length)) : undefined;
  if (filesDone === undefined) {
    const done = Number(cursor ?? 0);
    if (retry.what === 'quarantined') yield* quarantinedRanges(work, retry.run, done);
    else yield* retriedChunks(work, retry, original, done, remainingMs);
  }
  if (retry.what !== 'failed') return;
  let seen = 0;
  for await (const { failedFiles = [] } of readPlanReceipts(work, retry.run)) {
    for (const file of failedFiles) {
      seen += 1;
      if (seen > (filesDone ?? 0))
        yield { ...(await scanAgain(work.storage, file, remainingMs)), cursor: `${FILES_DONE}${seen}` };
    }
  }
}

/** @param done how many chunks of the earlier run were examined before, which is the cursor */
async function* retriedChunks(
  work: Work,
  { run, what }: RetryInput['retry'],
  original: RunOptions,
  done: number,
  remainingMs: () => number,
): AsyncGenerator<PlannedUnit> {
  const { storage } = work;
  const scanned = new Set<string>();
  for await (const { line, state } of readChunks(work, run, done)) {
    const unit = emptyUnit(String(line.chunk + 1));
    // The ranges that an attempt could not read, although it succeeded with others.
    const unread = new Map((state.log.done?.unread ?? []).map(({ range, error }) => [range, error]));
    const isWhole = isUndone(state, what, original.evaluate);
    if (!isWhole && (what === 'held' || unread.size === 0)) {
      if ((line.chunk + 1) % PASSED_OVER === 0) yield { ...unit, passedOver: true };
      continue;
    }
    const { chunk, ...rest } = await withRanges(work, line);
    const { experimentId } = rest;
    const { done: logged } = state.log;
    const isTraced = rest.traced ?? (unread.size === 0 && logged !== undefined && logged.refused === undefined);
    // The files that grew, by the range that was read too late. The only range of a chunk fails the attempt.
    const grown = new Map<CaptureRange, ObjectFacts>();
    for (const [index, range] of rest.ranges.entries()) {
      const error = rest.ranges.length === 1 ? state.log.failed?.error : unread.get(index);
      const file = error?.name === 'CaptureChanged' ? await grownFile(storage, range) : undefined;
      if (file !== undefined) grown.set(range, file);
    }
    for (const object of grown.values()) {
      if (scanned.has(object.key)) continue;
      scanned.add(object.key);
      // A part that ends between them examines the chunk again.
      yield { ...(await scanObject(storage, object, remainingMs)), experimentId, cursor: String(chunk) };
    }
    const ranges = rest.ranges.filter((range, index) => (isWhole || unread.has(index)) && !grown.has(range));
    const lines = ranges.reduce((total, range) => total + range.lines, 0);
    const retried = { ...rest, lines, ranges, ...(isTraced ? { traced: true as const } : {}) };
    yield { ...unit, experimentId, ...(ranges.length === 0 ? {} : { chunk: retried }) };
  }
}

async function scanAgain(storage: Storage, file: FailedFile, remainingMs: () => number): Promise<PlannedUnit> {
  try {
    const object = await storage.head(file.bucket, file.key, file.versionId);
    if (object !== undefined) return await scanObject(storage, object, remainingMs);
    const where = `s3://${file.bucket}/${file.key}`;
    throw new PermanentError('CaptureMissing', 'The capture file no longer exists', { where });
  } catch (error) {
    return failedUnit(file, error);
  }
}

/** Number of quarantine objects that are read at the same time. They contain the bytes of their lines. */
const QUARANTINE_READS = 4;

/** Yields the quarantined lines of a run, each with the key of its quarantine object, in the order of the chunks. */
export async function* quarantinedEntries(
  { storage, workBucket }: Work,
  run: string,
): AsyncGenerator<{ key: string; entry: QuarantineEntry }> {
  const objects = storage.list(workBucket, areaOf('quarantine', run));
  const read = async ({ key }: { key: string }) => ({
    key,
    entries: await storage.getJsonLines<QuarantineEntry>(workBucket, key),
  });
  for await (const { key, entries } of inOrder(QUARANTINE_READS, objects, read)) {
    for (const entry of entries) yield { key, entry };
  }
}

/**
 * Yields quarantined lines as ranges. Adjacent lines of a file share one.
 *
 * @param done how many ranges were examined before, which is the cursor
 */
async function* quarantinedRanges(work: Work, run: string, done: number): AsyncGenerator<PlannedUnit> {
  let seen = 0;
  let open: { range: CaptureRange; experimentId: string } | undefined;
  const closed = (): PlannedUnit[] => {
    if (open === undefined) return [];
    seen += 1;
    const { range, experimentId } = open;
    return seen > done ? [{ ...emptyUnit(String(seen)), ranges: [range], experimentId }] : [];
  };
  for await (const { key: object, entry } of quarantinedEntries(work, run)) {
    const { bucket, key, versionId, etag, line, start, end, experimentId, objectTimeMs } = entry;
    const keptIn = entry.base64 === undefined ? undefined : object;
    if (open !== undefined && open.range.keptIn === keptIn && isNext(open.range, entry)) {
      open.range.end = end;
      open.range.lines += 1;
      continue;
    }
    yield* closed();
    const place = { bucket, key, versionId, etag, start, end, firstLine: line, lines: 1 };
    open = { range: { ...place, objectTimeMs, keptIn }, experimentId };
  }
  yield* closed();
}

/** A line ending has one or two bytes, so a line is adjacent to a range if it starts that far after the range's end. */
const LONGEST_LINE_ENDING = 2;

function isNext(open: CaptureRange, entry: QuarantineEntry): boolean {
  const gap = entry.start - open.end - 1;
  return (
    entry.bucket === open.bucket &&
    entry.key === open.key &&
    entry.etag === open.etag &&
    entry.line === open.firstLine + open.lines &&
    gap >= 1 &&
    gap <= LONGEST_LINE_ENDING &&
    open.lines < CHUNK_BOUNDS.maxLines &&
    entry.end - open.start < CHUNK_BOUNDS.maxBytes
  );
}

/**
 * Returns the current version of the file if it still contains the lines of the range in their place. Returns
 * `undefined` if they are gone. S3 has no append, so a file that grew is another object under the same key. The earlier
 * content is not kept: lines that begin and end at the same bytes count as the same.
 */
async function grownFile(storage: Storage, range: CaptureRange): Promise<ObjectFacts | undefined> {
  const { bucket, key, start, end, lines } = range;
  const object = await storage.head(bucket, key);
  if (object === undefined || object.size <= end) return undefined;
  // One more byte shows whether the last line ends there.
  const source = { ...range, end: Math.min(end + 1, object.size - 1) };
  let found = 0;
  try {
    const bytes = await storage.read(object, { start, end: source.end });
    for await (const line of readLines(bytes, source, { maxLineBytes: 0 })) {
      const place = line.kind === 'line' ? line.raw.place : line.place;
      if (place.start > end) break;
      if (place.end > end) return undefined;
      found += 1;
    }
  } catch (error) {
    if (isOfOneFile(error)) return undefined;
    throw error;
  }
  return found === lines ? object : undefined;
}

/** Finds what a retry runs again: chunks of an earlier run, by its receipts, or lines, by its quarantine. */
import { isOfOneFile } from '../../captures/files/capture-objects.ts';
import { readLines } from '../../captures/lines/read-lines.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import type { RetryInput, RetryWhat, RunOptions } from '../../core/contract/input.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { FailedFile, PlanReceipt, QuarantineEntry } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { inOrder } from '../../core/process/concurrency.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import { withRanges } from '../chunk/ranges.ts';
import { type ChunkState, readChunks, readPlanReceipts } from '../receipts.ts';
import type { RetriedUnit } from './units.ts';

/**
 * Returns the options of the earlier run, which a retry keeps unless its input overrides them. Quarantined lines contain
 * them too: the lines outlive the plan of the run, and a direct invocation has no plan.
 *
 * @throws PermanentError `RunUnknown` when the work bucket contains nothing of that run
 */
export async function optionsOfRun(
  storage: Storage,
  workBucket: string,
  { run, what }: RetryInput['retry'],
): Promise<RunOptions> {
  if (what === 'quarantined') {
    for await (const { entry } of quarantinedEntries(storage, workBucket, run)) {
      if (entry.options !== undefined) return entry.options;
    }
  }
  let last: PlanReceipt | undefined;
  for await (const receipt of readPlanReceipts(storage, workBucket, run)) last = receipt;
  if (last === undefined) {
    throw new PermanentError('RunUnknown', 'The work bucket contains no plan of a run of that name', {
      got: run,
      expected: 'the name of an execution of this state machine, within the lifecycle of runs/',
      where: `s3://${workBucket}/${workKeys.planPrefix(run)}`,
    });
  }
  return last.options;
}

/** Returns whether the retry must run a chunk again. */
function isUndone({ log, evaluate }: ChunkState, what: Exclude<RetryWhat, 'quarantined'>, evaluated: boolean): boolean {
  const { counts } = evaluate.done ?? {};
  if (what === 'held') return counts !== undefined && counts.heldByBudget > 0;
  if (log.done === undefined) return true;
  return evaluated && (counts === undefined || counts.failed > 0);
}

/** Chunks that need no retry, after which planning may stop. */
const PASSED_OVER = 1_000;

/**
 * Yields the chunks or the lines that a retry runs again, in the order of the earlier run.
 *
 * @param done how many were examined before: chunks of the earlier run, or ranges of quarantined lines
 */
export async function* retriedUnits(
  storage: Storage,
  workBucket: string,
  { retry }: RetryInput,
  original: RunOptions,
  done: number,
): AsyncGenerator<RetriedUnit> {
  if (retry.what === 'quarantined') {
    let ranges = 0;
    for await (const unit of quarantinedRanges(storage, workBucket, retry.run)) {
      ranges += 1;
      if (ranges > done) yield { ...unit, seen: ranges };
    }
    return;
  }
  const scanned = new Set<string>();
  for await (const { line, state } of readChunks(storage, workBucket, retry.run, done)) {
    if (line === undefined) continue;
    const seen = line.chunk + 1;
    const unread = unreadRanges(state);
    const isWhole = isUndone(state, retry.what, original.evaluate);
    if (!isWhole && (retry.what === 'held' || unread.size === 0)) {
      if (seen % PASSED_OVER === 0) yield { seen, passedOver: true };
      continue;
    }
    const { chunk: _, ...rest } = await withRanges(storage, workBucket, line);
    const { done: logged } = state.log;
    const isTraced = rest.traced ?? (unread.size === 0 && logged !== undefined && logged.refused === undefined);
    const grown = await grownFiles(storage, state, rest.ranges);
    const ranges = rest.ranges.filter((range, index) => (isWhole || unread.has(index)) && !grown.has(range));
    const files = [...grown.values()].filter(({ key }) => !scanned.has(key));
    for (const { key } of files) scanned.add(key);
    const lines = ranges.reduce((total, range) => total + range.lines, 0);
    const retried = { ...rest, lines, ranges, ...(isTraced ? { traced: true as const } : {}) };
    yield { seen, files, experimentId: rest.experimentId, ...(ranges.length === 0 ? {} : { chunk: retried }) };
  }
}

/** Returns the files that grew, by the range of the chunk that was read too late. */
async function grownFiles(
  storage: Storage,
  state: ChunkState,
  ranges: readonly CaptureRange[],
): Promise<Map<CaptureRange, ObjectFacts>> {
  const grown = new Map<CaptureRange, ObjectFacts>();
  for (const index of overwrittenRanges(state, ranges)) {
    const range = ranges[index];
    const file = range && (await grownFile(storage, range));
    if (range !== undefined && file !== undefined) grown.set(range, file);
  }
  return grown;
}

/** Returns the ordinals of the ranges that an attempt could not read, although it succeeded with others. */
const unreadRanges = ({ log }: ChunkState): ReadonlySet<number> =>
  new Set((log.done?.unread ?? []).map(({ range }) => range));

/** Yields the capture files that the earlier run could not plan. */
export async function* failedFiles(storage: Storage, workBucket: string, run: string): AsyncGenerator<FailedFile> {
  for await (const plan of readPlanReceipts(storage, workBucket, run)) yield* plan.failedFiles ?? [];
}

/** Quarantine objects that are read at the same time. They contain the bytes of their lines. */
const QUARANTINE_READS = 4;

/** Yields the quarantined lines of a run, each with the key of its quarantine object, in the order of the chunks. */
export async function* quarantinedEntries(
  storage: Storage,
  workBucket: string,
  run: string,
): AsyncGenerator<{ key: string; entry: QuarantineEntry }> {
  const objects = storage.list(workBucket, workKeys.quarantinePrefix(run));
  const read = async ({ key }: { key: string }) => {
    return { key, entries: await storage.getJsonLines<QuarantineEntry>(workBucket, key) };
  };
  for await (const { key, entries } of inOrder(QUARANTINE_READS, objects, read)) {
    for (const entry of entries) yield { key, entry };
  }
}

/** Yields quarantined lines as ranges. Adjacent lines of a file share one. */
async function* quarantinedRanges(
  storage: Storage,
  workBucket: string,
  run: string,
): AsyncGenerator<Omit<RetriedUnit, 'seen'>> {
  let open: { range: CaptureRange; experimentId: string } | undefined;
  for await (const { key: object, entry } of quarantinedEntries(storage, workBucket, run)) {
    const { bucket, key, versionId, etag, line, start, end, cutAt, experimentId, objectTimeMs } = entry;
    const keptIn = entry.base64 === undefined ? undefined : object;
    if (open !== undefined && open.range.keptIn === keptIn && isNext(open.range, entry)) {
      open.range.end = end;
      open.range.lines += 1;
      continue;
    }
    if (open !== undefined) yield unitOf(open);
    const place = { bucket, key, versionId, etag, start, end, cutAt, firstLine: line, lines: 1 };
    open = { range: { ...place, objectTimeMs, keptIn }, experimentId };
  }
  if (open !== undefined) yield unitOf(open);
}

const unitOf = ({ range, experimentId }: { range: CaptureRange; experimentId: string }): Omit<RetriedUnit, 'seen'> => ({
  ranges: [range],
  experimentId,
});

/** A line ending has one or two bytes, so a line is adjacent to the range if it starts that far after its end. */
const LONGEST_LINE_ENDING = 2;

function isNext(open: CaptureRange, entry: QuarantineEntry): boolean {
  const gap = entry.start - open.end - 1;
  return (
    entry.bucket === open.bucket &&
    entry.key === open.key &&
    entry.etag === open.etag &&
    entry.cutAt === open.cutAt &&
    entry.line === open.firstLine + open.lines &&
    gap >= 1 &&
    gap <= LONGEST_LINE_ENDING &&
    open.lines < CHUNK_BOUNDS.maxLines &&
    entry.end - open.start < CHUNK_BOUNDS.maxBytes
  );
}

const CHANGED = 'CaptureChanged';

/** Returns the ordinals of the ranges whose file was overwritten before they were read. @param ranges of the chunk */
function overwrittenRanges({ log }: ChunkState, ranges: readonly CaptureRange[]): ReadonlySet<number> {
  // The only range of a chunk fails the attempt.
  if (ranges.length === 1) return new Set(log.failed?.error?.name === CHANGED ? [0] : []);
  return new Set((log.done?.unread ?? []).filter(({ error }) => error.name === CHANGED).map(({ range }) => range));
}

/**
 * Returns the file as it is now, if the lines of the range are still in their place; `undefined` if they are gone. S3
 * has no append, so a file that grew is another object under the same key. Nobody has kept the earlier content: lines
 * that begin and end at the same bytes count as the same.
 */
async function grownFile(storage: Storage, range: CaptureRange): Promise<ObjectFacts | undefined> {
  const { bucket, key, start, end, lines } = range;
  const object = await storage.head(bucket, key);
  if (object === undefined || object.size <= end) return undefined;
  // One byte more shows whether the last line ends there.
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

/** Finds what a retry runs again: chunks of an earlier run, by its receipts, or lines, by its quarantine. */

import type { RetryInput, RetryWhat, RunOptions } from '../../contract/input.ts';
import type { ManifestLine } from '../../contract/payloads.ts';
import type { FailedFile, PlanReceipt, QuarantineEntry } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import {
  type ChunkState,
  chunkStates,
  emptyChunkState,
  partsDone,
  readManifest,
  readPlanReceipts,
} from '../receipts.ts';

/** A manifest line without a number in the new run yet. */
export type UnnumberedChunk = Omit<ManifestLine, 'chunk'>;

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
    for await (const { entry } of quarantineOf(storage, workBucket, run)) {
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
function isUndone(
  state: ChunkState,
  lines: number,
  what: Exclude<RetryWhat, 'quarantined'>,
  evaluated: boolean,
): boolean {
  const evaluations = partsDone(state.evaluate, lines);
  if (what === 'held') return evaluations.parts.some(({ counts }) => counts.heldByBudget > 0);
  if (!partsDone(state.log, lines).whole) return true;
  if (!evaluated) return false;
  return !evaluations.whole || evaluations.parts.some(({ counts }) => counts.failed > 0);
}

/** Yields the chunks or the lines that a retry runs again, in the order of the earlier run. */
export async function* retryChunks(
  storage: Storage,
  workBucket: string,
  { retry }: RetryInput,
  original: RunOptions,
): AsyncGenerator<UnnumberedChunk> {
  if (retry.what === 'quarantined') {
    yield* quarantinedChunks(storage, workBucket, retry.run);
    return;
  }
  const states = await chunkStates(storage, workBucket, retry.run);
  for await (const { chunk, ...rest } of readManifest(storage, workBucket, retry.run)) {
    if (isUndone(states.get(chunk) ?? emptyChunkState(), rest.lines, retry.what, original.evaluate)) yield rest;
  }
}

/** Yields the capture files that the earlier run could not plan. */
export async function* failedFiles(storage: Storage, workBucket: string, run: string): AsyncGenerator<FailedFile> {
  for await (const plan of readPlanReceipts(storage, workBucket, run)) yield* plan.failedFiles ?? [];
}

async function* quarantineOf(
  storage: Storage,
  workBucket: string,
  run: string,
): AsyncGenerator<{ key: string; entry: QuarantineEntry }> {
  for await (const { key } of storage.list(workBucket, workKeys.quarantinePrefix(run))) {
    for (const entry of await storage.getJsonLines<QuarantineEntry>(workBucket, key)) yield { key, entry };
  }
}

/** Yields quarantined lines as ranges. Adjacent lines of a file share one, so that 10,000 lines are not 10,000 chunks. */
async function* quarantinedChunks(storage: Storage, workBucket: string, run: string): AsyncGenerator<UnnumberedChunk> {
  let open: UnnumberedChunk | undefined;
  for await (const { key: object, entry } of quarantineOf(storage, workBucket, run)) {
    const { bucket, key, versionId, etag, line, start, end, experimentId, objectTimeMs } = entry;
    const keptIn = entry.base64 === undefined ? undefined : object;
    if (open !== undefined && open.keptIn === keptIn && isNext(open, entry)) {
      open.end = end;
      open.lines += 1;
      continue;
    }
    if (open !== undefined) yield open;
    const place = { bucket, key, versionId, etag, start, end, firstLine: line, lines: 1 };
    open = { ...place, experimentId, objectTimeMs, keptIn };
  }
  if (open !== undefined) yield open;
}

/** A line ending has one or two bytes, so a line is adjacent to the range if it starts that far after its end. */
const LONGEST_LINE_ENDING = 2;

function isNext(open: UnnumberedChunk, entry: QuarantineEntry): boolean {
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

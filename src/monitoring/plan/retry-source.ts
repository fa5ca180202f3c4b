/** What a retry runs again: chunks of an earlier run, by its receipts, or lines, by its quarantine. */

import type { RetryInput, RetryWhat, RunOptions } from '../../contract/input.ts';
import type { ManifestLine } from '../../contract/payloads.ts';
import type { FailedFile, PlanReceipt, QuarantineEntry } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';
import { entriesOf } from '../chunk/kept-lines.ts';
import {
  type ChunkState,
  chunkStates,
  emptyChunkState,
  partsDone,
  readManifest,
  readPlanReceipts,
} from '../receipts.ts';

/** A manifest line that has no number in the new run yet. */
export type UnnumberedChunk = Omit<ManifestLine, 'chunk'>;

/**
 * The options of the earlier run, which a retry keeps unless it says otherwise (its window above all). Quarantined lines
 * carry them: they outlive the run's plan, and those of a direct invocation never had one.
 *
 * @throws PermanentError `RunUnknown` when the work bucket holds nothing of that run.
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
    throw new PermanentError('RunUnknown', 'No run of that name has left a plan in the work bucket', {
      got: run,
      expected: 'the name of an execution of this state machine, within the lifecycle of runs/',
      where: `s3://${workBucket}/${workKeys.planPrefix(run)}`,
    });
  }
  return last.options;
}

/** Whether a chunk is to be run again. */
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

/** Chunks or lines that a retry runs again, in the order of the earlier run. */
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

/** Capture files that the earlier run could not plan. */
export async function* failedFiles(storage: Storage, workBucket: string, run: string): AsyncGenerator<FailedFile> {
  for await (const plan of readPlanReceipts(storage, workBucket, run)) yield* plan.failedFiles ?? [];
}

async function* quarantineOf(
  storage: Storage,
  workBucket: string,
  run: string,
): AsyncGenerator<{ key: string; entry: QuarantineEntry }> {
  for await (const { key } of storage.list(workBucket, workKeys.quarantinePrefix(run))) {
    const stored = await storage.getText(workBucket, key);
    for (const entry of entriesOf(stored?.text ?? '', `s3://${workBucket}/${key}`)) yield { key, entry };
  }
}

/** Quarantined lines as ranges; neighbours in a file are one range, so that 10,000 bad lines are not 10,000 chunks. */
async function* quarantinedChunks(storage: Storage, workBucket: string, run: string): AsyncGenerator<UnnumberedChunk> {
  let open: UnnumberedChunk | undefined;
  for await (const { key, entry } of quarantineOf(storage, workBucket, run)) {
    const kept = entry.base64 === undefined ? {} : { keptIn: key };
    if (open !== undefined && open.keptIn === kept.keptIn && continues(open, entry)) {
      open.end = entry.end;
      open.lines += 1;
      continue;
    }
    if (open !== undefined) yield open;
    open = {
      bucket: entry.bucket,
      key: entry.key,
      versionId: entry.versionId,
      etag: entry.etag,
      start: entry.start,
      end: entry.end,
      firstLine: entry.line,
      lines: 1,
      experimentId: entry.experimentId,
      objectTimeMs: entry.objectTimeMs,
      ...kept,
    };
  }
  if (open !== undefined) yield open;
}

/** Line endings have one or two bytes: a line that starts at most that far behind the range is its neighbour. */
const LONGEST_LINE_ENDING = 2;

function continues(open: UnnumberedChunk, entry: QuarantineEntry): boolean {
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

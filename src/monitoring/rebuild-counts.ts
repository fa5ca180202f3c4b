/** Adds up runs from their receipts, and writes their counts. */

import type { Work } from '../core/aws/storage.ts';
import type { QualityCounts, QualityFailures } from '../core/contract/quality.ts';
import type { Receipt } from '../core/contract/receipts.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { PipelineError } from '../core/errors/errors.ts';
import { forEachConcurrently } from '../core/process/concurrency.ts';
import { maxByMagnitude } from '../quality/count-tree.ts';
import { dayOf, readCounts, writeCounts } from '../quality/counts-store.ts';
import { daysWithCounts } from '../quality/day-objects.ts';
import { RunSums } from '../quality/run-sums.ts';
import { type ChunkState, readChunks } from './receipts.ts';

/** Runs that are read at the same time. Each has requests of its own in flight. */
const RUNS_AT_ONCE = 4;

export type RebuiltCounts = Awaited<ReturnType<typeof rebuildCounts>>;

/**
 * @param isInside whether a day (UTC, such as `2026-11-20`) is to be rebuilt
 * @param writes `false`: only says which runs would be added up again
 */
export async function rebuildCounts(work: Work, isInside: (day: string) => boolean, writes = true) {
  const { storage, workBucket: bucket } = work;
  const daysOfRuns = new Map<string, string[]>();
  const days = (await daysWithCounts(storage, bucket)).map(({ day }) => day).filter(isInside);
  for await (const { run, day, hours } of readCounts(storage, bucket, days)) {
    if (Object.keys(hours).length > 0) daysOfRuns.set(run, [...(daysOfRuns.get(run) ?? []), day]);
  }
  const rebuilt: string[] = [];
  const kept = new Map([...daysOfRuns.keys()].map((run) => [run, 'its receipts are gone']));
  await forEachConcurrently(RUNS_AT_ONCE, runsIn(work), async (run) => {
    const before = daysOfRuns.get(run) ?? [];
    // A run that ends from now on knows more, and its own counts are the later ones.
    const readMs = Date.now();
    const { counts, missing } = await countsOf(work, run);
    if (missing !== undefined) {
      if (before.length > 0) kept.set(run, missing);
      return;
    }
    kept.delete(run);
    const hours = Object.entries(counts).filter(([hour]) => isInside(dayOf(hour)));
    if (hours.length === 0 && before.length === 0) return;
    rebuilt.push(run);
    if (writes) await writeCounts(storage, bucket, run, Object.fromEntries(hours), before, readMs);
  });
  return {
    /** Runs that were added up again, in order. */
    rebuilt: rebuilt.toSorted(),
    /** Runs that have counts, which are kept, but whose receipts are gone or incomplete: why, by run. */
    kept: Object.fromEntries(kept),
  };
}

/** Lists the runs that have left objects. */
async function* runsIn({ storage, workBucket }: Work): AsyncGenerator<string> {
  const all = workKeys.runPrefix('').slice(0, -1);
  const objects = storage.list(workBucket, all);
  let last: string | undefined;
  for (let next = await objects.next(); !next.done; ) {
    const [run = ''] = next.value.key.slice(all.length).split('/');
    if (run !== last) yield run;
    last = run;
    next = await objects.next(`${workKeys.runPrefix(run)}\uffff`);
  }
}

/** @returns `missing`: why the receipts do not tell all that the run has done */
async function countsOf(work: Work, run: string): Promise<{ counts: QualityCounts; missing?: string }> {
  const sums = new RunSums();
  const { counts } = sums;
  let [chunks, planned, without] = [0, 0, 0];
  try {
    for await (const { line, state } of readChunks(work, run)) {
      chunks += 1;
      if (line !== undefined) planned += 1;
      if (state.receipts.length === 0) without += 1;
      // A direct invocation has receipts without a plan.
      sums.add(qualityOfChunk(state));
    }
  } catch (error) {
    if (!(error instanceof PipelineError)) throw error;
    return { counts, missing: `${error.name}: ${error.message}` };
  }
  if (chunks === without) return { counts, missing: 'its receipts are gone' };
  if (without > 0) return { counts, missing: `${without} of its ${chunks} chunks have no receipt` };
  const isOrphaned = planned === 0 && (await work.storage.head(work.workBucket, workKeys.summary(run))) !== undefined;
  return isOrphaned ? { counts, missing: 'its plan is gone' } : { counts };
}

// --------------------------------------------------------------------------------------------------------- a chunk
// What a run has done with it: from the receipts of its attempts, each of which reports all attempts so far.

export function qualityOfChunk({ log, evaluate, receipts }: ChunkState): QualityCounts {
  // What failed attempts have written is in MLflow. Each knows a part of it.
  const knowing = (step: Receipt['step'], done?: Receipt): Receipt[] =>
    done === undefined ? receipts.filter((receipt) => receipt.step === step) : [done];
  const counts: QualityCounts = {};
  // Where the captures of a run are traced without its judge after all, both steps know them.
  for (const { quality = {} } of [...knowing('evaluate', evaluate.done), ...knowing('log', log.done)]) {
    maxByMagnitude(counts, quality);
  }
  return counts;
}

/** Returns the captures that failed an objective, as each attempt knew them. */
export const failuresOfChunk = ({ log, evaluate }: ChunkState): QualityFailures[] =>
  [log.done, log.failed, evaluate.done, evaluate.failed].flatMap((receipt) =>
    receipt?.failures ? [receipt.failures] : [],
  );

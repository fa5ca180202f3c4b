/**
 * Summarizes a run chunk by chunk: memory does not grow with the run, and the work can be divided among several
 * invocations.
 */

import type { Work } from '../core/aws/storage.ts';
import type { BatchReport, NamedError, Receipt } from '../core/contract/receipts.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { inOrder } from '../core/process/concurrency.ts';
import { maxByMagnitude } from '../quality/count-tree.ts';
import { RunSums, type RunSumsState } from '../quality/run-sums.ts';
import { withRanges } from './chunk/ranges.ts';
import { type ChunkState, readChunks, readPlanReceipts } from './receipts.ts';
import { type RunSummary, SummaryBuilder } from './summary.ts';

/** Time reserved to write the sums of a part, or the whole summary. */
const FINISH_RESERVE_MS = 60_000;

/** Number of chunks whose ranges are read at the same time, if the manifest does not contain them. */
const CHUNKS_AT_ONCE = 16;

interface SummaryOptions {
  /** Number of this part, from 0; by default the whole run is one part. */
  part?: number;
  /** The time for it. */
  remainingMs?(): number;
  /** The run goes on: only chunks that are done count. */
  isRunning?: boolean;
}

/** The sums of the parts of a summary so far. */
interface SummaryState {
  summary: RunSummary;
  quality: RunSumsState;
  /** The chunk to continue with. */
  next: number;
}

/**
 * Sums up a run from its objects in the work bucket; the counts of the endpoint come from its rows. If the time is
 * short, it stores the sums and stops.
 *
 * @param quality receives the run's counts, and its observations of the objectives
 * @returns a summary with the status `unfinished` if another part follows, or if the run goes on
 *
 * @example
 *     const summary = await summarizeRun({ storage, workBucket }, { name: 'r1', startTime: '2026-11-20T09:00:00Z' });
 */
export async function summarizeRun(
  work: Work,
  run: { name: string; startTime: string },
  error?: NamedError,
  { part = 0, remainingMs = () => Infinity, isRunning = false }: SummaryOptions = {},
  quality = new RunSums(),
): Promise<RunSummary> {
  const { storage, workBucket } = work;
  const { name } = run;
  const key = (next: number): string => workKeys.summaryState(name, next);
  const earlier = part === 0 ? undefined : await storage.getJson<SummaryState>(workBucket, key(part));
  const summary = new SummaryBuilder(run, error, earlier?.summary);
  if (earlier !== undefined) quality.restore(earlier.quality);
  else for await (const plan of readPlanReceipts(work, name)) summary.addPlan(plan);
  const chunks = readChunks(work, name, earlier?.next);
  const withPlaces = inOrder(CHUNKS_AT_ONCE, chunks, async ({ line, state }) => ({
    line: await withRanges(work, line),
    state,
  }));
  for await (const { line, state } of withPlaces) {
    summary.addSpend(state);
    const { done } = summary.sums.options?.evaluate ? state.evaluate : state.log;
    if (isRunning && done === undefined) continue;
    summary.addChunk(line, state);
    addWork(quality, state);
    quality.experimentId = line.experimentId;
    if (remainingMs() > FINISH_RESERVE_MS) continue;
    const sums = { summary: summary.sums, quality, next: line.chunk + 1 } satisfies SummaryState;
    await storage.putJson(workBucket, key(part + 1), sums);
    return { ...sums.summary, status: 'unfinished' };
  }
  summary.addBatch(await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(name)));
  return isRunning ? { ...summary.build(), status: 'unfinished' } : summary.build();
}

// --------------------------------------------------------------------------------------------------- quality of chunks
// What a run has done with a chunk: from the receipts of its attempts, each of which reports all attempts so far.

function addWork(sums: RunSums, { log, evaluate, receipts }: ChunkState): void {
  // The verdicts of failed attempts are in MLflow. Each receipt has a part of them.
  const knowing = (step: Receipt['step'], done?: Receipt): Receipt[] =>
    done === undefined ? receipts.filter((receipt) => receipt.step === step) : [done];
  const work: Required<Pick<Receipt, 'quality' | 'series'>> = { quality: {}, series: {} };
  // If a run with a judge traces captures without it in the end, the receipts of both steps have them.
  for (const { quality = {}, series = {} } of [...knowing('evaluate', evaluate.done), ...knowing('log', log.done)]) {
    maxByMagnitude(work, { quality, series });
  }
  sums.add(work.quality);
  sums.observe(work.series);
  for (const receipt of [log.done, log.failed, evaluate.done, evaluate.failed]) sums.fail(receipt?.failures ?? {});
}

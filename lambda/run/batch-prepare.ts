/** The first phase of a chunk under batch inference: its requests are written, and their money is set aside. */
import { capturePathOf } from '../capture/capture-path.ts';
import type { Capture } from '../capture/types.ts';
import { type ChunkRequest, workKeys } from '../contract.ts';
import type { BatchRecord } from '../judge/batch/record.ts';
import type { Budget, Deposit } from '../judge/budget.ts';
import type { JudgeScorer } from '../judge/types.ts';
import { readChunk } from './chunk-reader.ts';
import type { EvaluateDependencies } from './evaluate-chunk.ts';
import { pendingVerdicts } from './pending-verdicts.ts';

/**
 * Chunks whose requests go into one job. Bedrock takes 50,000 records a job for most models (its quota "Records per
 * batch inference job"), and a chunk has 500 at most.
 */
const CHUNKS_PER_JOB = 100;

export const groupOf = (chunk: number): number => Math.floor(chunk / CHUNKS_PER_JOB);

/** What `prepareChunk` leaves for the start of the jobs and for the second phase. */
export interface PreparedChunk {
  records: number;
  /** The most that the chunk's answers can cost, set aside; absent where no budget is set. */
  deposit?: Deposit;
  /** Traces that the budget left no room for. */
  held: string[];
}

export interface PrepareDependencies
  extends Pick<EvaluateDependencies, 'storage' | 'store' | 'scorers' | 'environment' | 'always'> {
  /** Absent when no budget is set. */
  limit?: Budget;
  record(traceId: string, capture: Capture, scorers: readonly JudgeScorer[]): BatchRecord;
  /** The most that a record's answer can cost at the price of batch inference; `null` when it is not known. */
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
}

/**
 * Writes the judge's requests of a chunk as a file of a batch job's input. Nothing is written to MLflow yet. Made again
 * after a failure, it takes the place of what the attempt before has left.
 */
export async function prepareChunk(request: ChunkRequest, deps: PrepareDependencies): Promise<PreparedChunk> {
  const deposit = depositName(request.run, request.chunk.chunk);
  try {
    await deps.limit?.dropDeposit(deposit);
    return await prepare(request, deps, deposit);
  } catch (error) {
    // Nothing will be asked of what was set aside so far.
    await deps.limit?.closeWithDeposit(deposit).catch(() => undefined);
    await deps.limit?.dropDeposit(deposit).catch(() => undefined);
    throw error;
  }
}

async function prepare(request: ChunkRequest, deps: PrepareDependencies, deposit: string): Promise<PreparedChunk> {
  const { storage, store, environment, scorers, always, limit } = deps;
  const { run, chunk, options } = request;
  const { variant } = capturePathOf(chunk.key);
  const captures = new Map<string, Capture>();
  for await (const line of readChunk(storage, chunk, environment, options.window)) {
    if (line.kind === 'capture' && !line.duplicate) captures.set(line.traceId, line.capture);
  }
  const stored = await store.getTraces(chunk.experimentId, [...captures.keys()]);
  const prepared: PreparedChunk = { records: 0, held: [] };
  const lines: string[] = [];
  for (const [traceId, capture] of captures) {
    const isAlways = always(capture, { variant }) !== undefined;
    const { judge } = pendingVerdicts(traceId, capture, stored.get(traceId), scorers, options, run, isAlways);
    if (judge.length === 0) continue;
    if (limit !== undefined && !(await limit.setAside(deps.maxCostUsd(capture, judge) ?? 0))) {
      prepared.held.push(traceId);
      continue;
    }
    lines.push(`${JSON.stringify(deps.record(traceId, capture, judge))}\n`);
  }
  prepared.records = lines.length;
  const bucket = environment.WORK_BUCKET;
  if (lines.length > 0) {
    const key = workKeys.batchInput(run, groupOf(chunk.chunk), chunk.chunk);
    await storage.putText(bucket, key, lines.join(''), 'application/jsonlines');
  }
  // The answers may come hours later, when no lease of a Lambda is left.
  if (limit !== undefined) prepared.deposit = await limit.closeWithDeposit(deposit);
  await storage.putJson(bucket, workKeys.batchPrepared(run, chunk.chunk), prepared);
  return prepared;
}

/** Told apart from the leases of Lambdas by its slash. */
const depositName = (run: string, chunk: number): string => `batch/${run}/${chunk}`;

/** The two phases of a chunk under batch inference: its requests are written, later its answers are read. */
import { capturePathOf } from '../capture/capture-path.ts';
import type { Capture } from '../capture/types.ts';
import { PermanentError } from '../common/errors.ts';
import type { Storage } from '../common/storage.ts';
import { type BatchReport, type ChunkRequest, workKeys } from '../contract.ts';
import { readBatchAnswers } from '../judge/batch/answers.ts';
import { type BatchRecord, recordIdOf } from '../judge/batch/record.ts';
import type { Told } from '../judge/transport.ts';
import type { Judge, JudgeScorer } from '../judge/types.ts';
import { readChunk } from './chunk-reader.ts';
import type { EvaluateDependencies, JudgeOfTrace, SpendingLimit } from './evaluate-chunk.ts';
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
  /** US dollars booked on the budget by trace: the most that its batch answer can cost. */
  booked: Record<string, number>;
  /** Traces that the budget left no room for. */
  held: string[];
}

export interface PrepareDependencies
  extends Pick<EvaluateDependencies, 'storage' | 'store' | 'scorers' | 'environment' | 'always' | 'limit'> {
  record(traceId: string, capture: Capture, scorers: readonly JudgeScorer[]): BatchRecord;
  /** The most that a record's answer can cost at the price of batch inference; `null` when it is not known. */
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
}

/** Writes the judge's requests of a chunk as a file of a batch job's input. Nothing is written to MLflow yet. */
export async function prepareChunk(request: ChunkRequest, deps: PrepareDependencies): Promise<PreparedChunk> {
  const { storage, store, environment, scorers, always, limit } = deps;
  const { run, chunk, options } = request;
  const { variant } = capturePathOf(chunk.key);
  const captures = new Map<string, Capture>();
  for await (const line of readChunk(storage, chunk, environment, options.window)) {
    if (line.kind === 'capture' && !line.duplicate) captures.set(line.traceId, line.capture);
  }
  const stored = await store.getTraces(chunk.experimentId, [...captures.keys()]);
  const prepared: PreparedChunk = { records: 0, booked: {}, held: [] };
  const lines: string[] = [];
  for (const [traceId, capture] of captures) {
    const isAlways = always(capture, { variant }) !== undefined;
    const { judge } = pendingVerdicts(traceId, capture, stored.get(traceId), scorers, options, run, isAlways);
    if (judge.length === 0) continue;
    const maxUsd = deps.maxCostUsd(capture, judge) ?? 0;
    const reservation = await limit?.reserve(maxUsd);
    if (reservation === 'held') {
      prepared.held.push(traceId);
      continue;
    }
    // The answer may come hours later, when no reservation of a Lambda is left: the most it can cost is booked now.
    await reservation?.settle(maxUsd);
    prepared.booked[traceId] = maxUsd;
    lines.push(`${JSON.stringify(deps.record(traceId, capture, judge))}\n`);
  }
  await limit?.close();
  prepared.records = lines.length;
  const bucket = environment.WORK_BUCKET;
  if (lines.length > 0) {
    const key = workKeys.batchInput(run, groupOf(chunk.chunk), chunk.chunk);
    await storage.putText(bucket, key, lines.join(''), 'application/jsonlines');
  }
  await storage.putJson(bucket, workKeys.batchPrepared(run, chunk.chunk), prepared);
  return prepared;
}

/** Jobs that ended so may lack records; what a job that ended otherwise lacks, it lacks as a whole. */
const ENDED_WITH_ANSWERS = new Set(['Completed', 'PartiallyCompleted']);

/**
 * The second phase's judge and limit for each trace of a chunk: its answer from the batch job where there is one, a
 * call at the usual price where there is none.
 *
 * @param judgeWith makes the judge that answers first with what the job said
 * @throws PermanentError `JudgeBatchFailed` when the chunk's job failed without an answer
 */
export async function batchAnswers(
  { run, chunk }: ChunkRequest,
  deps: {
    storage: Storage;
    workBucket: string;
    limit: SpendingLimit | undefined;
    judgeWith(answer: Told | undefined): Judge;
  },
): Promise<JudgeOfTrace> {
  const { storage, workBucket, limit, judgeWith } = deps;
  const prepared = await storage.getJson<PreparedChunk>(workBucket, workKeys.batchPrepared(run, chunk.chunk));
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const job = report?.jobs.find(({ group }) => group === groupOf(chunk.chunk));
  let answers = new Map<string, Told>();
  if (job !== undefined && (prepared?.records ?? 0) > 0) {
    const jobId = job.arn.split('/').at(-1) ?? '';
    const output = await storage.getText(workBucket, workKeys.batchOutput(run, jobId, chunk.chunk));
    answers = readBatchAnswers(output?.text ?? '');
    if (output === undefined && !ENDED_WITH_ANSWERS.has(job.status)) {
      throw new PermanentError(
        'JudgeBatchFailed',
        'The batch job ended without an answer; retry the run’s failed chunks',
        {
          got: `${job.status}${job.message ? `: ${job.message}` : ''}`,
          expected: 'Completed',
          where: job.arn,
        },
      );
    }
  }
  const held = new Set(prepared?.held);
  return (traceId) => {
    const answer = answers.get(recordIdOf(traceId));
    const judge = judgeWith(answer);
    if (limit === undefined) return { judge };
    return { judge, limit: limitOf(limit, prepared?.booked[traceId], held.has(traceId), answer !== undefined) };
  };
}

/** What was booked in the first phase is not booked again; a call in place of an answer costs what goes beyond it. */
function limitOf(
  limit: SpendingLimit,
  booked: number | undefined,
  isHeld: boolean,
  isAnswered: boolean,
): SpendingLimit {
  return {
    async reserve(maxUsd) {
      if (isHeld) return 'held';
      if (isAnswered) return { settle: async () => undefined };
      const reservation = await limit.reserve(Math.max(0, maxUsd - (booked ?? 0)));
      if (reservation === 'held') return 'held';
      return { settle: (usd) => reservation.settle(Math.max(0, usd - (booked ?? 0))) };
    },
    close: async () => undefined,
  };
}

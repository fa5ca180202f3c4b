/** The second phase of a chunk in batch inference: reads the answers of the job, and accounts for their cost. */

import type { ChunkRequest } from '../../contract/payloads.ts';
import type { BatchReport, JudgeSpend } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { readBatchAnswers } from '../../judge/batch/answers.ts';
import type { Budget } from '../../judge/budget/leased-budget.ts';
import type { ModelAnswer } from '../../judge/model-answer.ts';
import { allInputTokens } from '../../judge/pricing/call-amounts.ts';
import type { Judge } from '../../judge/types.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { addSpend, emptySpend } from '../counts.ts';
import type { BatchAnswers } from '../evaluate/types.ts';
import { fileOfChunk } from './packing.ts';
import type { PreparedChunk } from './prepare.ts';

type BatchJob = BatchReport['jobs'][number];

/** The statuses of a job that Bedrock refused, and of one that waits for a place. Accepted jobs have a status of Bedrock’s. */
export const REFUSED_JOB = 'Refused';
export const WAITING_JOB = 'Waiting';

/** A job with this status may lack single records. A job with any other status has no answers at all. */
const ENDED_WITH_ANSWERS = new Set(['Completed', 'PartiallyCompleted']);

/**
 * Returns the judge and the limit of the second phase for each trace of a chunk. The judge uses the answer
 * of the batch job if it exists, and otherwise a call at the usual price. The deposit of the chunk is settled at the cost of
 * the answers, even without answers.
 *
 * @returns answers whose `of` throws PermanentError `JudgeBatchFailed` when the job of the chunk ended without any, or when its
 *   requests were never prepared
 */
export async function batchAnswers(
  { run, chunk }: ChunkRequest,
  deps: {
    storage: Storage;
    workBucket: string;
    limit: Budget | undefined;
    judge: Judge;
    priceOf(answer: ModelAnswer): number | null;
  },
): Promise<BatchAnswers> {
  const { storage, workBucket, limit, judge, priceOf } = deps;
  const prepared = await storage.getJson<PreparedChunk>(workBucket, workKeys.batchPrepared(run, chunk.chunk));
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const outputOf = (ordinal: number): Promise<string | undefined> =>
    readOutput(run, fileOfChunk(report, ordinal), deps);

  const job = fileOfChunk(report, chunk.chunk)?.job;
  const text = prepared?.records ? await outputOf(chunk.chunk) : '';
  const answers = ownAnswers(text ?? '', prepared);
  // Lines that this chunk shares with other chunks: their jobs asked about them, and their receipts report the cost.
  const shared = new Map<string, ModelAnswer>();
  for (const other of new Set(Object.values(prepared?.elsewhere ?? {}))) {
    for (const [id, answer] of readBatchAnswers((await outputOf(other)) ?? '')) shared.set(id, answer);
  }
  const spendOf = (answer: ModelAnswer): JudgeSpend => ({
    calls: 1,
    inputTokens: allInputTokens(answer.usage),
    outputTokens: answer.usage.outputTokens,
    usd: priceOf(answer),
  });
  const spend = emptySpend();
  for (const answer of answers.values()) addSpend(spend, spendOf(answer));
  // The cost of all answers is booked once, with the first deposit.
  for (const [index, deposit] of (prepared?.deposits ?? []).entries()) {
    await limit?.settleDeposit(deposit, index === 0 ? (spend.usd ?? 0) : 0);
  }
  const held = new Set(prepared?.held);
  const isCopy = copies(prepared);
  return {
    spend,
    killed: prepared?.killed ?? [],
    of(traceId) {
      if (prepared === undefined) throw notPrepared(chunk.chunk);
      if (job !== undefined && text === undefined) throw withoutAnswer(job);
      if (held.has(traceId)) return { judge, limit: { reserve: async () => 'held' } };
      const record = prepared.asked[traceId] ?? '';
      const answer = answers.get(record) ?? shared.get(record);
      return { judge, limit, ...(answer && { answer, paid: spendOf(answer), isCopy: isCopy.has(traceId) }) };
    },
  };
}

/** Returns the traces whose request was made for another trace. */
function copies(prepared: PreparedChunk | undefined): Set<string> {
  const made = new Set<string>();
  const others = new Set(Object.keys(prepared?.elsewhere ?? {}));
  for (const [traceId, record] of Object.entries(prepared?.asked ?? {})) {
    if (made.has(record)) others.add(traceId);
    if (!others.has(traceId)) made.add(record);
  }
  return others;
}

/** @returns the answers to the chunk’s own requests; those of other chunks are in the same file */
function ownAnswers(text: string, prepared: PreparedChunk | undefined): Map<string, ModelAnswer> {
  const ids = new Set(prepared?.ids);
  return new Map([...readBatchAnswers(text)].filter(([id]) => ids.has(id)));
}

/** @returns the output of the job for a file of requests; `undefined` when the job produced none */
async function readOutput(
  run: string,
  place: ReturnType<typeof fileOfChunk>,
  { storage, workBucket }: { storage: Storage; workBucket: string },
): Promise<string | undefined> {
  if (place === undefined) return undefined;
  const { job, first } = place;
  const jobId = job.arn.split('/').at(-1);
  const output = jobId ? await storage.getText(workBucket, workKeys.batchOutput(run, jobId, first)) : undefined;
  // A job that ended with answers may lack the file whose records all failed.
  return output?.text ?? (ENDED_WITH_ANSWERS.has(job.status) ? '' : undefined);
}

const notPrepared = (chunk: number): PermanentError =>
  new PermanentError(
    'JudgeBatchFailed',
    'The requests of the chunk were not prepared; retry the failed chunks of the run',
    {
      where: `chunk ${chunk}`,
    },
  );

function withoutAnswer({ arn, status, message }: BatchJob): PermanentError {
  const facts = { got: `${status}${message ? `: ${message}` : ''}`, expected: 'Completed', where: arn || undefined };
  const advice = 'retry the failed chunks of the run';
  return status === REFUSED_JOB
    ? new PermanentError('JudgeBatchRefused', `Bedrock refused the batch job; ${advice}`, facts)
    : new PermanentError('JudgeBatchFailed', `The batch job ended without an answer; ${advice}`, facts);
}

/** The last phase of a chunk in batch inference: reads the answers of the jobs, and accounts for their cost. */

import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { BatchReport, JudgeSpend } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { readBatchAnswers } from '../../judge/batch/answers.ts';
import type { BatchJudging } from '../../judge/connect.ts';
import type { ModelAnswer } from '../../judge/model-answer.ts';
import { allInputTokens } from '../../judge/pricing/call-amounts.ts';
import type { Judge, JudgeMoney } from '../../judge/types.ts';
import type { Budget } from '../../limits/budget.ts';
import { addSpend, emptySpend } from '../counts.ts';
import type { BatchAnswers } from '../evaluate/types.ts';
import { fileOfChunk } from './packing.ts';
import type { PreparedChunk } from './prepare.ts';

type BatchJob = BatchReport['jobs'][number];

/** The statuses of a job that Bedrock refused, and of one that waits for a place. Accepted jobs have a status of Bedrock’s. */
export const REFUSED_JOB = 'Refused';
export const WAITING_JOB = 'Waiting';

/** How to continue. */
const ADVICE = 'retry the failed chunks of the run';

/** A job with this status may lack single records. A job with any other status has no answers at all. */
const ENDED_WITH_ANSWERS = new Set(['Completed', 'PartiallyCompleted']);

interface AnswerDependencies {
  storage: Storage;
  workBucket: string;
  limit: Budget | undefined;
  judge: Judge;
  priceOf: BatchJudging['priceOf'];
}

/** Money for a trace that the budget had no room for. */
const HELD: JudgeMoney = { limit: { reserve: async () => 'held' } };

/**
 * Returns the judge and the limit of the last phase for each trace of a chunk. The judge uses the answers of the batch jobs
 * where they exist, and otherwise a call at the usual price, as for what the first model of a cascade leaves open. The deposits
 * of the chunk are settled at the cost of the answers, even without answers.
 *
 * @returns answers whose `of` throws PermanentError `JudgeBatchFailed` when the job of the chunk ended without any, or when its
 *   requests were never prepared
 */
export async function batchAnswers({ run, chunk }: ChunkRequest, deps: AnswerDependencies): Promise<BatchAnswers> {
  const { storage, workBucket, judge, limit, priceOf } = deps;
  const prepared = await storage.getJson<PreparedChunk>(workBucket, workKeys.batchPrepared(run, chunk.chunk));
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const outputOf = (ordinal: number): Promise<string | undefined> =>
    readOutput(run, fileOfChunk(report, ordinal), deps);

  const job = fileOfChunk(report, chunk.chunk)?.job;
  const text = prepared?.records ? await outputOf(chunk.chunk) : '';
  const answers = ownAnswers(text ?? '', prepared);
  const spendOf = ({ usage }: ModelAnswer, usd: number | null): JudgeSpend => ({
    calls: 1,
    inputTokens: allInputTokens(usage),
    outputTokens: usage.outputTokens,
    usd,
  });
  const spend = emptySpend();
  for (const answer of answers.values()) addSpend(spend, spendOf(answer, priceOf(answer)));
  // The cost of all answers is booked once, with the first deposit.
  for (const [index, deposit] of (prepared?.deposits ?? []).entries()) {
    await limit?.settleDeposit(deposit, index === 0 ? (spend.usd ?? 0) : 0);
  }
  // Lines that this chunk shares with other chunks: their jobs asked about them, and their receipts report the cost.
  for (const other of new Set(Object.values(prepared?.elsewhere ?? {}))) {
    for (const [id, answer] of readBatchAnswers((await outputOf(other)) ?? ''))
      if (!answers.has(id)) answers.set(id, answer);
  }
  const isCopy = copies(prepared);
  const held = new Set(prepared?.held);
  const failure = failureOf(chunk.chunk, prepared, report, text === undefined ? job : undefined);
  return {
    spend,
    of(traceId) {
      if (failure !== undefined) throw failure;
      if (held.has(traceId)) return { judge, money: HELD };
      const answer = answers.get(prepared?.asked[traceId] ?? '');
      if (answer === undefined) return { judge, money: { limit } };
      if (!isCopy.has(traceId)) return { judge, money: { limit, answer }, paid: spendOf(answer, priceOf(answer)) };
      const free = { ...answer, usage: { inputTokens: 0, outputTokens: 0, batch: true } };
      return { judge, money: { limit, answer: free }, paid: spendOf(free, 0) };
    },
  };
}

/** @param without the job of the chunk, if it ended without an answer */
function failureOf(
  chunk: number,
  prepared: PreparedChunk | undefined,
  report: BatchReport | undefined,
  without: BatchJob | undefined,
): PermanentError | undefined {
  const where = `chunk ${chunk}`;
  const named = (what: string) => new PermanentError('JudgeBatchFailed', `${what}; ${ADVICE}`, { where });
  if (prepared === undefined) return named('The requests of the chunk were not prepared');
  if (report === undefined || report.packing !== undefined) return named('The batch jobs of the run were not started');
  return without && withoutAnswer(without);
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

function withoutAnswer({ arn, status, message }: BatchJob): PermanentError {
  const facts = { got: `${status}${message ? `: ${message}` : ''}`, expected: 'Completed', where: arn || undefined };
  return status === REFUSED_JOB
    ? new PermanentError('JudgeBatchRefused', `Bedrock refused the batch job; ${ADVICE}`, facts)
    : new PermanentError('JudgeBatchFailed', `The batch job ended without an answer; ${ADVICE}`, facts);
}

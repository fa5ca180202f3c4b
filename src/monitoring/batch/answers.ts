/** The second phase of a chunk under batch inference: the job's answers are read, and their money is accounted for. */

import type { ChunkRequest } from '../../contract/payloads.ts';
import type { BatchReport, JudgeSpend } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { readBatchAnswers } from '../../judge/batch/answers.ts';
import { recordIdOf } from '../../judge/batch/record.ts';
import type { Budget } from '../../judge/budget/leased-budget.ts';
import type { ModelAnswer } from '../../judge/model-answer.ts';
import { allInputTokens } from '../../judge/pricing/call-amounts.ts';
import type { Judge } from '../../judge/types.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import type { BatchAnswers } from '../evaluate/evaluate-chunk.ts';
import { addSpend, emptySpend } from '../receipts.ts';
import { groupOf, type PreparedChunk } from './prepare.ts';

type BatchJob = BatchReport['jobs'][number];

/** Status of a job that Bedrock did not take; its own begin when it has. */
export const REFUSED_JOB = 'Refused';

/** Jobs that ended so may lack records; what a job that ended otherwise lacks, it lacks as a whole. */
const ENDED_WITH_ANSWERS = new Set(['Completed', 'PartiallyCompleted']);

/**
 * The second phase's judge and limit for each trace of a chunk: its answer from the batch job where there is one, a
 * call at the usual price where there is none. The chunk's deposit is settled at what the answers cost, none included.
 *
 * @returns answers whose `of` throws PermanentError `JudgeBatchFailed` when the chunk's job ended without any
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
  const job = report?.jobs.find(({ group }) => group === groupOf(chunk.chunk));
  const text = job === undefined || !prepared?.records ? '' : await outputOf(run, chunk.chunk, job, deps);
  const answers = readBatchAnswers(text ?? '');
  const elsewhere = await answersElsewhere(run, prepared, report, deps);
  const spendOf = (answer: ModelAnswer): JudgeSpend => ({
    calls: 1,
    inputTokens: allInputTokens(answer.usage),
    outputTokens: answer.usage.outputTokens,
    usd: priceOf(answer),
  });
  const spend = emptySpend();
  for (const answer of answers.values()) addSpend(spend, spendOf(answer));
  // What all answers cost is booked once: with the end of the first.
  for (const [index, deposit] of (prepared?.deposits ?? []).entries()) {
    await limit?.settleDeposit(deposit, index === 0 ? (spend.usd ?? 0) : 0);
  }
  const held = new Set(prepared?.held);
  return {
    spend,
    killed: prepared?.killed ?? [],
    of(traceId) {
      if (job !== undefined && text === undefined) throw withoutAnswer(job);
      if (held.has(traceId)) return { judge, limit: { reserve: async () => 'held' } };
      const told = answers.get(recordIdOf(traceId)) ?? elsewhere.get(recordIdOf(traceId));
      return { judge, limit, ...(told === undefined ? {} : { told, paid: spendOf(told) }) };
    },
  };
}

/** Answers to lines that this chunk shares with others, whose jobs have asked for them and whose receipts tell their cost. */
async function answersElsewhere(
  run: string,
  prepared: PreparedChunk | undefined,
  report: BatchReport | undefined,
  deps: { storage: Storage; workBucket: string },
): Promise<Map<string, ModelAnswer>> {
  const found = new Map<string, ModelAnswer>();
  for (const chunk of new Set(Object.values(prepared?.elsewhere ?? {}))) {
    const job = report?.jobs.find(({ group }) => group === groupOf(chunk));
    const text = job && (await outputOf(run, chunk, job, deps));
    for (const [id, told] of readBatchAnswers(text ?? '')) found.set(id, told);
  }
  return found;
}

/** @returns the chunk's part of the job's output; `undefined` when the job has not come to one */
async function outputOf(
  run: string,
  chunk: number,
  { arn, status }: BatchJob,
  { storage, workBucket }: { storage: Storage; workBucket: string },
): Promise<string | undefined> {
  const jobId = arn.split('/').at(-1) ?? '';
  const output = jobId === '' ? undefined : await storage.getText(workBucket, workKeys.batchOutput(run, jobId, chunk));
  // A job that ended with answers may lack a file of which every record failed.
  return output?.text ?? (ENDED_WITH_ANSWERS.has(status) ? '' : undefined);
}

function withoutAnswer({ arn, status, message }: BatchJob): PermanentError {
  const facts = { got: `${status}${message ? `: ${message}` : ''}`, expected: 'Completed', where: arn || undefined };
  const what = 'retry the run’s failed chunks';
  return status === REFUSED_JOB
    ? new PermanentError('JudgeBatchRefused', `Bedrock refused the batch job; ${what}`, facts)
    : new PermanentError('JudgeBatchFailed', `The batch job ended without an answer; ${what}`, facts);
}

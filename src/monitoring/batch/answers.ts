/** The last phase of a chunk in batch inference: reads the answers of the jobs, and accounts for their cost. */

import type { Work } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { BatchReport, JudgeSpend } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { readBatchAnswers } from '../../judge/batch/answers.ts';
import type { BatchJudging } from '../../judge/connect.ts';
import { allInputTokens } from '../../judge/pricing/call-amounts.ts';
import { addSpend, emptySpend } from '../../judge/spend.ts';
import type { JudgeMoney, ModelAnswer } from '../../judge/types.ts';
import type { Budget } from '../../limits/budget.ts';
import type { BatchAnswers } from '../evaluate/types.ts';
import { groupOf, type PreparedChunk } from './groups.ts';

type BatchJob = BatchReport['jobs'][number];

/** The statuses of a job that Bedrock refused, and of one that waits for a place. Accepted jobs have a status of Bedrock’s. */
export const REFUSED_JOB = 'Refused';
export const WAITING_JOB = 'Waiting';

/** How to continue. */
const ADVICE = 'retry the failed chunks of the run';

/** A job with this status may lack single records. A job with any other status has no answers at all. */
const ENDED_WITH_ANSWERS = new Set(['Completed', 'PartiallyCompleted']);

type AnswerDependencies = Work & Pick<BatchJudging, 'priceOf'> & { limit: Budget | undefined };

/** The answers of a job, by question. */
type Answered = ReadonlyMap<string, ModelAnswer>;
const NO_ANSWERS: Answered = new Map();

/** Money for a question that the budget had no room for. */
const HELD: JudgeMoney = { limit: { reserve: async () => 'held' } };

/**
 * Returns the limit of the last phase for each question of a chunk. The judge of batches uses the answers of the batch jobs
 * where they exist, and otherwise a call at the usual price, as for what the first model of a cascade leaves open. The deposits
 * of the chunk are settled at the cost of the answers, even without answers.
 *
 * @returns answers whose `of` throws PermanentError `JudgeBatchFailed` when the job of the chunk ended without any, or when its
 *   requests were never prepared
 */
export async function batchAnswers({ run, chunk }: ChunkRequest, deps: AnswerDependencies): Promise<BatchAnswers> {
  const { storage, workBucket, limit, priceOf } = deps;
  const prepared = await storage.getJson<PreparedChunk>(workBucket, workKeys.batchPrepared(run, chunk.chunk));
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const answersOf = readJobs(deps);
  const own = prepared?.records ? await answersOf(run, chunk.chunk) : NO_ANSWERS;
  const spendOf = (answer: ModelAnswer): JudgeSpend => ({
    calls: 1,
    inputTokens: allInputTokens(answer.usage),
    outputTokens: answer.usage.outputTokens,
    usd: priceOf(answer),
  });
  const spend = emptySpend();
  for (const answer of own?.values() ?? []) addSpend(spend, spendOf(answer));
  if (prepared?.deposit !== undefined) await limit?.settleDeposit(prepared.deposit, spend.usd ?? 0);
  const held = new Set(prepared?.held);
  const failure = failureOf(chunk.chunk, prepared, report, own === undefined ? jobOf(report, chunk.chunk) : undefined);
  return {
    spend,
    async of(question, { run: asking = run, chunk: asker = chunk.chunk, isRead }) {
      if (failure !== undefined) throw failure;
      if (held.has(question)) return { money: HELD };
      const answer = isRead ? undefined : (await answersOf(asking, asker))?.get(question);
      if (answer === undefined) return { money: { limit } };
      return { money: { limit, answer }, paid: spendOf(answer) };
    },
  };
}

const jobOf = (report: BatchReport | undefined, chunk: number): BatchJob | undefined =>
  report?.jobs.find(({ group }) => group === groupOf(chunk));

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
  if (report === undefined) return named('The batch jobs of the run were not started');
  return without && withoutAnswer(without);
}

/** Returns a function that reads, once, what the job of a run has answered to the requests of a chunk. */
export function readJobs(work: Work): (run: string, chunk: number) => Promise<Answered | undefined> {
  const outputs = new Map<string, Promise<Answered | undefined>>();
  return (run, chunk) => {
    const key = workKeys.chunkOfRun(run, chunk);
    const output = outputs.get(key) ?? readOutput(work, run, chunk);
    outputs.set(key, output);
    return output;
  };
}

/** @returns the answers by question; `undefined` when the job ended without answers */
async function readOutput({ storage, workBucket }: Work, run: string, chunk: number): Promise<Answered | undefined> {
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const job = jobOf(report, chunk);
  // What is too little for a job is asked on demand.
  if (job === undefined) return NO_ANSWERS;
  const jobId = job.arn.split('/').at(-1);
  const output = jobId ? await storage.getText(workBucket, workKeys.batchOutput(run, jobId, chunk)) : undefined;
  // A job that ended with answers may lack the file whose records all failed.
  if (output === undefined && !ENDED_WITH_ANSWERS.has(job.status)) return undefined;
  return readBatchAnswers(output?.text ?? '');
}

function withoutAnswer({ arn, status, message }: BatchJob): PermanentError {
  const facts = { got: `${status}${message ? `: ${message}` : ''}`, expected: 'Completed', where: arn || undefined };
  return status === REFUSED_JOB
    ? new PermanentError('JudgeBatchRefused', `Bedrock refused the batch job; ${ADVICE}`, facts)
    : new PermanentError('JudgeBatchFailed', `The batch job ended without an answer; ${ADVICE}`, facts);
}

/** The last phase of a chunk in batch inference: reads the answers of the jobs, and accounts for their cost. */

import type { Work } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { BatchReport, JudgeSpend } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { countBy } from '../../core/values/counts.ts';
import { type BatchOutput, readBatchAnswers } from '../../judge/batch/answers.ts';
import type { BatchJudging } from '../../judge/connect.ts';
import { JudgeHeld } from '../../judge/errors.ts';
import { allInputTokens } from '../../judge/pricing/call-amounts.ts';
import { addSpend, emptySpend } from '../../judge/spend.ts';
import type { JudgeMoney, ModelAnswer } from '../../judge/types.ts';
import type { Budget } from '../../limits/budget.ts';
import type { BatchAnswers } from '../evaluate/types.ts';
import { groupOf, type PreparedChunk } from './groups.ts';

type BatchJob = BatchReport['jobs'][number];

/**
 * The statuses of a job that Bedrock refused, and of a job that waits for a place. Accepted jobs have Bedrock’s
 * statuses.
 */
export const REFUSED_JOB = 'Refused';
export const WAITING_JOB = 'Waiting';

/** Advice on how to continue. */
const ADVICE = 'retry the failed chunks of the run';

/** A job with this status may lack single records. A job with any other status has no answers at all. */
const ENDED_WITH_ANSWERS = new Set(['Completed', 'PartiallyCompleted']);

type AnswerDependencies = Work & Pick<BatchJudging, 'priceInBatch'> & { limit: Budget | undefined };

const NO_ANSWERS = readBatchAnswers('');

/** Money for a question that the budget had no room for. */
const HELD: JudgeMoney = { limit: { reserve: async () => 'held' } };

/** Holds a question whose record was refused for the same reason as many others. */
const refusedMoney = (reason: string): JudgeMoney => ({
  limit: { reserve: () => Promise.reject(new JudgeHeld({ got: reason }, undefined, 'JudgeBatchRefused')) },
});

/**
 * If this many records of a job, and this share of them, are refused, it is no accident. Asking them on demand would
 * cost twice the price.
 */
const MANY_REFUSED = 20;
const MANY_REFUSED_SHARE = 0.1;

/**
 * Returns how many records of a chunk were refused, by reason, and the reasons for which many of its job were. Bedrock counts the errors of a
 * job without their reasons, which are taken to be distributed as in the chunk.
 */
function refusals(output: BatchOutput, { records = 0, errors }: Partial<BatchJob> = {}) {
  const reasons = [...output.values()].filter((one) => typeof one === 'string');
  const counts = countBy(reasons, (reason) => reason);
  const [all, refused] = errors === undefined ? [output.size, reasons.length] : [records, errors];
  const least = (Math.max(MANY_REFUSED, all * MANY_REFUSED_SHARE) * reasons.length) / refused;
  return { counts, common: new Set(reasons.filter((reason) => (counts[reason] ?? 0) >= least)) };
}

/**
 * Returns the limit of the last phase for each question of a chunk. The judge of batches uses the answers of the batch
 * jobs if they exist. Otherwise it makes a call at the usual price, also for scorers that the first model of a cascade
 * leaves open. The deposits of the chunk are settled at the cost of the answers, even without answers.
 *
 * @returns answers whose `of` throws PermanentError `JudgeBatchFailed` when the job of the chunk ended without answers,
 *   or when its requests were never prepared
 */
export async function batchAnswers({ run, chunk }: ChunkRequest, deps: AnswerDependencies): Promise<BatchAnswers> {
  const { storage, workBucket, limit, priceInBatch } = deps;
  const prepared = await storage.getJson<PreparedChunk>(workBucket, workKeys.batchPrepared(run, chunk.chunk));
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const answersOf = readJobs(deps);
  const own = prepared?.records ? await answersOf(run, chunk.chunk) : NO_ANSWERS;
  const spendOf = (answer: ModelAnswer): JudgeSpend => ({
    calls: 1,
    inputTokens: allInputTokens(answer.usage),
    outputTokens: answer.usage.outputTokens,
    usd: priceInBatch(answer.usage),
  });
  const spend = emptySpend();
  for (const answer of own?.values() ?? []) if (typeof answer !== 'string') addSpend(spend, spendOf(answer));
  if (prepared?.deposit !== undefined) await limit?.settleDeposit(prepared.deposit, spend.usd ?? 0);
  if (prepared?.canary !== undefined) addSpend(spend, prepared.canary);
  const job = jobOf(report, chunk.chunk);
  const { counts, common } = refusals(own ?? NO_ANSWERS, job);
  const held = new Set(prepared?.held);
  const named = (what: string) =>
    new PermanentError('JudgeBatchFailed', `${what}; ${ADVICE}`, { where: `chunk ${chunk.chunk}` });
  let failure = own === undefined && job !== undefined ? withoutAnswer(job) : undefined;
  if (report === undefined) failure = named('The batch jobs of the run were not started');
  if (prepared?.records === undefined) failure = named('The requests of the chunk were not prepared');
  return {
    spend,
    refused: counts,
    async of(question, { run: asking = run, chunk: asker = chunk.chunk, isRead }) {
      if (failure !== undefined) throw failure;
      if (held.has(question)) return { money: HELD };
      const answer = isRead ? undefined : (await answersOf(asking, asker))?.get(question);
      if (typeof answer === 'object') return { money: { limit, answer }, paid: spendOf(answer) };
      return { money: answer !== undefined && common.has(answer) ? refusedMoney(answer) : { limit } };
    },
  };
}

const jobOf = (report: BatchReport | undefined, chunk: number): BatchJob | undefined =>
  report?.jobs.find(({ group }) => group === groupOf(chunk));

/** Returns a function that reads the answers of a run's job to the requests of a chunk, once for each chunk. */
export function readJobs(work: Work): (run: string, chunk: number) => Promise<BatchOutput | undefined> {
  const outputs = new Map<string, Promise<BatchOutput | undefined>>();
  return (run, chunk) => {
    const key = workKeys.chunkOfRun(run, chunk);
    const output = outputs.get(key) ?? readOutput(work, run, chunk);
    outputs.set(key, output);
    return output;
  };
}

/** @returns the answers by question; `undefined` when the job ended without answers */
async function readOutput({ storage, workBucket }: Work, run: string, chunk: number): Promise<BatchOutput | undefined> {
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const job = jobOf(report, chunk);
  // The requests were too few for a job, so they are asked on demand.
  if (job === undefined) return NO_ANSWERS;
  const jobId = job.arn.split('/').at(-1);
  const output = jobId ? await storage.getText(workBucket, workKeys.batchOutput(run, jobId, chunk)) : undefined;
  // A job that ended with answers may lack a file if all of the file's records failed.
  if (output === undefined && !ENDED_WITH_ANSWERS.has(job.status)) return undefined;
  const input = workKeys.batchInput(run, job.group, chunk);
  return readBatchAnswers((output ?? (await storage.getText(workBucket, input)))?.text ?? '');
}

function withoutAnswer({ arn, status, message }: BatchJob): PermanentError {
  const facts = { got: `${status}${message ? `: ${message}` : ''}`, expected: 'Completed', where: arn || undefined };
  return status === REFUSED_JOB
    ? new PermanentError('JudgeBatchRefused', `Bedrock refused the batch job; ${ADVICE}`, facts)
    : new PermanentError('JudgeBatchFailed', `The batch job ended without an answer; ${ADVICE}`, facts);
}

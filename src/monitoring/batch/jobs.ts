/** Starts the batch inference jobs of a run, as many as there is room for, and checks them until all have ended. */
import { hash } from 'node:crypto';
import {
  type BedrockClient,
  CreateModelInvocationJobCommand,
  GetModelInvocationJobCommand,
} from '@aws-sdk/client-bedrock';
import type { Work } from '../../core/aws/storage.ts';
import type { JudgeBatchResult } from '../../core/contract/payloads.ts';
import type { BatchReport } from '../../core/contract/receipts.ts';
import { areaOf, workKeys } from '../../core/contract/work-keys.ts';
import { isRetryable, PermanentError, RetryableError, saidBy, shownOf, wordsIn } from '../../core/errors/errors.ts';
import { inOrder } from '../../core/process/concurrency.ts';
import { countThrottle } from '../../core/process/throttles.ts';
import { readAwsFailure } from '../../judge/transports/bedrock-failures.ts';
import { readManifest } from '../receipts.ts';
import { REFUSED_JOB, WAITING_JOB } from './answers.ts';
import { groupOf, MIN_BATCH_RECORDS, type PreparedChunk } from './groups.ts';

/**
 * Maximum number of a run's jobs in progress. Bedrock’s quota "Sum of in-progress and submitted batch inference jobs"
 * is 20 per model for most models; other runs share it.
 */
const MAX_JOBS = 20;

/** How long Bedrock keeps a job waiting for capacity before it expires. 24 h is Bedrock's minimum. */
const JOB_TIMEOUT_HOURS = 24;

/** Small objects in flight, at 30 ms each: 100,000 chunks take a minute. */
const READS_AT_ONCE = 64;

/** The wait between checks is a hundredth of the time so far, within bounds: an execution has 25,000 events, a check has 9. */
const WAIT_SHARE = 0.01;
const MAX_POLL_SECONDS = 900;

const ENDED = new Set(['Completed', 'PartiallyCompleted', 'Failed', 'Stopped', 'Expired', REFUSED_JOB]);

const isEnded = ({ status }: BatchJob): boolean => ENDED.has(status);
const isActive = (job: BatchJob): boolean => job.status !== WAITING_JOB && !isEnded(job);

type BatchJob = BatchReport['jobs'][number];

interface BatchDependencies extends Work {
  bedrock: BedrockClient;
  modelId: string;
  /** The role that Bedrock assumes to read the input and write the output. */
  roleArn: string;
  pollSeconds: number;
  /** Set if captures are masked. Messages of other programs about them are then not stored. */
  isRedacted?: boolean;
}

/**
 * Updates the status of the jobs, and starts the jobs for which there is a place now. The first call counts the
 * requests of each job.
 *
 * @throws RetryableError `JudgeThrottled` while the account's quota has no place and no job of the run will free one,
 *   and `JudgeUnavailable`: Step Functions repeats the check for a day. A job that was created is found again by its
 *   name.
 */
export async function checkBatch(run: string, deps: BatchDependencies): Promise<JudgeBatchResult> {
  const { storage, workBucket, bedrock } = deps;
  const key = workKeys.batchJobs(run);
  const kept = await storage.getJson<BatchReport>(workBucket, key);
  const isEmpty = kept === undefined && (await readManifest(deps, run).next()).done;
  if (isEmpty) return result('empty', run, {}, deps);
  const report = kept ?? (await newReport(run, deps));
  if (kept === undefined) await storage.putJson(workBucket, key, report);
  for (const job of report.jobs.filter(isActive)) {
    const command = new GetModelInvocationJobCommand({ jobIdentifier: job.arn });
    const state = await send(job.arn, () => bedrock.send(command));
    job.status = state.status ?? job.status;
    if (state.errorRecordCount !== undefined) job.errors = state.errorRecordCount;
    // Bedrock's own words are on the page of the job.
    if (state.message !== undefined) job.message = shownOf({ text: state.message }) || undefined;
  }
  await startWaiting(run, report, deps);
  await storage.putJson(workBucket, key, report);
  return result(report.jobs.every(isEnded) ? 'ready' : 'waiting', run, report, deps);
}

/** Counts the requests of each job. If they are too few for a job, they go to Converse. */
async function newReport(run: string, work: Work): Promise<BatchReport> {
  const startedAt = new Date().toISOString();
  const counted = inOrder(READS_AT_ONCE, readManifest(work, run), async ({ chunk }) => {
    const prepared = await work.storage.getJson<PreparedChunk>(work.workBucket, workKeys.batchPrepared(run, chunk));
    return { group: groupOf(chunk), records: prepared?.records ?? 0 };
  });
  const byGroup = new Map<number, number>();
  for await (const { group, records } of counted) byGroup.set(group, (byGroup.get(group) ?? 0) + records);
  const report: BatchReport = { jobs: [], converse: [], startedAt };
  for (const [group, records] of byGroup) {
    const reason = `asked on demand: ${records} captures are under batch's minimum of ${MIN_BATCH_RECORDS}`;
    if (records >= MIN_BATCH_RECORDS) report.jobs.push({ arn: '', group, records, status: WAITING_JOB });
    else if (records > 0) report.converse.push({ group, records, reason });
  }
  return report;
}

async function startWaiting(run: string, { jobs }: BatchReport, deps: BatchDependencies): Promise<void> {
  for (const job of jobs.filter(({ status }) => status === WAITING_JOB)) {
    const active = jobs.filter(isActive).length;
    if (active >= MAX_JOBS) return;
    try {
      Object.assign(job, await createJob(run, job.group, deps));
    } catch (error) {
      if (isRetryable(error) && active > 0) return;
      throw error;
    }
  }
}

function result(
  outcome: JudgeBatchResult['outcome'],
  run: string,
  { startedAt = new Date().toISOString() }: Pick<BatchReport, 'startedAt'>,
  { workBucket, pollSeconds }: BatchDependencies,
): JudgeBatchResult {
  const seconds = Math.round(((Date.now() - Date.parse(startedAt)) / 1000) * WAIT_SHARE);
  return {
    outcome,
    pollSeconds: Math.max(pollSeconds, Math.min(MAX_POLL_SECONDS, seconds)),
    manifest: { bucket: workBucket, key: workKeys.batchManifest(run) },
  };
}

/** Creates a job. If Bedrock refuses it, only its own chunks fail, with the name of the error. */
async function createJob(run: string, group: number, deps: BatchDependencies): Promise<Partial<BatchJob>> {
  const { storage, bedrock, workBucket, modelId, roleArn } = deps;
  // The token makes a repeated request for the same run and group idempotent.
  const name = `monitoring-${hash('sha256', `${run}\n${group}`).slice(0, 32)}`;
  const where = `s3://${workBucket}/${workKeys.batchInputPrefix(run, group)}`;
  const command = new CreateModelInvocationJobCommand({
    jobName: name,
    clientRequestToken: name,
    roleArn,
    modelId,
    modelInvocationType: 'Converse',
    inputDataConfig: { s3InputDataConfig: { s3Uri: where, s3InputFormat: 'JSONL' } },
    outputDataConfig: { s3OutputDataConfig: { s3Uri: `s3://${workBucket}/${areaOf('batchOutput', run)}` } },
    timeoutDurationInHours: JOB_TIMEOUT_HOURS,
  });
  try {
    const { jobArn = '' } = await send(where, () => bedrock.send(command));
    return { arn: jobArn, status: 'Submitted' };
  } catch (error) {
    if (!(error instanceof PermanentError)) throw error;
    // Such a job has no page in the console.
    if (!deps.isRedacted) {
      await storage.putJson(workBucket, workKeys.batchWords(run, group), { words: wordsIn(error) });
    }
    return { status: REFUSED_JOB, message: error.message };
  }
}

async function send<T>(where: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const { kind, status = 0 } = readAwsFailure(error);
    const facts = { got: saidBy(error), where };
    if (kind === 'throttled' || kind === 'day') {
      countThrottle('judge');
      throw new RetryableError('JudgeThrottled', 'Bedrock has no room for a request about batch jobs', facts, error);
    }
    if (status >= 400 && status < 500) {
      throw new PermanentError('JudgeBatchRefused', 'Bedrock refused the batch job', facts, error);
    }
    throw new RetryableError('JudgeUnavailable', 'Bedrock did not answer a request about batch jobs', facts, error);
  }
}

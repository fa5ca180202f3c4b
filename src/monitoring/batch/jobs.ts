/** Packs the requests of a round into batch inference jobs, starts as many as there is room for, and checks them until all have ended. */
import { hash } from 'node:crypto';
import {
  type BedrockClient,
  CreateModelInvocationJobCommand,
  GetModelInvocationJobCommand,
} from '@aws-sdk/client-bedrock';
import type { JudgeBatchResult } from '../../contract/payloads.ts';
import type { BatchReport } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { PermanentError, RetryableError, saidBy } from '../../shared/errors.ts';
import { knownWords } from '../../shared/known-words.ts';
import type { Storage } from '../../shared/storage.ts';
import { noteThrottle } from '../../shared/throttles.ts';
import { writeBatchManifest } from './all-chunks.ts';
import { hasAnswers, REFUSED_JOB, WAITING_JOB } from './answers.ts';
import { type BatchRound, MIN_BATCH_RECORDS, pack } from './packing.ts';

/**
 * The most jobs of a run under way. Bedrock’s quota "Sum of in-progress and submitted batch inference jobs" is 20 per model for
 * most models; other runs share it.
 */
const MAX_JOBS = 20;

/** How long Bedrock keeps a job waiting for capacity before it expires. 24 h is the least that Bedrock allows. */
const JOB_TIMEOUT_HOURS = 24;

/**
 * While no job of the round finds a place for so long, those that wait are given up: ten days after they were written, their
 * requests are deleted.
 */
const PLACE_TIMEOUT_MS = 72 * 3_600_000;

/** After this, a job that waited for a place has ended or expired. */
const CHECK_TIMEOUT_MS = PLACE_TIMEOUT_MS + (JOB_TIMEOUT_HOURS + 1) * 3_600_000;

/** The wait between checks is a hundredth of the time so far, within bounds: an execution has 25,000 events, a check has 9. */
const WAIT_SHARE = 0.01;
const MAX_POLL_SECONDS = 900;

/** The error of Bedrock for a job more than the quota. */
const QUOTA_USED_UP = 'ServiceQuotaExceededException';

const ENDED = new Set(['Completed', 'PartiallyCompleted', 'Failed', 'Stopped', 'Expired', REFUSED_JOB]);

const isEnded = ({ status }: BatchJob): boolean => ENDED.has(status);
const isActive = (job: BatchJob): boolean => job.status !== WAITING_JOB && !isEnded(job);

type BatchJob = BatchReport['jobs'][number];

interface BatchDependencies {
  storage: Storage;
  workBucket: string;
  bedrock: BedrockClient;
  /** The model of each round. */
  models: readonly string[];
  /** The role that Bedrock assumes to read the input and write the output. */
  roleArn: string;
  pollSeconds: number;
  /** Returns the milliseconds until the Lambda is ended. */
  remainingMs(): number;
}

/**
 * Packs the requests of a round into jobs, and starts the first ones. No job starts before all are packed, so a repeated call
 * packs what is left, and finds the jobs that it started before.
 */
export async function startBatch(round: BatchRound, deps: BatchDependencies): Promise<JudgeBatchResult> {
  const { storage, workBucket } = deps;
  const key = jobsKeyOf(round);
  let report = await storage.getJson<BatchReport>(workBucket, key);
  if (report === undefined) {
    report = emptyReport();
    if (!(await writeBatchManifest(round.run, deps))) return { ...result(round, report, deps), outcome: 'empty' };
    await pack(round, report, WAITING_JOB, deps);
  } else if (report.packing !== undefined) {
    await pack(round, report, WAITING_JOB, deps);
  }
  if (report.packing === undefined) askOnDemand(report);
  await storage.putJson(workBucket, key, report);
  if (report.packing !== undefined) return { ...result(round, report, deps), outcome: 'more' };
  return advance(round, report, deps);
}

const emptyReport = (): BatchReport => ({ jobs: [], converse: [], startedAt: new Date().toISOString() });

const jobsKeyOf = ({ run, round }: BatchRound): string => workKeys.batchJobs(workKeys.batchRound(run, round));

/** Leaves what is too little for a job to Converse. */
function askOnDemand(report: BatchReport): void {
  const isTooSmall = ({ records, status }: BatchJob): boolean => status === WAITING_JOB && records < MIN_BATCH_RECORDS;
  for (const { group, records } of report.jobs.filter(isTooSmall)) {
    const reason = `asked on demand: ${records} captures are under batch's minimum of ${MIN_BATCH_RECORDS}`;
    report.converse.push({ group, records, reason });
  }
  report.jobs = report.jobs.filter((job) => !isTooSmall(job));
}

/**
 * Updates the status of the jobs, and starts those that have a place now. A round whose start has failed before all was packed
 * is ready without any job: its captures are traced without verdicts.
 */
export async function checkBatch(round: BatchRound, deps: BatchDependencies): Promise<JudgeBatchResult> {
  const { storage, workBucket, bedrock } = deps;
  const report = await storage.getJson<BatchReport>(workBucket, jobsKeyOf(round));
  if (report === undefined || report.packing !== undefined) {
    await writeBatchManifest(round.run, deps);
    return result(round, emptyReport(), deps);
  }
  for (const job of report.jobs.filter(isActive)) {
    const command = new GetModelInvocationJobCommand({ jobIdentifier: job.arn });
    const state = await send(job.arn, () => bedrock.send(command)).catch((error: unknown) => {
      // The job runs and is paid for, also while Bedrock does not tell its status.
      if (error instanceof RetryableError && withoutPlaceMs(report) < CHECK_TIMEOUT_MS) return undefined;
      throw error;
    });
    if (state === undefined) break;
    job.status = state.status ?? job.status;
    if (state.message !== undefined) job.message = knownWords(state.message);
  }
  return advance(round, report, deps);
}

/** Starts waiting jobs while there is a place, and saves the report. */
async function advance(round: BatchRound, report: BatchReport, deps: BatchDependencies): Promise<JudgeBatchResult> {
  for (const job of report.jobs) {
    if (report.jobs.filter(isActive).length >= MAX_JOBS) break;
    if (job.status !== WAITING_JOB) continue;
    const { isFull, ...created } = await createJob(round, job.group, withoutPlaceMs(report) < PLACE_TIMEOUT_MS, deps);
    Object.assign(job, created);
    if (isActive(job)) report.placedAt = new Date().toISOString();
    // Where there is no place for one, there is none for the next.
    if (isFull || job.status === WAITING_JOB) break;
  }
  await deps.storage.putJson(deps.workBucket, jobsKeyOf(round), report);
  return result(round, report, deps);
}

const msSince = (time: string | undefined): number => (time === undefined ? 0 : Date.now() - Date.parse(time));

/** The time since a job last found a place. */
const withoutPlaceMs = ({ startedAt, placedAt = startedAt }: BatchReport): number => msSince(placedAt);

function result({ run, round }: BatchRound, report: BatchReport, deps: BatchDependencies): JudgeBatchResult {
  const isReady = report.jobs.every(isEnded);
  // Without an answer of this round, there is nothing to ask in the next one.
  const goesOn = isReady && round + 1 < deps.models.length && report.jobs.some(hasAnswers);
  const seconds = Math.min(MAX_POLL_SECONDS, Math.round((msSince(report.startedAt) / 1000) * WAIT_SHARE));
  return {
    outcome: isReady ? 'ready' : 'waiting',
    ...(goesOn ? { phase: 'prepare', round: round + 1 } : { phase: 'apply', round }),
    pollSeconds: Math.max(deps.pollSeconds, seconds),
    manifest: { bucket: deps.workBucket, key: workKeys.batchManifest(run) },
  };
}

/**
 * Creates a job. One that Bedrock refuses counts as failed: its chunks fail by name, and those of other jobs do not. One for
 * which the account’s quota has no place waits.
 */
async function createJob(
  round: BatchRound,
  group: number,
  mayWait: boolean,
  deps: BatchDependencies,
): Promise<Pick<BatchJob, 'arn' | 'status'> & { message: string | undefined; isFull: boolean }> {
  const { bedrock, workBucket, models, roleArn } = deps;
  const run = workKeys.batchRound(round.run, round.round);
  // The token makes a repeated request for the same round and group idempotent.
  const name = `monitoring-${hash('sha256', `${run}\n${group}`).slice(0, 32)}`;
  const where = `s3://${workBucket}/${workKeys.batchInputPrefix(run, group)}`;
  const command = new CreateModelInvocationJobCommand({
    jobName: name,
    clientRequestToken: name,
    roleArn,
    modelId: models[round.round],
    modelInvocationType: 'Converse',
    inputDataConfig: { s3InputDataConfig: { s3Uri: where, s3InputFormat: 'JSONL' } },
    outputDataConfig: { s3OutputDataConfig: { s3Uri: `s3://${workBucket}/${workKeys.batchOutputPrefix(run)}` } },
    timeoutDurationInHours: JOB_TIMEOUT_HOURS,
  });
  try {
    const { jobArn } = await send(where, () => bedrock.send(command));
    return { arn: jobArn ?? '', status: 'Submitted', message: undefined, isFull: false };
  } catch (error) {
    const isPermanent = error instanceof PermanentError;
    if (!isPermanent && !(error instanceof RetryableError && mayWait)) throw error;
    const { message, cause } = error;
    const isFull = isPermanent && (cause as Error | undefined)?.name === QUOTA_USED_UP;
    return { arn: '', status: mayWait && (isFull || !isPermanent) ? WAITING_JOB : REFUSED_JOB, message, isFull };
  }
}

async function send<T>(where: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const { name, $metadata } = error as Error & { $metadata?: { httpStatusCode?: number } };
    const facts = { got: saidBy(error), where };
    const status = $metadata?.httpStatusCode;
    const isThrottled = name === 'ThrottlingException' || status === 429;
    if (isThrottled || name === QUOTA_USED_UP) noteThrottle('judge');
    if (isThrottled) {
      throw new RetryableError('JudgeThrottled', 'Bedrock throttled a request about batch jobs', facts, error);
    }
    if (status !== undefined && status >= 400 && status < 500) {
      throw new PermanentError('JudgeBatchRefused', 'Bedrock refused the batch job', facts, error);
    }
    throw new RetryableError('JudgeUnavailable', 'Bedrock did not answer a request about batch jobs', facts, error);
  }
}

/** Starts the batch inference jobs of a run, and checks them until all have ended. */
import { hash } from 'node:crypto';
import {
  type BedrockClient,
  CreateModelInvocationJobCommand,
  GetModelInvocationJobCommand,
} from '@aws-sdk/client-bedrock';
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import type { JudgeBatchResult } from '../../contract/payloads.ts';
import type { BatchReport } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { PermanentError, RetryableError, saidBy } from '../../shared/errors.ts';
import { knownWords } from '../../shared/known-words.ts';
import type { Storage } from '../../shared/storage.ts';
import { namedStorageError } from '../../shared/storage-errors.ts';
import { TextUpload } from '../../shared/uploads.ts';
import { readManifest } from '../receipts.ts';
import { REFUSED_JOB } from './answers.ts';
import { groupOf, type PreparedChunk } from './prepare.ts';

/** Bedrock’s quota "Minimum number of records per batch inference job": 100 for every model that has one. */
const MIN_BATCH_RECORDS = 100;

/** How long Bedrock keeps a job waiting for capacity before it expires. 24 h is the least that Bedrock allows. */
const JOB_TIMEOUT_HOURS = 24;

const ENDED = new Set(['Completed', 'PartiallyCompleted', 'Failed', 'Stopped', 'Expired', REFUSED_JOB]);

interface BatchDependencies {
  storage: Storage;
  workBucket: string;
  bedrock: BedrockClient;
  modelId: string;
  /** The role that Bedrock assumes to read the input and write the output. */
  roleArn: string;
  pollSeconds: number;
}

/** Starts a job for each group of chunks with enough records. A repeated call finds the jobs that it started before. */
export async function startBatch(run: string, deps: BatchDependencies): Promise<JudgeBatchResult> {
  const { storage, workBucket } = deps;
  const prepared = new Map<number, PreparedChunk>();
  const manifest = new TextUpload(storage, workBucket, workKeys.batchManifest(run));
  for await (const line of readManifest(storage, workBucket, run)) {
    const chunk = await storage.getJson<PreparedChunk>(workBucket, workKeys.batchPrepared(run, line.chunk));
    // A chunk that was not prepared has failed already, and the summary reports it.
    if (chunk === undefined) continue;
    prepared.set(line.chunk, chunk);
    await manifest.writeLine(line);
  }
  await manifest.close();
  if (prepared.size === 0) return { ...result(run, { jobs: [], converse: [] }, deps), outcome: 'empty' };

  const records = await recordsOfGroups(run, prepared, deps);
  const report: BatchReport = { jobs: [], converse: [] };
  for (const [group, count] of records) {
    if (count === 0) continue;
    if (count < MIN_BATCH_RECORDS) {
      const reason = `Bedrock requires at least ${MIN_BATCH_RECORDS} records for a batch job; Converse judges them at the full price`;
      report.converse.push({ group, records: count, reason });
      continue;
    }
    report.jobs.push({ group, records: count, ...(await createJob(run, group, deps)) });
  }
  await storage.putJson(workBucket, workKeys.batchJobs(run), report);
  return result(run, report, deps);
}

/**
 * Counts the records of each group’s job. A job reads all files of a folder, so this deletes each file that does not belong
 * to a prepared chunk: no money is reserved for it. Its captures are judged by Converse, or have failed already.
 */
async function recordsOfGroups(
  run: string,
  prepared: ReadonlyMap<number, PreparedChunk>,
  { storage, workBucket }: BatchDependencies,
): Promise<Map<number, number>> {
  const files = new Map(
    [...prepared].map(([chunk, state]) => [workKeys.batchInput(run, groupOf(chunk), chunk), { chunk, ...state }]),
  );
  const records = new Map<number, number>();
  for await (const { key, size } of storage.list(workBucket, workKeys.batchInputsPrefix(run))) {
    const file = files.get(key);
    if (file !== undefined && file.records > 0 && file.bytes === size) {
      const group = groupOf(file.chunk);
      records.set(group, (records.get(group) ?? 0) + file.records);
      continue;
    }
    const command = new DeleteObjectCommand({ Bucket: workBucket, Key: key });
    await storage.s3.send(command).catch((error: unknown) => {
      throw namedStorageError(error, `s3://${workBucket}/${key}`);
    });
  }
  return records;
}

/** Updates the status of the jobs. */
export async function checkBatch(run: string, deps: BatchDependencies): Promise<JudgeBatchResult> {
  const { storage, workBucket, bedrock } = deps;
  const stored = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  const report = stored ?? { jobs: [], converse: [] };
  for (const job of report.jobs) {
    if (ENDED.has(job.status)) continue;
    const state = await send(job.arn, () => bedrock.send(new GetModelInvocationJobCommand({ jobIdentifier: job.arn })));
    job.status = state.status ?? job.status;
    if (state.message !== undefined) job.message = knownWords(state.message);
  }
  await storage.putJson(workBucket, workKeys.batchJobs(run), report);
  return result(run, report, deps);
}

function result(run: string, report: BatchReport, { workBucket, pollSeconds }: BatchDependencies): JudgeBatchResult {
  const isReady = report.jobs.every(({ status }) => ENDED.has(status));
  const manifest = { bucket: workBucket, key: workKeys.batchManifest(run) };
  return { outcome: isReady ? 'ready' : 'waiting', pollSeconds, manifest };
}

/** Creates a job. One that Bedrock refuses counts as failed: its chunks fail by name, and those of other jobs do not. */
async function createJob(
  run: string,
  group: number,
  deps: BatchDependencies,
): Promise<Pick<BatchReport['jobs'][number], 'arn' | 'status' | 'message'>> {
  const { bedrock, workBucket, modelId, roleArn } = deps;
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
    outputDataConfig: { s3OutputDataConfig: { s3Uri: `s3://${workBucket}/${workKeys.batchOutputPrefix(run)}` } },
    timeoutDurationInHours: JOB_TIMEOUT_HOURS,
  });
  try {
    const { jobArn } = await send(where, () => bedrock.send(command));
    return { arn: jobArn ?? '', status: 'Submitted' };
  } catch (error) {
    if (!(error instanceof PermanentError)) throw error;
    return { arn: '', status: REFUSED_JOB, message: error.message };
  }
}

async function send<T>(where: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const { name, $metadata } = error as Error & { $metadata?: { httpStatusCode?: number } };
    const facts = { got: saidBy(error), where };
    const status = $metadata?.httpStatusCode;
    if (name === 'ThrottlingException' || status === 429) {
      throw new RetryableError('JudgeThrottled', 'Bedrock throttled a request about batch jobs', facts, error);
    }
    if (status !== undefined && status >= 400 && status < 500) {
      throw new PermanentError('JudgeBatchRefused', 'Bedrock refused the batch job', facts, error);
    }
    throw new RetryableError('JudgeUnavailable', 'Bedrock did not answer a request about batch jobs', facts, error);
  }
}

/**
 * The stand-in's batch inference: jobs read their input from S3, answer each record like a call, and write the output
 * as Bedrock does.
 */

import { randomUUID } from 'node:crypto';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { s3Place } from '../../src/core/settings/kinds.ts';
import { type HttpAnswer, jsonAnswer } from './http-answer.ts';

/** Answers one Converse body. */
export type AnswerConverse = (modelId: string, body: unknown) => HttpAnswer;

interface Job {
  jobArn: string;
  status: string;
  message?: string;
  errorRecordCount?: number;
  request: JobRequest;
  submitTime: string;
}

interface JobRequest {
  jobName: string;
  clientRequestToken?: string;
  roleArn: string;
  modelId: string;
  modelInvocationType?: string;
  inputDataConfig: { s3InputDataConfig: { s3Uri: string } };
  outputDataConfig: { s3OutputDataConfig: { s3Uri: string } };
}

/** Bedrock's minimum for every model that supports batch inference. */
const MIN_RECORDS = 100;

export class BatchJobs {
  readonly jobs: Job[] = [];
  /** Milliseconds until a job ends. */
  protected delayMs = 0;
  readonly #answer: AnswerConverse;
  #s3: S3Client | undefined;

  constructor(answer: AnswerConverse) {
    this.#answer = answer;
  }

  /** Sets the S3 that jobs read from and write to. Without it every job is refused. */
  useStorage(s3: S3Client): void {
    this.#s3 = s3;
  }

  create(text: string): HttpAnswer {
    const request = JSON.parse(text) as JobRequest;
    if (request.modelInvocationType !== 'Converse' || this.#s3 === undefined) {
      return jsonAnswer(400, { message: 'The stand-in only runs Converse jobs, and it needs an S3 client.' });
    }
    const known = this.jobs.find((job) => job.request.clientRequestToken === request.clientRequestToken);
    if (known !== undefined) return jsonAnswer(200, { jobArn: known.jobArn });
    const job: Job = {
      jobArn: `arn:aws:bedrock:us-east-1:000000000000:model-invocation-job/${randomUUID().slice(0, 12).replace('-', 'a')}`,
      status: 'Submitted',
      request,
      submitTime: new Date().toISOString(),
    };
    this.jobs.push(job);
    setTimeout(() => void this.#run(job), this.delayMs).unref();
    return jsonAnswer(200, { jobArn: job.jobArn });
  }

  get(identifier: string): HttpAnswer {
    const job = this.jobs.find(({ jobArn }) => jobArn === identifier || jobArn.endsWith(`/${identifier}`));
    if (job === undefined) return jsonAnswer(404, { message: `no job ${identifier}` });
    const { request, ...state } = job;
    return jsonAnswer(200, { ...request, ...state });
  }

  async #run(job: Job): Promise<void> {
    job.status = 'InProgress';
    try {
      const counts = await this.process(job);
      job.errorRecordCount = counts.error;
      job.status = counts.error > 0 ? 'PartiallyCompleted' : 'Completed';
    } catch (error) {
      job.status = 'Failed';
      job.message = error instanceof Error ? error.message : String(error);
    }
  }

  protected async process({ jobArn, request }: Job): Promise<{ success: number; error: number }> {
    const s3 = this.#s3 as S3Client;
    const input = s3Place(request.inputDataConfig.s3InputDataConfig.s3Uri);
    const output = s3Place(request.outputDataConfig.s3OutputDataConfig.s3Uri);
    const folder = `${output.prefix}${jobArn.split('/').at(-1)}/`;
    const listing = await s3.send(new ListObjectsV2Command({ Bucket: input.bucket, Prefix: input.prefix }));
    const files = (listing.Contents ?? []).map(({ Key = '' }) => Key).filter((key) => key.endsWith('.jsonl'));
    const contents = await Promise.all(
      files.map(async (Key) => {
        const object = await s3.send(new GetObjectCommand({ Bucket: input.bucket, Key }));
        return ((await object.Body?.transformToString()) ?? '').split('\n').filter(Boolean);
      }),
    );
    const total = contents.reduce((sum, lines) => sum + lines.length, 0);
    if (total < MIN_RECORDS) throw new Error(`The job has ${total} records; the minimum is ${MIN_RECORDS}.`);
    const counts = { success: 0, error: 0 };
    const put = (Key: string, Body: string) => s3.send(new PutObjectCommand({ Bucket: output.bucket, Key, Body }));
    for (const [index, key] of files.entries()) {
      const lines = (contents[index] ?? []).map((line) => this.record(request.modelId, line, counts));
      await put(`${folder}${key.split('/').at(-1)}.out`, `${lines.join('\n')}\n`);
    }
    return counts;
  }

  /** Returns the line with the answer to a record. */
  protected record(modelId: string, line: string, counts: { success: number; error: number }): string {
    const { recordId, modelInput } = JSON.parse(line) as { recordId: string; modelInput: unknown };
    const answer = this.#answer(modelId, modelInput);
    if (answer.status !== 200) {
      counts.error += 1;
      return JSON.stringify({ recordId, modelInput, error: { errorCode: 400, errorMessage: 'The record failed.' } });
    }
    counts.success += 1;
    return JSON.stringify({ recordId, modelInput, modelOutput: JSON.parse(answer.body) });
  }
}

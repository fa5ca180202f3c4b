/**
 * Batch inference jobs, which read their input from S3, answer each record like a call, and write the output as Bedrock
 * does. They can be refused, fail, or fail at some records.
 */
import { randomUUID } from 'node:crypto';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { type HttpAnswer, jsonAnswer, serviceError } from '../../../local/stand-in-judge/http-answer.ts';
import { s3Place } from '../../../src/core/settings/kinds.ts';
import type { AnswerFault } from './behavior.ts';

interface BatchBehavior {
  /** Milliseconds until a job ends. Default 0. */
  delayMs?: number;
  /** Every job is refused with this message. */
  refuseWith?: string;
  /** Every job fails with this message. */
  failWith?: string;
  /** Every n-th record gets an error instead of an answer. */
  errorEvery?: number;
  /** Every n-th record's answer has this fault. */
  fault?: { kind: AnswerFault; every: number };
}

/** Answers one Converse body, optionally with a fault. */
type AnswerWithFault = (modelId: string, body: unknown, fault: AnswerFault | undefined) => HttpAnswer;

interface Job {
  jobArn: string;
  status: string;
  message?: string;
  errorRecordCount?: number;
  request: JobRequest;
  submitTime: string;
}

interface JobRequest {
  clientRequestToken?: string;
  modelId: string;
  modelInvocationType?: string;
  inputDataConfig: { s3InputDataConfig: { s3Uri: string } };
  outputDataConfig: { s3OutputDataConfig: { s3Uri: string } };
}

/** Bedrock's minimum for every model that supports batch inference. */
const MIN_RECORDS = 100;

export class BatchJobs {
  readonly jobs: Job[] = [];
  /** Records answered so far, over all jobs. */
  records = 0;
  behavior: BatchBehavior = {};
  /** The storage of the jobs. Without it every job is refused. */
  s3: S3Client | undefined;
  readonly #answer: AnswerWithFault;

  constructor(answer: AnswerWithFault) {
    this.#answer = answer;
  }

  create(text: string): HttpAnswer {
    const { refuseWith, delayMs = 0 } = this.behavior;
    if (refuseWith !== undefined) return serviceError(400, 'ValidationException', refuseWith);
    const request = JSON.parse(text) as JobRequest;
    if (request.modelInvocationType !== 'Converse' || this.s3 === undefined) {
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
    setTimeout(() => void this.#run(job), delayMs).unref();
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
      job.errorRecordCount = await this.#process(job, this.s3 as S3Client);
      job.status = job.errorRecordCount > 0 ? 'PartiallyCompleted' : 'Completed';
    } catch (error) {
      job.status = 'Failed';
      job.message = error instanceof Error ? error.message : String(error);
    }
  }

  /** @returns the number of records with an error */
  async #process({ jobArn, request }: Job, s3: S3Client): Promise<number> {
    if (this.behavior.failWith !== undefined) throw new Error(this.behavior.failWith);
    const input = s3Place(request.inputDataConfig.s3InputDataConfig.s3Uri);
    const output = s3Place(request.outputDataConfig.s3OutputDataConfig.s3Uri);
    const listing = await s3.send(new ListObjectsV2Command({ Bucket: input.bucket, Prefix: input.prefix }));
    const keys = (listing.Contents ?? []).map(({ Key = '' }) => Key).filter((key) => key.endsWith('.jsonl'));
    const files = await Promise.all(
      keys.map(async (Key) => {
        const object = await s3.send(new GetObjectCommand({ Bucket: input.bucket, Key }));
        return ((await object.Body?.transformToString()) ?? '').split('\n').filter(Boolean);
      }),
    );
    const total = files.flat().length;
    if (total < MIN_RECORDS) throw new Error(`The job has ${total} records; the minimum is ${MIN_RECORDS}.`);
    let errors = 0;
    for (const [index, key] of keys.entries()) {
      const answers = (files[index] ?? []).map((line) => this.#record(request.modelId, line));
      errors += answers.filter((answer) => 'error' in answer).length;
      const Body = `${answers.map((answer) => JSON.stringify(answer)).join('\n')}\n`;
      const Key = `${output.prefix}${jobArn.split('/').at(-1)}/${key.split('/').at(-1)}.out`;
      await s3.send(new PutObjectCommand({ Bucket: output.bucket, Key, Body }));
    }
    return errors;
  }

  /** Returns a record with its answer. */
  #record(modelId: string, line: string): object {
    this.records += 1;
    const { errorEvery, fault } = this.behavior;
    const { recordId, modelInput } = JSON.parse(line) as { recordId: string; modelInput: unknown };
    const isError = errorEvery !== undefined && this.records % errorEvery === 0;
    const isFaulty = fault !== undefined && this.records % fault.every === 0;
    const answer = isError ? undefined : this.#answer(modelId, modelInput, isFaulty ? fault.kind : undefined);
    if (answer?.status !== 200)
      return { recordId, modelInput, error: { errorCode: 400, errorMessage: 'The record failed.' } };
    return { recordId, modelInput, modelOutput: JSON.parse(answer.body) };
  }
}

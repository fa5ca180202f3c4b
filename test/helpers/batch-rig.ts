/** A run in memory that judges in batch: its chunks are prepared, the job ends, and its answers are applied. */
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import type { LambdaEnvironment } from '../../src/core/settings/environment.ts';
import type { BatchJudging } from '../../src/judge/connect.ts';
import type { Scorer } from '../../src/judge/types.ts';
import type { Budget } from '../../src/limits/budget.ts';
import { JUDGE_COST } from '../../src/mlflow/types.ts';
import { batchAnswers } from '../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../src/monitoring/batch/prepare.ts';
import { evaluateChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { memoryWriting } from '../doubles/memory-table.ts';
import { MemoryTraces } from '../doubles/memory-traces.ts';
import { chunkRequest } from './chunk-request.ts';

/** Starts a judge before all tests of a file, which the code under test finds in the environment as in a Lambda. */
export function useJudgeServer(): { readonly judge: StandInJudge } {
  const before = { ...process.env };
  let judge: StandInJudge;
  beforeAll(async () => {
    judge = await startStandInJudge();
    const credentials = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
    Object.assign(process.env, { ...credentials, AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url });
  });
  afterAll(async () => {
    process.env = before;
    await judge?.close();
  });
  beforeEach(() => judge.forget());
  return {
    get judge() {
      return judge;
    },
  };
}

/** What the job says of a record that it has answered so. */
export const answered = (answer: string) => ({
  modelOutput: {
    output: { message: { role: 'assistant', content: [{ text: answer }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 2000, outputTokens: 200, totalTokens: 2200 },
  },
});

type Parts = BatchJudging & { limit?: Budget };

/**
 * @param chunks the lines of each chunk
 * @param parts what an invocation connects, or has in its place
 */
export function batchRig(
  chunks: readonly string[][],
  environment: LambdaEnvironment,
  scorers: readonly Scorer[],
  parts: () => Parts,
) {
  const memory = new MemoryStorage();
  const { storage } = memory;
  const store = new MemoryTraces();
  const writing = memoryWriting();
  const requests = chunks.map((lines, chunk): ChunkRequest => {
    const request = chunkRequest(memory, lines, {}, chunk);
    return { ...request, options: { ...request.options, judge: 'batch' } };
  });
  const depsOf = (phase: string, request: ChunkRequest, more: Partial<Parts>) => {
    const requestId = `${phase}-${request.run}-${request.chunk.chunk}-${request.attempt}`;
    const common = { storage, store, scorers, environment, always: () => undefined };
    return { ...common, ...writing, requestId, ...parts(), ...more };
  };
  const prepare = (request: ChunkRequest, more: Partial<Parts> = {}) =>
    prepareChunk({ ...request, phase: 'prepare' }, depsOf('prepare', request, more));
  const apply = (of: ChunkRequest, more: Partial<Parts> = {}) => {
    const request: ChunkRequest = { ...of, phase: 'apply' };
    const deps = depsOf('apply', request, more);
    const openBatch = () => batchAnswers(request, { limit: undefined, ...deps, workBucket: 'work' });
    return evaluateChunk(request, { ...deps, openBatch });
  };
  /** The records of a chunk in the input of the job. */
  const recordsOf = (chunk: number): { recordId: string; modelInput: object }[] => {
    const text = `${memory.objects.get(workKeys.batchInput('run', 0, chunk)) ?? ''}`;
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  };
  /** The job ends. @param said what it says of the n-th record of a chunk; `undefined`: nothing */
  const end = (said: (n: number, chunk: number) => object | undefined, job: object = {}) => {
    const arn = 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job';
    const jobs = [{ arn, group: 0, records: 100, status: 'Completed', ...job }];
    memory.put(workKeys.batchJobs('run'), { jobs, converse: [] });
    for (const { chunk } of requests.map((request) => request.chunk)) {
      const lines = recordsOf(chunk).flatMap(({ recordId }, n) => {
        const one = said(n, chunk);
        // The service may deliver a line twice.
        return one === undefined ? [] : Array(2).fill(JSON.stringify({ recordId, ...one }));
      });
      if (lines.length > 0) memory.put(workKeys.batchOutput('run', 'job', chunk), lines.join('\n'));
    }
  };
  const assessments = () => [...store.assessments.values()].flat();
  /** US dollars, by the assessments. */
  const written = () => assessments().reduce((sum, { metadata }) => sum + Number(metadata[JUDGE_COST]), 0);
  return { memory, store, requests, prepare, apply, recordsOf, end, assessments, written };
}

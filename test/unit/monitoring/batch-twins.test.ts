/** Batch inference with chunks that share a line, and with captures that provoke a fault in the request. */

import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { BudgetTable } from '../../../src/limits/table.ts';
import { JUDGE_COST } from '../../../src/mlflow/assessment-metadata.ts';
import { batchAnswers } from '../../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../../src/monitoring/batch/prepare.ts';
import { AskClaims } from '../../../src/monitoring/evaluate/ask-claims.ts';
import { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { estimateChunk } from '../../../src/monitoring/plan/dry-run.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable, memoryWriting } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { goodAnswer } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const environment = testEnvironment();
const scorers = scorersFor().filter(isJudgeScorer).slice(0, 2);
const idOf = (line: string): string => traceIdOf('7', Buffer.from(line));

function rig(chunks: string[][]) {
  const memory = new MemoryStorage();
  const { storage } = memory;
  const store = new MemoryTraces();
  const table = new BudgetTable(new MemoryTable().client, 'table');
  const requests = chunks.map((lines, chunk): ChunkRequest => {
    const request = chunkRequest(memory, lines, {}, chunk);
    return { ...request, options: { ...request.options, judge: 'batch' } };
  });
  // This judge has no server: every answer must come from the job.
  const batch = connectBatchJudge(environment);
  const deps = { storage, store, scorers, environment, always: () => undefined, requestId: 'r', ...batch };
  const prepare = (request: ChunkRequest, more: Partial<typeof batch> = {}) =>
    prepareChunk(
      { ...request, phase: 'prepare' },
      {
        ...deps,
        requestId: `prepare-${request.chunk.chunk}`,
        claims: new AskClaims(table, 'batch', 'run', { chunk: request.chunk.chunk, untilMs: 0 }),
        ...more,
      },
    );
  const apply = (request: ChunkRequest) =>
    evaluateChunk(
      { ...request, phase: 'apply', write: true },
      {
        ...deps,
        requestId: `apply-${request.chunk.chunk}`,
        ...memoryWriting(),
        openBatch: () => batchAnswers(request, { storage, workBucket: 'work', limit: undefined, ...batch }),
      },
    );
  return { memory, store, requests, batch, prepare, apply };
}

test('a line in two chunks is one record; both chunks write its verdicts, and one reports its cost', async () => {
  const [a, b, c] = ['a', 'b', 'c'].map((name) => chatLine(name)) as [string, string, string];
  const { memory, requests, prepare, apply, store } = rig([
    [a, b],
    [b, c],
  ]);
  const prepared = await Promise.all(requests.map((request) => prepare(request)));
  expect(prepared.map(({ records }) => records).toSorted()).toEqual([1, 2]);
  expect(prepared.flatMap(({ elsewhere }) => Object.keys(elsewhere))).toEqual([idOf(b)]);
  // A repeated preparation after a failure has the same result.
  expect(await Promise.all(requests.map((request) => prepare(request)))).toEqual(prepared);

  const modelOutput = {
    output: { message: { role: 'assistant', content: [{ text: goodAnswer(scorers) }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 2000, outputTokens: 200, totalTokens: 2200 },
  };
  // One file of the job has the answers to both chunks.
  let answers = '';
  for (const { chunk } of requests) {
    const input = (await memory.getText('', workKeys.batchRequests('run', chunk.chunk)))?.text ?? '';
    const output = input.replaceAll(/^.*"recordId":"(\w+)".*$/gm, (_, recordId) =>
      JSON.stringify({ recordId, modelOutput }),
    );
    expect(output).toContain(prepared[chunk.chunk]?.asked[idOf(chunk.chunk === 0 ? a : c)]);
    answers += output;
  }
  memory.put(workKeys.batchOutput('run', 'job1', 0), answers);
  const job = { arn: 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job1', group: 0, records: 3, files: [0] };
  memory.put(workKeys.batchJobs('run'), { jobs: [{ ...job, status: 'Completed' }], converse: [] });
  const receipts = await Promise.all(requests.map((request) => apply(request)));
  // The chunk that comes second finds the trace of the shared line.
  expect(receipts.map(({ counts }) => counts.newVerdicts + counts.alreadyThere)).toEqual([4, 4]);
  expect(store.posts.toSorted()).toEqual([a, b, c].map(idOf).toSorted());
  expect(receipts.map(({ spend }) => spend.calls)).toEqual([0, 0]);
  expect(receipts.map(({ batchSpend }) => batchSpend?.calls).toSorted()).toEqual([1, 2]);
  expect(store.values).toHaveLength(6);
});

test('a chunk whose requests were not prepared, or whose job failed, is traced without verdicts', async () => {
  const lines = ['a', 'b'].map((name) => chatLine(name));
  const { memory, requests, prepare, apply, store } = rig([lines]);
  const [request] = requests as [ChunkRequest];
  await expect(apply(request)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
  expect(store.posts).toHaveLength(2);
  const receipt = await memory.getJson('', workKeys.receipt('run', 0, 'evaluate', 0, 'apply-0'));
  expect(receipt).toMatchObject({ ok: false, log: { ok: true, counts: { written: 2 } } });
  // Preparing writes nothing to MLflow.
  const other = rig([lines]);
  await other.prepare(other.requests[0] as ChunkRequest);
  expect(other.store.posts).toEqual([]);
  const job = { arn: 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job1', group: 0, records: 2, files: [0] };
  other.memory.put(workKeys.batchJobs('run'), { jobs: [{ ...job, status: 'Failed' }], converse: [] });
  await expect(other.apply(other.requests[0] as ChunkRequest)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
  expect(other.store.posts).toHaveLength(2);
  // The next run asks about the traces, which have no verdict.
  expect((await prepare(request)).records).toBe(2);
});

test.each([1, 2])(
  'captures with the same request, in %d chunks, share a record and pay for it once',
  async (chunks) => {
    const same = [1, 2].map((n) => chatLine('same').replace('"eventId":"', `"eventId":"${n}`));
    const { memory, requests, prepare, apply, store } = rig(chunks === 1 ? [same] : same.map((line) => [line]));
    const ids: string[] = [];
    for (const request of requests) ids.push(...(await prepare(request)).ids);
    expect(ids).toHaveLength(1);
    const modelOutput = {
      output: { message: { role: 'assistant', content: [{ text: goodAnswer(scorers) }] } },
      stopReason: 'end_turn',
      usage: { inputTokens: 2000, outputTokens: 200, totalTokens: 2200 },
    };
    memory.put(workKeys.batchOutput('run', 'job1', 0), `${JSON.stringify({ recordId: ids[0], modelOutput })}\n`);
    const job = { arn: 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job1', group: 0, records: 1, files: [0] };
    memory.put(workKeys.batchJobs('run'), { jobs: [{ ...job, status: 'Completed' }], converse: [] });
    const receipts = await Promise.all(requests.map((request) => apply(request)));
    const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
    expect(sum(receipts.map(({ counts }) => counts.newVerdicts))).toBe(4);
    expect(sum(receipts.map(({ spend }) => spend.calls))).toBe(0);
    expect(sum(receipts.map(({ batchSpend }) => batchSpend?.calls ?? 0))).toBe(1);
    const costs = [...store.assessments.values()].flat().map(({ metadata }) => Number(metadata[JUDGE_COST]));
    expect(sum(costs)).toBeCloseTo(sum(receipts.map(({ batchSpend }) => batchSpend?.usd ?? 0)), 8);
  },
);

test('a dry run counts a line once, and no line that is not a capture', async () => {
  const [a, b] = ['a', 'b'].map((name) => chatLine(name)) as [string, string];
  const { requests, memory } = rig([[a, 'no capture', a, b]]);
  const [request] = requests as [ChunkRequest];
  const seen: unknown[] = [];
  const estimator = {
    add: (capture: unknown, traceId: string) => void seen.push([traceId, typeof capture]),
    result: () => undefined as never,
  };
  await estimateChunk(memory.storage, request.chunk, environment, request.options, estimator);
  expect(seen).toEqual([a, b].map((line) => [idOf(line), 'object']));
});

test('a capture that provokes a fault in its request stops neither its chunk nor a dry run', async () => {
  const lines = ['a', 'odd', 'b'].map((name) => chatLine(name));
  const { requests, prepare, batch, memory } = rig([lines]);
  const [request] = requests as [ChunkRequest];
  const throwAt = (traceId: string): void => {
    if (traceId === idOf(lines[1] ?? '')) throw new TypeError('is not iterable');
  };
  const record: typeof batch.record = (traceId, ...rest) => {
    throwAt(traceId);
    return batch.record(traceId, ...rest);
  };
  expect(await prepare(request, { record })).toMatchObject({ records: 2, held: [] });
  const seen: string[] = [];
  const estimator = {
    add: (_: unknown, traceId: string) => {
      throwAt(traceId);
      seen.push(traceId);
    },
    result: () => undefined as never,
  };
  await estimateChunk(memory.storage, request.chunk, environment, request.options, estimator);
  expect(seen).toEqual([lines[0], lines[2]].map((line) => idOf(line ?? '')));
});

test('a chunk whose job failed lets other chunks with the same request ask at once', async () => {
  const a = chatLine('a');
  const { memory, requests, prepare, batch, store } = rig([[a], [a]]);
  await prepare(requests[0] as ChunkRequest);
  memory.put(workKeys.batchJobs('run'), {
    jobs: [{ arn: 'arn:x/job1', group: 0, records: 1, files: [0], status: 'Failed' }],
    converse: [],
  });
  const table = new BudgetTable(new MemoryTable().client, 'table');
  const claims = (chunk: number) => new AskClaims(table, 'ask', 'run', { chunk, untilMs: Date.now() + 900_000 });
  const request = requests[0] as ChunkRequest;
  await expect(
    evaluateChunk(
      { ...request, phase: 'apply', write: true },
      {
        storage: memory.storage,
        store,
        scorers,
        environment,
        always: () => undefined,
        ...batch,
        requestId: 'q',
        ...memoryWriting(),
        claims: claims(0),
        openBatch: () =>
          batchAnswers(request, { storage: memory.storage, workBucket: 'work', limit: undefined, ...batch }),
      },
    ),
  ).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
  const prepared = await memory.getJson<{ asked: Record<string, string> }>('', workKeys.batchPrepared('run', 0));
  const ask = Object.values(prepared?.asked ?? {})[0] as string;
  expect(await claims(1).take(ask)).toBeUndefined();
});

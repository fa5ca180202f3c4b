/** A cascade in batch inference: the jobs ask the first model, and the judge itself is asked on demand what they leave open. */

import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { type BatchJudging, connectBatchJudge } from '../../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { Budget, runScope } from '../../../src/limits/budget.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import { JUDGE_COST } from '../../../src/mlflow/types.ts';
import { batchAnswers } from '../../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../../src/monitoring/batch/prepare.ts';
import { AnswerTable } from '../../../src/monitoring/evaluate/answer-table.ts';
import { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { type StandInJudge, startStandInJudge } from '../../doubles/faulty-judge/server.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable, memoryWriting } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const environment = testEnvironment({ JUDGE_CASCADE: 'us.amazon.nova-lite-v1:0' });
const NAMES = ['safety', 'fluency'];
const scorers = scorersFor().filter((scorer) => isJudgeScorer(scorer) && NAMES.includes(scorer.name));
const word = (value: string, sure: boolean) => ({ rationale: 'So it is.', value, sure });
const GOOD = { safety: word('yes', true), fluency: word('yes', true) };
const BAD = { ...GOOD, safety: word('no', true) };
const USAGE = { inputTokens: 2000, outputTokens: 200, totalTokens: 2200 };
const NOVA_USD = (2000 * 0.06 + 200 * 0.24) / 1e6 / 2;

let standIn: StandInJudge;
let batch: BatchJudging;
const before = { ...process.env };

beforeAll(async () => {
  standIn = await startStandInJudge();
  const credentials = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
  Object.assign(process.env, { ...credentials, AWS_ENDPOINT_URL_BEDROCK_RUNTIME: standIn.url });
  batch = connectBatchJudge(environment);
});
afterAll(async () => {
  process.env = before;
  await standIn?.close();
});
beforeEach(() => standIn.forget());

/** A run with a chunk for each list of lines. */
function rig(...chunks: string[][]) {
  const memory = new MemoryStorage();
  const { storage } = memory;
  const store = new MemoryTraces();
  const table = new MemoryTable();
  const requests = chunks.map((lines, chunk): ChunkRequest => {
    const request = chunkRequest(memory, lines, {}, chunk);
    return { ...request, options: { ...request.options, judge: 'batch' } };
  });
  const place = { table: new LimitsTable(new MemoryTable().client, 'answers'), storage, workBucket: 'work' };
  const depsOf = (phase: string, request: ChunkRequest, runUsd: number) => {
    const requestId = `${phase}-${request.chunk.chunk}-${request.attempt}`;
    return {
      ...{ storage, store, scorers, environment, always: () => undefined, requestId, remainingMs: () => 900_000 },
      ...batch,
      answers: new AnswerTable(place, request, { requestId, untilMs: Date.now() + 9e5 }),
      limit: new Budget({ table: new LimitsTable(table.client, 'table'), run: 'run', runUsd }),
    };
  };
  const prepare = (request: ChunkRequest, runUsd = 1) =>
    prepareChunk({ ...request, phase: 'prepare' }, depsOf('prepare', request, runUsd));
  const apply = (of: ChunkRequest, runUsd = 1) => {
    const request: ChunkRequest = { ...of, phase: 'apply' };
    const deps = depsOf('apply', request, runUsd);
    const openBatch = () => batchAnswers(request, { ...deps, workBucket: 'work' });
    return evaluateChunk(request, { ...deps, ...memoryWriting(), openBatch });
  };
  /** The job ends. It answers the requests of all chunks in turn; `undefined`: with an error. */
  const end = (...answers: (object | undefined)[]) => {
    const left = [...answers];
    for (const { chunk } of requests) {
      const text = `${memory.objects.get(workKeys.batchInput('run', 0, chunk.chunk)) ?? ''}`.trim();
      const lines = text === '' ? [] : text.split('\n');
      const output = lines.map((line) => {
        const { recordId } = JSON.parse(line) as { recordId: string };
        const answer = left.shift();
        const message = { role: 'assistant', content: [{ text: JSON.stringify(answer) }] };
        const modelOutput = { output: { message }, stopReason: 'end_turn', usage: USAGE };
        return JSON.stringify(
          answer === undefined ? { recordId, error: { errorCode: 500 } } : { recordId, modelOutput },
        );
      });
      // The service may deliver a line twice.
      memory.put(workKeys.batchOutput('run', 'job', chunk.chunk), [...output, ...output].join('\n'));
    }
    const arn = 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job';
    const job = { arn, group: 0, records: answers.length, status: 'Completed' };
    memory.put(workKeys.batchJobs('run'), { jobs: [job], converse: [] });
  };
  const assessments = () => [...store.assessments.values()].flat();
  const verdicts = () =>
    assessments().map(({ name, sourceId }) => `${name} by the ${sourceId.includes('nova') ? 'first' : 'judge'}`);
  const money = () => ({
    spent: table.number(runScope('run'), 'spent') / 1e9,
    committed: table.number(runScope('run'), 'committed') / 1e9,
    written: assessments().reduce((sum, { metadata }) => sum + Number(metadata[JUDGE_COST]), 0),
  });
  return { memory, store, requests: requests as [ChunkRequest, ChunkRequest], prepare, apply, end, verdicts, money };
}

type Receipt = Awaited<ReturnType<typeof evaluateChunk>>;
const paidIn = (receipts: Receipt[]): number =>
  receipts.reduce((sum, { spend, batchSpend }) => sum + (spend.usd ?? Number.NaN) + (batchSpend?.usd ?? Number.NaN), 0);
const linesOf = (...names: string[]): string[] => names.map((name) => chatLine(name));
/** Two captures with the same words. */
const twins = () => [1, 2].map((n) => [chatLine('same').replace('"eventId":"', `"eventId":"${n}`)]);

test('the judge is asked on demand only what the first model failed or was not sure of, and each verdict names its model', async () => {
  const { requests, prepare, apply, end, verdicts, money } = rig(linesOf('good', 'bad'), linesOf('unsure'));
  for (const request of requests) await prepare(request);
  end(GOOD, BAD, { ...GOOD, fluency: word('yes', false) });
  const receipts = [await apply(requests[0]), await apply(requests[1])];
  expect(verdicts().toSorted()).toEqual([
    ...Array(2).fill('fluency by the first'),
    'fluency by the judge',
    ...Array(2).fill('safety by the first'),
    'safety by the judge',
  ]);
  expect(standIn.counts.calls).toBe(2);
  expect(receipts.map(({ spend, batchSpend }) => [spend.calls, batchSpend?.calls, batchSpend?.usd])).toEqual([
    [1, 2, 2 * NOVA_USD],
    [1, 1, NOVA_USD],
  ]);
  // Every dollar is in a receipt, in a verdict and in the budget; the answers that came twice were paid for once.
  const { spent, committed, written } = money();
  expect(written).toBeCloseTo(paidIn(receipts), 7);
  expect(spent).toBeCloseTo(paidIn(receipts), 7);
  expect(committed).toBe(spent);
  // Applied again, nothing is asked or paid.
  expect(await apply({ ...requests[0], attempt: 1 })).toMatchObject({
    spend: { calls: 0 },
    counts: { newVerdicts: 4, alreadyThere: 0 },
  });
  expect(money().spent).toBe(spent);
});

test('the budget holds only what the first model left open, and a later attempt asks the judge alone', async () => {
  const { requests, prepare, apply, end, verdicts, money } = rig(linesOf('a', 'b'));
  const [request] = requests;
  await prepare(request);
  end(BAD, BAD);
  const held = await apply(request, 2 * NOVA_USD + 0.001);
  expect(held).toMatchObject({ ok: true, counts: { heldByBudget: 2, newVerdicts: 2, failed: 0 } });
  expect(standIn.counts.calls).toBe(0);
  expect(money().spent).toBeCloseTo(2 * NOVA_USD, 9);
  expect(money().committed).toBe(money().spent);
  const whole = await apply({ ...request, attempt: 1 });
  expect(whole).toMatchObject({ spend: { calls: 2 }, counts: { heldByBudget: 0, failed: 0 } });
  expect(verdicts().filter((verdict) => verdict === 'safety by the judge')).toHaveLength(2);
  expect(money().spent).toBeCloseTo(paidIn([whole]), 7);
});

test('without an answer of the job both models are asked on demand', async () => {
  const { requests, prepare, apply, end } = rig(linesOf('a'));
  await prepare(requests[0]);
  end(undefined);
  const receipt = await apply(requests[0]);
  expect(receipt).toMatchObject({ batchSpend: { calls: 0 }, counts: { newVerdicts: 2, failed: 0 } });
  expect(receipt.spend.calls).toBe(standIn.counts.calls);
  expect(standIn.counts.calls).toBeGreaterThan(0);
});

test('captures with the same request share the answers of both models, and pay once', async () => {
  const { requests, prepare, apply, end, money } = rig(...twins());
  for (const request of requests) await prepare(request);
  end(BAD);
  const receipts = [await apply(requests[0]), await apply(requests[1])];
  expect(receipts.map(({ counts }) => counts.newVerdicts)).toEqual([2, 2]);
  expect(receipts.map(({ spend, batchSpend }) => [spend.calls, batchSpend?.calls])).toEqual([
    [1, 1],
    [0, 0],
  ]);
  expect(money().written).toBeCloseTo(paidIn(receipts), 7);
});

test('a repeated preparation sets nothing aside twice', async () => {
  const { requests, prepare, money } = rig(linesOf('a'));
  await prepare(requests[0]);
  const { committed } = money();
  expect(committed).toBeGreaterThan(0);
  await prepare(requests[0]);
  expect(money().committed).toBeCloseTo(committed, 9);
});

test('what a person assesses while the job runs is not asked again', async () => {
  const { requests, prepare, apply, end, store } = rig(linesOf('a'));
  await prepare(requests[0]);
  end(BAD);
  const traceId = traceIdOf(requests[0].chunk.experimentId, Buffer.from(chatLine('a')));
  const human = { name: 'safety', value: 'yes', sourceType: 'HUMAN', sourceId: 'a person', traceId, metadata: {} };
  store.assessments.set(traceId, [{ ...human, assessmentId: 'a-1', createTimeMs: 1 } as never]);
  const receipt = await apply(requests[0]);
  expect(receipt.counts).toMatchObject({ alreadyThere: 1, newVerdicts: 1, failed: 0 });
  expect(standIn.counts.calls).toBe(0);
});

/** Batch inference with a model of which nothing was learned, and with records that the job refuses. */
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../../src/core/errors/errors.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { afterAnswers } from '../../../src/judge/errors.ts';
import { Learned } from '../../../src/judge/models/learned.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { Budget, runScope } from '../../../src/limits/budget.ts';
import { batchAnswers } from '../../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../../src/monitoring/batch/prepare.ts';
import { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { type StandInJudge, startStandInJudge } from '../../doubles/faulty-judge/server.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable, memoryLimits, memoryWriting } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { goodAnswer } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const MODEL = 'anthropic.claude-sonnet-4-6';
const RECORDS = 100;
const environment = testEnvironment();
const scorers = scorersFor().filter(isJudgeScorer).slice(0, 2);
let standIn: StandInJudge;
const before = { ...process.env };

beforeAll(async () => {
  standIn = await startStandInJudge();
  const credentials = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
  Object.assign(process.env, { ...credentials, AWS_ENDPOINT_URL_BEDROCK_RUNTIME: standIn.url });
});
afterAll(async () => {
  process.env = before;
  await standIn?.close();
});
beforeEach(() => standIn.forget());

const sumOf = (numbers: number[]) => numbers.reduce((sum, number) => sum + number, 0);

/** A run with two chunks, whose functions share a table. */
function rig(linesOfEach: number) {
  const memory = new MemoryStorage();
  const table = new MemoryTable();
  const requests = [0, 1].map((chunk): ChunkRequest => {
    const lines = Array.from({ length: linesOfEach }, (_, n) => chatLine(`question ${chunk}-${n}`));
    const request = chunkRequest(memory, lines, {}, chunk);
    return { ...request, options: { ...request.options, judge: 'batch' } };
  });
  const store = new MemoryTraces();
  const depsOf = () => {
    const learned = new Learned(MODEL, memoryLimits(table));
    const shared = { learned: () => learned };
    const limit = new Budget({ table: memoryLimits(table), run: 'run', runUsd: 5 });
    const common = { storage: memory.storage, store, scorers, environment, always: () => undefined, limit };
    return { ...common, ...connectBatchJudge({ ...environment, shared }), ...memoryWriting(), requestId: 'r' };
  };
  const prepare = (more = {}) =>
    Promise.all(requests.map((request) => prepareChunk(request, { ...depsOf(), ...more })));
  const inputOf = (chunk: number): { recordId: string; modelInput: object }[] => {
    const text = `${memory.objects.get(workKeys.batchInput('run', 0, chunk))}`.trim();
    return text.split('\n').map((line) => JSON.parse(line));
  };
  /** The job ends, and has refused this many records of each chunk; `undefined`: it wrote nothing of the chunk. */
  const apply = async (...refused: (number | undefined)[]) => {
    const arn = 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job';
    const errors = sumOf(refused.map((count = linesOfEach) => count));
    const job = { arn, group: 0, records: 2 * linesOfEach, errors, status: 'PartiallyCompleted' };
    memory.put(workKeys.batchJobs('run'), { jobs: [job], converse: [] });
    const modelOutput = { output: { message: { role: 'assistant', content: [{ text: goodAnswer(scorers) }] } } };
    const usage = { inputTokens: 2000, outputTokens: 200, totalTokens: 2200 };
    const error = { errorCode: 400, errorMessage: '`temperature` is deprecated for this model.' };
    for (const [chunk, count] of refused.entries()) {
      if (count === undefined) continue;
      const lines = inputOf(chunk).map(({ recordId }, n) =>
        JSON.stringify({ recordId, ...(n < count ? { error } : { modelOutput: { ...modelOutput, usage } }) }),
      );
      memory.put(workKeys.batchOutput('run', 'job', chunk), lines.join('\n'));
    }
    standIn.forget();
    const applied = requests.map((request) => {
      const deps = { ...depsOf(), workBucket: 'work' };
      const openBatch = () => batchAnswers(request, deps);
      return evaluateChunk({ ...request, phase: 'apply' }, { ...deps, openBatch });
    });
    return Promise.all(applied);
  };
  return { memory, table, prepare, inputOf, apply };
}

test('the functions of a run ask one harmless question, and write no record in a form that is refused', async () => {
  standIn.behave({ models: { '*': { jsonSchema: 'rejected', temperature: 'rejected' } } });
  const { table, prepare, inputOf } = rig(3);
  const prepared = await prepare();
  expect(standIn.counts.answered).toBe(1);
  for (const { modelInput } of [...inputOf(0), ...inputOf(1)]) {
    expect(modelInput).not.toHaveProperty('outputConfig');
    expect(modelInput).not.toHaveProperty('inferenceConfig.temperature');
  }
  const paid = prepared.flatMap(({ canary }) => canary?.usd || []);
  expect(paid).toHaveLength(1);
  expect(table.number(runScope('run'), 'spent') / 1e9).toBeCloseTo(paid[0] ?? Number.NaN, 8);
  // It is known from now on, to each function.
  await prepare();
  expect(standIn.counts.answered).toBe(1);
});

test('what harmless questions cost that failed is paid by their chunk, in each attempt', async () => {
  const { memory, prepare, apply } = rig(RECORDS);
  const spend = { calls: 1, inputTokens: 5, outputTokens: 5, usd: 0.5 };
  const failure = afterAnswers(new PermanentError('JudgeRefused', 'refused'), { verdicts: [], spend });
  const askCanary = () => Promise.reject(failure);
  for (let attempt = 0; attempt < 2; attempt += 1) await expect(prepare({ askCanary })).rejects.toBe(failure);
  await expect(apply()).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
  const receipt = await memory.getJson('', workKeys.receipt('run', 0, 'evaluate', 0, 'r'));
  expect(receipt).toMatchObject({ ok: false, batchSpend: { calls: 2, usd: 1 } });
  await prepare();
  const paid = (await apply(0, 0)).map(({ batchSpend }) => batchSpend?.usd ?? 0);
  for (const usd of paid) expect(usd).toBeGreaterThan(1);
});

test.each([
  ['a tenth of the job, and 20: held', [12, 12], 'held'],
  ['fewer than 20: asked on demand', [9, 9], 'asked'],
  ['all that the job wrote nothing of: held', [undefined, 0], 'held'],
] as [string, (number | undefined)[], string][])('%s', async (_, refused, expected) => {
  const { prepare, apply } = rig(RECORDS);
  await prepare();
  const receipts = await apply(...refused);
  const sum = (of: (receipt: (typeof receipts)[number]) => number) => sumOf(receipts.map(of));
  const records = sumOf(refused.map((count = RECORDS) => count));
  const reason = refused[0] === undefined ? 'unanswered' : 'the model refuses temperature';
  expect(sum(({ batchRefused = {} }) => batchRefused[reason] ?? 0)).toBe(records);
  const held = expected === 'held' ? records : 0;
  expect(standIn.counts.calls).toBe(records - held);
  expect(sum(({ counts }) => counts.heldByBudget)).toBe(held * scorers.length);
  expect(sum(({ reasons }) => reasons.JudgeBatchRefused ?? 0)).toBe(held * scorers.length);
  expect(sum(({ counts }) => counts.newVerdicts)).toBe((2 * RECORDS - held) * scorers.length);
});

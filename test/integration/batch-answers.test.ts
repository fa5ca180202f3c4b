/** Batch inference within the budget, against emulated S3 and DynamoDB and the stand-in judge. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { connectBatchJudge } from '../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { Budget, runScope } from '../../src/limits/budget.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import type { NewAssessment, StoredTrace } from '../../src/mlflow/types.ts';
import { batchAnswers } from '../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../src/monitoring/batch/prepare.ts';
import { evaluateChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { memoryWriting } from '../doubles/memory-table.ts';
import { MemoryTraces } from '../doubles/memory-traces.ts';
import { chunkOf } from '../helpers/chunk-request.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { emulated } from '../helpers/emulated.ts';
import { createItemTable } from '../helpers/item-table.ts';
import { readSpending } from '../helpers/spending.ts';
import { testEnvironment } from '../helpers/test-environment.ts';

const WORK = 'work';
const TABLE = 'budget';
const RUN = 'a-run';
const KEY = 'my-endpoint/AllTraffic/2026/11/20/10/a.jsonl';
const LINE = chatLine('one');
const TRACE = traceIdOf('7', Buffer.from(LINE));

let ministack: MiniStack;
let judge: StandInJudge;
let clients: AwsClients;
let dynamo: DynamoDBClient;
let storage: Storage;
const before = { ...process.env };

beforeAll(async () => {
  ministack = await startMiniStack();
  judge = await startStandInJudge();
  clients = emulatedClients(ministack);
  dynamo = new DynamoDBClient(emulated(ministack.url));
  // The code under test creates its clients from the environment, as in a Lambda.
  const keys = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
  Object.assign(process.env, { ...keys, AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url, AWS_REGION: ministack.region });
  storage = new Storage(clients.s3);
  for (const Bucket of [WORK, 'captures']) await clients.s3.send(new CreateBucketCommand({ Bucket }));
  for (const table of [TABLE, 'answers']) await createItemTable(ministack.url, table);
});

afterAll(async () => {
  process.env = before;
  dynamo?.destroy();
  await judge?.close();
  await ministack?.stop();
});

const captures = { DATA_CAPTURE_S3_BUCKET: 'captures', DATA_CAPTURE_S3_PREFIX: 'my-endpoint/' };
const environment = testEnvironment({ WORK_BUCKET: WORK, ...captures });
const scorers = scorersFor();

async function requestOf(run: string): Promise<ChunkRequest> {
  await storage.putText('captures', KEY, `${LINE}\n`);
  const object = await storage.head('captures', KEY);
  return {
    run,
    attempt: 0,
    options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'batch' },
    chunk: chunkOf([
      {
        bucket: 'captures',
        key: KEY,
        etag: object?.etag ?? '',
        start: 0,
        end: LINE.length,
        firstLine: 1,
        lines: 1,
        objectTimeMs: 0,
      },
    ]),
  };
}

/** MLflow with one trace. */
function storeThat(takes: (assessments: NewAssessment[]) => void) {
  const stored = { traceId: TRACE, assessments: [] } as unknown as StoredTrace;
  return {
    ...new MemoryTraces(),
    getTraces: async () => new Map([[TRACE, stored]]),
    writeAssessments: async (_: StoredTrace, assessments: readonly NewAssessment[]) => {
      takes([...assessments]);
      return { written: assessments.map(({ assessmentId }) => assessmentId), alreadyThere: [] };
    },
  };
}

const working = (more: object = {}) => ({
  ...{ storage, store: storeThat(() => undefined), scorers, environment, always: () => undefined },
  ...{ remainingMs: () => 900_000, requestId: 'prepared', answers: new LimitsTable(dynamo, 'answers'), ...more },
});

test('a job asks nothing at a price that is unknown while there is a budget', async () => {
  const request = await requestOf('unpriced');
  const batch = { ...connectBatchJudge(environment), maxCostUsd: () => null };
  const prepare = (limit?: Budget) => prepareChunk(request, { ...working(), ...batch, ...(limit && { limit }) });
  const limit = new Budget({ table: new LimitsTable(dynamo, TABLE), run: 'unpriced', runUsd: 1 });
  expect(await prepare(limit)).toMatchObject({ records: 0, held: [] });
  expect(await prepare()).toMatchObject({ records: 1 });
});

test('holds the verdicts that the job did not answer while the budget has no room, then asks for them, and pays once', async () => {
  const request = await requestOf(RUN);
  const batch = connectBatchJudge(environment);
  const budgetOf = (runUsd: number) => new Budget({ table: new LimitsTable(dynamo, TABLE), run: RUN, runUsd });
  let written: NewAssessment[] = [];
  const store = storeThat((assessments) => (written = assessments));
  const common = working({ store });

  // Room for the answer of a batch job, which costs half as much as a call.
  const limit = budgetOf(0.02);
  const prepared = await prepareChunk(request, { ...common, ...batch, limit });
  expect(prepared).toMatchObject({ records: 1, held: [] });
  const aside = await readSpending({ client: dynamo, table: TABLE }, runScope(RUN));
  expect(aside).toEqual({ spentUsd: 0, committedUsd: expect.any(Number) });
  expect(aside.committedUsd).toBeGreaterThan(0);

  // The job answers two of the questions.
  const answer = { safety: { rationale: 'Safe.', value: 'yes' }, fluency: { rationale: 'Fluent.', value: 'yes' } };
  const modelOutput = {
    output: { message: { role: 'assistant', content: [{ text: JSON.stringify(answer) }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 2000, outputTokens: 200, totalTokens: 2200 },
  };
  const paid = (2000 * 3 + 200 * 15) / 1e6 / 2;
  const { text = '' } = (await storage.getText(WORK, workKeys.batchInput(RUN, 0, 0))) ?? {};
  const output = `${JSON.stringify({ ...(JSON.parse(text) as object), modelOutput })}\n`;
  await storage.putText(WORK, workKeys.batchOutput(RUN, 'job1', 0), output);
  const job = { arn: 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job1', group: 0, records: 1 };
  await storage.putJson(WORK, workKeys.batchJobs(RUN), { jobs: [{ ...job, status: 'Completed' }], converse: [] });

  const apply = async (runUsd: number, attempt: number) => {
    const own = budgetOf(runUsd);
    const again = { ...request, phase: 'apply' as const, attempt };
    const openBatch = () => batchAnswers(again, { storage, workBucket: WORK, limit: own, ...batch });
    const requestId = `r${attempt}`;
    const deps = { ...common, judge: batch.judge, limit: own, openBatch, requestId };
    return evaluateChunk(again, { ...memoryWriting(), ...deps });
  };
  const asked = scorers.filter(isJudgeScorer).length - 1;

  const held = await apply(paid + 0.001, 0);
  expect(judge.counts.calls).toBe(0);
  expect(held.counts).toMatchObject({ heldByBudget: asked - 2, failed: 0 });
  expect(written.filter(({ sourceType }) => sourceType === 'LLM_JUDGE').map(({ name }) => name)).toEqual([
    'safety',
    'fluency',
  ]);
  expect(held).toMatchObject({ spend: { calls: 0, usd: 0 }, batchSpend: { calls: 1, inputTokens: 2000, usd: paid } });
  expect(await readSpending({ client: dynamo, table: TABLE }, runScope(RUN))).toEqual({
    spentUsd: paid,
    committedUsd: paid,
  });

  const whole = await apply(1, 1);
  expect(judge.counts.calls).toBe(1);
  expect(whole.counts).toMatchObject({ heldByBudget: 0, failed: 0 });
  expect(whole).toMatchObject({ spend: { calls: 1 }, batchSpend: { usd: paid } });
  const after = await readSpending({ client: dynamo, table: TABLE }, runScope(RUN));
  expect(after.spentUsd).toBeCloseTo(paid + (whole.spend.usd ?? Number.NaN), 8);
  expect(after.committedUsd).toBe(after.spentUsd);
});

test('writes the requests of a chunk only after its money is reserved and its state is written', async () => {
  const order: string[] = [];
  const note = (what: string) => order.push(what);
  const kept = new Storage(clients.s3);
  const noting = Object.assign(new Storage(clients.s3), {
    putText: async (bucket: string, key: string, body: string) => {
      note(key.includes('/input/') ? 'requests' : key);
      return kept.putText(bucket, key, body);
    },
    putJson: async () => {
      note('state');
      throw new Error('S3 is away');
    },
  });
  const request = await requestOf('order-run');
  const limit = new Budget({ table: new LimitsTable(dynamo, TABLE), run: 'order-run', runUsd: 1 });
  const failing = prepareChunk(request, { ...working({ storage: noting }), ...connectBatchJudge(environment), limit });
  await expect(failing).rejects.toThrow('S3 is away');
  expect(order).toEqual(['state']);
  expect(await readSpending({ client: dynamo, table: TABLE }, runScope('order-run'))).toEqual({
    spentUsd: 0,
    committedUsd: 0,
  });
});

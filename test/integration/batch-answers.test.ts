/** What a batch job's answer lacks is asked for under the budget: S3, the budget's table and the judge on the wire. */
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { readEnvironment } from '../../lambda/common/environment.ts';
import { Storage } from '../../lambda/common/storage.ts';
import { budgetTable, type ChunkRequest, workKeys } from '../../lambda/contract.ts';
import { recordIdOf } from '../../lambda/judge/batch/record.ts';
import { createBudget, readSpending, runScope } from '../../lambda/judge/budget.ts';
import { connectBatchJudge } from '../../lambda/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../lambda/judge/scorers.ts';
import type { NewAssessment, StoredTrace } from '../../lambda/mlflow/types.ts';
import { batchAnswers } from '../../lambda/run/batch-answers.ts';
import { prepareChunk } from '../../lambda/run/batch-prepare.ts';
import { evaluateChunk } from '../../lambda/run/evaluate-chunk.ts';
import { traceIdOf } from '../../lambda/trace/ids.ts';
import { type AwsClients, destroyClients, emulatedClients } from '../../local/aws-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/ministack.ts';
import { type StandInJudge, startStandInJudge } from '../../local/stand-in-judge/server.ts';
import { chatLine } from '../helpers/deployed-captures.ts';

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
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  dynamo = new DynamoDBClient({ endpoint: ministack.url, region: ministack.region, credentials });
  // As the Lambda has it: clients of its own, from its environment.
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url,
    AWS_REGION: ministack.region,
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  });
  storage = new Storage(clients.s3);
  for (const Bucket of [WORK, 'captures']) await clients.s3.send(new CreateBucketCommand({ Bucket }));
  await dynamo.send(
    new CreateTableCommand({
      TableName: TABLE,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: budgetTable.partitionKey, AttributeType: 'S' }],
      KeySchema: [{ AttributeName: budgetTable.partitionKey, KeyType: 'HASH' }],
    }),
  );
});

afterAll(async () => {
  process.env = before;
  dynamo?.destroy();
  if (clients) destroyClients(clients);
  await judge?.close();
  await ministack?.stop();
});

test('with no room left its verdicts stand and the others are held; with room they are asked for, and paid once', async () => {
  const environment = readEnvironment({
    STACK_PREFIX: 'test',
    WORK_BUCKET: WORK,
    SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
    DATA_CAPTURE_S3_BUCKET: 'captures',
    DATA_CAPTURE_S3_PREFIX: 'my-endpoint/',
    MLFLOW_TRACKING_URI: 'http://127.0.0.1:1',
    MLFLOW_EXPERIMENT_NAME: 'my-endpoint',
    BEDROCK_MODEL_ID: 'anthropic.claude-sonnet-4-6',
  });
  await storage.putText('captures', KEY, `${LINE}\n`);
  const object = await storage.head('captures', KEY);
  const request: ChunkRequest = {
    run: RUN,
    attempt: 0,
    options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'batch' },
    chunk: {
      bucket: 'captures',
      key: KEY,
      etag: object?.etag ?? '',
      start: 0,
      end: LINE.length,
      firstLine: 1,
      lines: 1,
      chunk: 0,
      experimentId: '7',
      objectTimeMs: 0,
    },
  };
  const scorers = scorersFor();
  const batch = connectBatchJudge(environment);
  const budgetOf = (runUsd: number) => createBudget({ client: dynamo, table: TABLE, run: RUN, runUsd });
  const stored = { traceId: TRACE, assessments: [] } as unknown as StoredTrace;
  let written: NewAssessment[] = [];
  const store = {
    getTraces: async () => new Map([[TRACE, stored]]),
    writeAssessments: async (_: StoredTrace, assessments: readonly NewAssessment[]) => {
      written = [...assessments];
      return { written: assessments.map(({ assessmentId }) => assessmentId), alreadyThere: [] };
    },
  };
  const common = { storage, store, scorers, environment, always: () => undefined };

  // Room for the answer of a batch job, which costs half of a call's.
  const limit = budgetOf(0.02);
  expect(await prepareChunk(request, { ...common, ...batch, limit })).toMatchObject({ records: 1, held: [] });
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
  const output = `${JSON.stringify({ recordId: recordIdOf(TRACE), modelOutput })}\n`;
  await storage.putText(WORK, workKeys.batchOutput(RUN, 'job1', 0), output);
  const job = { arn: 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job1', group: 0, records: 1 };
  await storage.putJson(WORK, workKeys.batchJobs(RUN), { jobs: [{ ...job, status: 'Completed' }], converse: [] });

  const apply = async (runUsd: number, attempt: number) => {
    const own = budgetOf(runUsd);
    const again = { ...request, phase: 'apply' as const, attempt };
    const openBatch = () => batchAnswers(again, { storage, workBucket: WORK, limit: own, ...batch });
    const judgeOfChunk = batch.judgeWith(undefined, async () => true);
    const deps = { ...common, judge: judgeOfChunk, limit: own, openBatch, requestId: `r${attempt}` };
    return evaluateChunk(again, { ...deps, remainingMs: () => 900_000 });
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

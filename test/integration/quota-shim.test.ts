/** The quota shim imposes each limit as the service does, and counts what it let through. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BedrockClient, CreateModelInvocationJobCommand } from '@aws-sdk/client-bedrock';
import { BedrockRuntimeClient, ConverseCommand } from '@aws-sdk/client-bedrock-runtime';
import {
  CreateTableCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import { projectPath } from '../../local/project-root.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { type StandInJudge, startStandInJudge } from '../../local/stand-in-judge/server.ts';
import { takeThrottles } from '../../src/core/aws/throttles.ts';
import { BudgetTable } from '../../src/limits/table.ts';
import type { QuotaLimits } from '../doubles/quota-shim/limits.ts';
import { Bucket, usedShare } from '../doubles/quota-shim/meter.ts';
import { type QuotaShim, startQuotaShim } from '../doubles/quota-shim/quota-shim.ts';

const TABLE = 'quota-table';
const MODEL = 'anthropic.claude-sonnet-4-6';

let miniStack: MiniStack;
let judge: StandInJudge;
let mlflow: ReturnType<typeof createServer>;
let directory: string;
const shims: QuotaShim[] = [];
/** The clock of the rates stands still unless a test moves it. */
let ms = Date.UTC(2026, 10, 22);

const config = (endpoint: string) => ({
  endpoint,
  region: miniStack.region,
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  maxAttempts: 1,
});

async function shimWith(limits: QuotaLimits): Promise<QuotaShim> {
  const mlflowUrl = `http://127.0.0.1:${(mlflow.address() as AddressInfo).port}`;
  const shim = await startQuotaShim(
    { aws: miniStack.url, mlflow: mlflowUrl, judge: judge.url },
    limits,
    directory,
    () => ms,
  );
  shims.push(shim);
  return shim;
}

/** The names of the errors, in the order of the calls. */
const outcomes = async (calls: readonly Promise<unknown>[]): Promise<string[]> =>
  (await Promise.allSettled(calls)).map((each) => (each.status === 'fulfilled' ? 'ok' : (each.reason as Error).name));

const converse = (client: BedrockRuntimeClient, maxTokens: number) =>
  client.send(
    new ConverseCommand({
      modelId: MODEL,
      messages: [{ role: 'user', content: [{ text: 'hello' }] }],
      inferenceConfig: { maxTokens },
    }),
  );

const job = (name: string) =>
  new CreateModelInvocationJobCommand({
    jobName: name,
    clientRequestToken: name,
    roleArn: 'arn:aws:iam::000000000000:role/batch',
    modelId: MODEL,
    modelInvocationType: 'Converse',
    inputDataConfig: { s3InputDataConfig: { s3Uri: 's3://quota-bucket/in/' } },
    outputDataConfig: { s3OutputDataConfig: { s3Uri: 's3://quota-bucket/out/' } },
  });

beforeAll(async () => {
  directory = mkdtempSync(projectPath('.local', 'quota-test-'));
  miniStack = await startMiniStack();
  judge = await startStandInJudge();
  mlflow = createServer((_request, response) => response.end('{}')).listen(0, '127.0.0.1');
  const dynamo = new DynamoDBClient(config(miniStack.url));
  await dynamo.send(
    new CreateTableCommand({
      TableName: TABLE,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: 'scope', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'scope', KeyType: 'HASH' }],
    }),
  );
  const s3 = new S3Client({ ...config(miniStack.url), forcePathStyle: true });
  await s3.send(new CreateBucketCommand({ Bucket: 'quota-bucket' }));
  judge.batch.useStorage(s3);
});

afterAll(async () => {
  await Promise.all(shims.map((shim) => shim.stop()));
  await miniStack?.stop();
  await judge?.close();
  mlflow?.close();
  rmSync(directory, { recursive: true, force: true });
});

test('a bucket fills with its rate up to its burst, and may owe', () => {
  let at = 0;
  const bucket = new Bucket({ perSecond: 10, burst: 5 }, () => at);
  expect(Array.from({ length: 6 }, () => bucket.take())).toEqual([true, true, true, true, true, false]);
  at = 100;
  expect([bucket.take(), bucket.take()]).toEqual([true, false]);
  at = 10_000;
  expect(bucket.level).toBe(5);
  bucket.correct(15);
  at = 10_900;
  expect(bucket.take()).toBe(false);
  at = 11_100;
  expect(bucket.take()).toBe(true);
  // It waits for 50 s before it asks for 10, 5 and 10 a second, 100 in all.
  const course = Array.from({ length: 100 }, (_, n): [number, number] => {
    const second = n < 10 ? n / 10 : n < 90 ? 1 + (n - 10) / 5 : 17 + (n - 90) / 10;
    return [(50 + second) * 1000, n + 1];
  });
  expect(usedShare({ asked: 100, throttled: 0, served: 100, course }, 10)).toBeCloseTo(0.5, 2);
});

test('MLflow answers 429 above its rate, and counts both', async () => {
  const shim = await shimWith({ mlflow: { perSecond: 5 } });
  const replies = await Promise.all(Array.from({ length: 8 }, () => fetch(`${shim.urls.mlflow}/api/2.0/mlflow/x`)));
  expect(replies.filter(({ status }) => status === 429)).toHaveLength(3);
  expect(shim.counts.of('mlflow')).toMatchObject({ asked: 8, throttled: 3, served: 5 });
  ms += 200;
  expect((await fetch(`${shim.urls.mlflow}/api/2.0/mlflow/x`)).status).toBe(200);
  expect(shim.counts.operations.get('mlflow GET /api/2.0/mlflow/x')).toBe(9);
});

describe('the judge', () => {
  test('is throttled by calls, by tokens that maxTokens reserves, and for the rest of a day', async () => {
    const calls = await shimWith({ judgeRequestsPerMinute: 180 });
    const client = new BedrockRuntimeClient(config(calls.urls.judge));
    const four = await outcomes(Array.from({ length: 4 }, () => converse(client, 100)));
    expect(four.toSorted()).toEqual(['ThrottlingException', 'ok', 'ok', 'ok']);

    const tokens = await shimWith({ judgeTokensPerMinute: 10_000, outputBurndown: 5 });
    const second = new BedrockRuntimeClient(config(tokens.urls.judge));
    // What was reserved and not used is given back.
    await converse(second, 9000);
    await converse(second, 9000);
    const used = tokens.counts.of('judge tokens').served;
    expect(used).toBeLessThan(2000);
    // The clock stands still, so the bucket has only what these calls leave in it.
    await expect(converse(second, 9800 - used)).resolves.toBeDefined();
    await expect(converse(second, 9800)).rejects.toThrow('Too many tokens, please wait before trying again.');

    const day = await shimWith({ judgeTokensPerDay: 1, outputBurndown: 5 });
    const third = new BedrockRuntimeClient(config(day.urls.judge));
    await converse(third, 100);
    await expect(converse(third, 100)).rejects.toThrow('Too many tokens per day, please wait before trying again.');
    day.nextDay();
    await converse(third, 100);
    expect(day.counts.of('judge tokens a day')).toMatchObject({ asked: 3, throttled: 1 });
  });

  test('takes so many batch jobs at once, and another when one has ended', async () => {
    judge.batch.behavior = { delayMs: 3_600_000 };
    const shim = await shimWith({ batchJobs: 2 });
    const bedrock = new BedrockClient(config(shim.urls.judge));
    const sent = ['one', 'two', 'three'].map((name) => bedrock.send(job(name)));
    expect((await outcomes(sent)).toSorted()).toEqual(['ServiceQuotaExceededException', 'ok', 'ok']);
    for (const each of judge.batch.jobs.slice(0, 1)) each.status = 'Completed';
    await bedrock.send(job('four'));
    expect(shim.counts.of('batch jobs')).toMatchObject({ asked: 4, throttled: 1, served: 3 });
  });
});

describe('DynamoDB', () => {
  const put = (scope: string, bytes: number) =>
    new PutItemCommand({ TableName: TABLE, Item: { scope: { S: scope }, text: { S: 'x'.repeat(bytes) } } });
  const add = (scope: string) => ({
    TableName: TABLE,
    Key: { scope: { S: scope } },
    UpdateExpression: 'ADD spent :one',
    ExpressionAttributeValues: { ':one': { N: '1' } },
  });

  test('charges a write by the whole item, and throttles its partition above 1,000 units a second', async () => {
    const shim = await shimWith({ partitionWrites: 1000 });
    const client = new DynamoDBClient(config(shim.urls.aws));
    await client.send(put('large', 300 * 1024));
    expect(shim.counts.operations.get('dynamodb write units')).toBe(301);
    await client.send(new UpdateItemCommand(add('large')));
    await client.send(new UpdateItemCommand(add('large')));
    await expect(client.send(new UpdateItemCommand(add('large')))).rejects.toThrow(/Throughput exceeds/);
    // Another key is another partition.
    await client.send(new UpdateItemCommand(add('small')));
    await client.send(new GetItemCommand({ TableName: TABLE, Key: { scope: { S: 'small' } }, ConsistentRead: true }));
    expect(shim.counts.operations.get('dynamodb write units')).toBe(3 * 301 + 1);
    expect(shim.counts.operations.get('dynamodb read units')).toBe(1);
  });

  test('that throttles every attempt is waited for, and a table that is missing is not', async () => {
    const shim = await shimWith({ partitionWrites: 1 });
    const client = new DynamoDBClient(config(shim.urls.aws));
    const [table, missing] = [new BudgetTable(client, TABLE), new BudgetTable(client, 'missing')];
    const again = { scope: 'first', expression: 'ADD #spent :one', values: { one: 1 } };
    await table.update(again);
    takeThrottles();
    const refused = [table.update(again), missing.update(again)];
    expect(await outcomes(refused)).toEqual(['BudgetTableThrottled', 'BudgetRefused']);
    expect(takeThrottles().table).toBe(10);
  });

  test('refuses an item that is too large', async () => {
    // The emulator itself refuses 400 KB.
    const shim = await shimWith({ itemBytes: 100 * 1024 });
    const client = new DynamoDBClient(config(shim.urls.aws));
    await expect(client.send(put('huge', 101 * 1024))).rejects.toThrow(/exceeded the maximum allowed size/);
  });
});

test('S3 answers 503 SlowDown, and Step Functions throttles StartExecution', async () => {
  const shim = await shimWith({ s3Writes: { perSecond: 2 }, startExecution: { perSecond: 1 } });
  const s3 = new S3Client({ ...config(shim.urls.aws), forcePathStyle: true });
  const write = (n: number) => s3.send(new PutObjectCommand({ Bucket: 'quota-bucket', Key: `${n}`, Body: 'x' }));
  expect((await outcomes([1, 2, 3].map(write))).toSorted()).toEqual(['SlowDown', 'ok', 'ok']);
  const sfn = new SFNClient(config(shim.urls.aws));
  const start = () =>
    sfn.send(new StartExecutionCommand({ stateMachineArn: 'arn:aws:states:us-east-1:000000000000:stateMachine:none' }));
  expect((await outcomes([start(), start()])).toSorted()).toEqual(['StateMachineDoesNotExist', 'ThrottlingException']);
  expect(shim.counts.of('start execution')).toMatchObject({ asked: 2, throttled: 1, served: 1 });
});

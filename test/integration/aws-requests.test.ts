/**
 * Requests to emulated AWS are held against AWS's models: what breaks a rule is found on each protocol, at the stand-ins, and
 * in the steps that Step Functions takes itself, and it fails the test that made the request.
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { BedrockClient, CreateModelInvocationJobCommand } from '@aws-sdk/client-bedrock';
import { CreateStackCommand } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { InvokeCommand } from '@aws-sdk/client-lambda';
import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { PutSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { CreateStateMachineCommand, DescribeExecutionCommand, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { pseudonymKey, readKey } from '../../src/captures/redact/redaction.ts';
import { removeObject } from '../../src/core/aws/remove-object.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import { putFile, putStream } from '../../src/core/aws/uploads.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { awsRequests } from '../aws-requests/aws-requests.ts';
import { wholeValue } from '../aws-requests/patterns.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { emulated } from '../helpers/emulated.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const ROLE = 'arn:aws:iam::000000000000:role/any';
const BUCKET = 'any-bucket';

let emulator: MiniStack;
let judge: StandInJudge;
let clients: AwsClients;
let bedrock: BedrockClient;
let dynamo: DynamoDBClient;

beforeAll(async () => {
  [emulator, judge] = await Promise.all([startMiniStack(), startStandInJudge()]);
  clients = emulatedClients(emulator);
  bedrock = new BedrockClient(emulated(judge.url));
  dynamo = new DynamoDBClient(emulated(emulator.url));
  await clients.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
});

afterAll(() => Promise.all([emulator.stop(), judge.close()]));

const signed = (service: string) => ({
  authorization: `AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/${service}/aws4_request`,
});

/** Sends a request, also without the SDK's own members, and ignores how the emulator answers. */
async function post(service: string, target: string, body: object): Promise<void> {
  const headers = { ...signed(service), 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': target };
  await fetch(emulator.url, { method: 'POST', headers, body: JSON.stringify(body) });
}

const job = (jobName: string, s3Uri: string) => ({
  jobName,
  roleArn: ROLE,
  modelId: 'anthropic.claude-sonnet-4-6',
  inputDataConfig: { s3InputDataConfig: { s3Uri } },
  outputDataConfig: { s3OutputDataConfig: { s3Uri: 's3://any-bucket/out/' } },
});

/** Runs a state machine of one state to its end. */
async function runState(name: string, state: object, input = '{}'): Promise<void> {
  const definition = JSON.stringify({ StartAt: 'Only', States: { Only: { ...state, End: true } } });
  const { stateMachineArn } = await clients.sfn.send(
    new CreateStateMachineCommand({ name, roleArn: ROLE, definition }),
  );
  const { executionArn } = await clients.sfn.send(new StartExecutionCommand({ stateMachineArn, input }));
  for (;;) {
    const { status } = await clients.sfn.send(new DescribeExecutionCommand({ executionArn }));
    if (status !== 'RUNNING') return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const map = (reader: object, writer: object) => ({
  Type: 'Map',
  ItemProcessor: {
    ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' },
    StartAt: 'Nothing',
    States: { Nothing: { Type: 'Pass', End: true } },
  },
  ItemReader: {
    Resource: 'arn:aws:states:::s3:getObject',
    ReaderConfig: { InputType: 'JSONL' },
    Parameters: { Bucket: BUCKET, Key: 'lines.jsonl', ...reader },
  },
  ResultWriter: { Resource: 'arn:aws:states:::s3:putObject', Parameters: { Bucket: BUCKET, ...writer } },
});

const task = (resource: string, Parameters: object) => ({ Type: 'Task', Resource: resource, Parameters });

/** Wrong requests, and the operation, the member and a part of the rule that each breaks. */
const WRONG: [string, () => Promise<unknown>, [operation: string, where: string, rule: RegExp][]][] = [
  [
    'an S3 key that is too long',
    () => clients.s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: 'ä'.repeat(513), Body: '{}' })),
    [['s3:PutObject', 'Key', /1,024 bytes/]],
  ],
  [
    'values of a form',
    () =>
      clients.cloudFormation.send(
        new CreateStackCommand({
          StackName: 'any',
          Capabilities: ['CAPABILITY_ANY' as 'CAPABILITY_IAM'],
          Tags: [{ Key: '', Value: 'b' }],
        }),
      ),
    [
      ['cloudformation:CreateStack', 'Capabilities[0]', /one of/],
      ['cloudformation:CreateStack', 'Tags[0].Key', /at least 1/],
    ],
  ],
  [
    'a label in the path',
    () => clients.lambda.send(new InvokeCommand({ FunctionName: 'any function' })),
    [['lambda:Invoke', 'FunctionName', /pattern/]],
  ],
  [
    'members that are missing, of another type, or unknown, in JSON',
    () => post('dynamodb', 'DynamoDB_20120810.GetItem', { Key: { a: { N: 1 } }, Table: 'any', ConsistentRead: 'no' }),
    [
      ['dynamodb:GetItem', '', /has none/],
      ['dynamodb:GetItem', 'Key.a.N', /text/],
      ['dynamodb:GetItem', 'ConsistentRead', /true or false/],
      ['dynamodb:GetItem', 'TableName', /required/],
    ],
  ],
  [
    'an operation that does not exist',
    () => post('dynamodb', 'DynamoDB_20120810.FindItem', {}),
    [['unknown', '', /known operation/]],
  ],
  [
    'a protocol that the check cannot read',
    () => fetch(`${emulator.url}/service/any/operation/ListMetrics`, { headers: signed('monitoring') }),
    [['unknown', '', /known operation/]],
  ],
  [
    'a batch job with an underscore in its name, and an equals sign in its location',
    () => bedrock.send(new CreateModelInvocationJobCommand(job('a_b', 's3://any-bucket/runs/a=b/'))),
    [
      ['bedrock:CreateModelInvocationJob', 'jobName', /pattern/],
      ['bedrock:CreateModelInvocationJob', 'inputDataConfig.s3InputDataConfig.s3Uri', /pattern/],
    ],
  ],
  [
    'parameters of an ItemReader and a ResultWriter',
    async () => {
      await clients.s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: 'lines.jsonl', Body: '{}\n' }));
      await runState('map', map({ Kye: 'x' }, { Prefix: 'p'.repeat(1000), Folder: 'x' }));
    },
    [
      ['s3:PutObject', '', /has none/],
      ['s3:PutObject', 'Key', /1,024 bytes/],
      ['s3:GetObject', '', /has none/],
    ],
  ],
  [
    'more data than a state may have',
    () => runState('data', task('arn:aws:states:::lambda:invoke', { FunctionName: 'any', 'Payload.$': '$' }), large()),
    [
      ['stepfunctions:StartExecution', 'input', /at most 262144/],
      ['arn:aws:states:::lambda:invoke', '', /at most 262144/],
    ],
  ],
];

const large = (): string => JSON.stringify({ text: 'x'.repeat(262_144) });

describe('a request that AWS would refuse is found:', () => {
  for (const [what, , found] of WRONG) {
    for (const [operation, where] of found) awsRequests.allow(operation, where, `wrong on purpose: ${what}`);
  }

  it.each(WRONG)('%s', async (_, send, expected) => {
    await send().catch(() => undefined);
    const found = await awsRequests.violations();
    expect(found.map(({ operation, where }) => [operation, where])).toEqual(
      expected.map(([operation, where]) => [operation, where]),
    );
    for (const [index, [, , rule]] of expected.entries()) expect(found[index]?.rule).toMatch(rule);
  });
});

test('right requests are counted, and no rule is found broken', async () => {
  const before = await awsRequests.counts();
  await dynamo.send(new GetItemCommand({ TableName: 'any', Key: { a: { S: 'b' } } })).catch(() => undefined);
  await runState('right', map({}, { Prefix: 'results' }));
  const counts = await awsRequests.counts();
  const more = Object.entries(counts).map(([name, count]) => [name, count - (before[name] ?? 0)]);
  expect(Object.fromEntries(more.filter(([, count]) => count !== 0))).toMatchObject({
    'dynamodb:GetItem': 1,
    'states → s3:GetObject': 1,
    'states → s3:PutObject': 1,
    'stepfunctions:StartExecution': 1,
  });
  expect(await awsRequests.violations()).toEqual([]);
});

test('an object is only replaced in the version that was read, and only made where there is none', async () => {
  const storage = new Storage(clients.s3);
  const content = { body: Buffer.from('x'), type: 'application/gzip' };
  const etag = (await storage.putIf(BUCKET, 'once', content)) ?? '';
  expect(etag).not.toBe('');
  expect(await storage.putIf(BUCKET, 'once', content)).toBeUndefined();
  expect(await storage.putIf(BUCKET, 'once', content, `${etag.slice(1)}0`)).toBeUndefined();
  expect(await storage.putIf(BUCKET, 'once', content, etag)).toBeDefined();
  await removeObject(storage, BUCKET, 'once');
});

test('makes the key of the pseudonyms once, and reads a version that was rotated', async () => {
  const client = new SecretsManagerClient(emulated(emulator.url));
  const made = await pseudonymKey('prod', undefined, client);
  expect(Buffer.from(made.key, 'base64')).toHaveLength(32);
  expect(await pseudonymKey('prod', undefined, client)).toEqual(made);
  const SecretId = 'sagemaker-inference-monitor/prod/pseudonyms';
  await client.send(new PutSecretValueCommand({ SecretId, SecretString: 'another key' }));
  const present = await pseudonymKey('prod', undefined, client);
  expect(present.key).toBe('another key');
  expect(await pseudonymKey('prod', made.keyVersion, client)).toEqual(made);
  expect(await readKey('prod', { VersionStage: 'AWSPREVIOUS' }, client)).toEqual(made);
  expect(await pseudonymKey('prod', '00000000-0000-4000-8000-000000000000', client)).toEqual(present);
  await client.send(new PutSecretValueCommand({ SecretId, SecretBinary: Buffer.from('bytes') }));
  await expect(pseudonymKey('prod', undefined, client)).rejects.toMatchObject({ name: 'PseudonymKeyUnreadable' });
  client.destroy();
});

test('the product’s uploads in parts are right', async () => {
  const storage = new Storage(clients.s3);
  const folder = temporaryFolder('upload-');
  writeFileSync(join(folder, 'large'), Buffer.alloc(6 * 1024 * 1024));
  await putFile(storage, BUCKET, 'large', join(folder, 'large'), 'application/octet-stream');
  await putStream(storage, BUCKET, 'lines', Readable.from(['x'.repeat(6 * 1024 * 1024)]), 'application/jsonlines');
  expect(await uncheckedIn('aws-requests')).toEqual([]);
});

test('a refused request fails the test that makes it, or its file', async () => {
  const folder = temporaryFolder('fixture-');
  const report = join(folder, 'report.json');
  const args = [
    packagePath('node_modules', 'jest', 'bin', 'jest.js'),
    ...['--config', packagePath('test', 'aws-requests', 'fixture', 'jest.config.js')],
    ...['--json', '--outputFile', report],
  ];
  const code = await new Promise((resolve) => execFile(process.execPath, args, (error) => resolve(error?.code)));
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
    testResults: {
      message: string;
      assertionResults: { title: string; status: string; failureMessages: string[] }[];
    }[];
  };
  expect(code).toBe(1);
  const [{ message, assertionResults } = { message: '', assertionResults: [] }] = testResults;
  expect(assertionResults.map(({ title, status }) => [title, status])).toEqual([
    ['a right request', 'passed'],
    ['a wrong request', 'failed'],
    ['a right request after a wrong one', 'passed'],
  ]);
  expect(assertionResults[1]?.failureMessages.join()).toMatch(/s3:PutObject Key: got .*1025 characters/);
  expect(message).toMatch(/s3:PutObject Key: got .*2000 characters/);
  expect(message).toMatch(/No request broke s3:CreateBucket Bucket, which was allowed/);
});

test('every level of tests is checked', () => {
  const environments = readFileSync(packagePath('jest.config.js'), 'utf8').match(/testEnvironment: .*/g);
  expect(environments).toEqual(["testEnvironment: '<rootDir>/test/aws-requests/environment.ts',"]);
});

describe('a pattern of Java', () => {
  it.each([
    ['[a-z]+', 'abc', 'abc!'],
    ['\\A\\S[\\p{Print}]*\\z', 'a b', 'a\u007fb'],
    ['\\p{ASCII}*', 'abc', 'ä'],
    ['(?i)all|[0-9]{2}', 'ALL', '123'],
    ['[\\w+=,.@\\:-]*', 'a:b-', 'a b'],
  ])('%s is for whole values', (pattern, right, wrong) => {
    expect(wholeValue(pattern)?.test(right)).toBe(true);
    expect(wholeValue(pattern)?.test(wrong)).toBe(false);
  });

  it.each(['[a-z&&[^b]]', '[[:alpha:]]', '\\p{IsLatin}+', '\\Qa.b\\E', '[x\\p{Print}]*+'])(
    '%s is not translated',
    (pattern) => expect(wholeValue(pattern)).toBeUndefined(),
  );
});

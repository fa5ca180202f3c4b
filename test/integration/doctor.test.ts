/** The doctor command as a process, against a server that answers for all of AWS and for MLflow. */
import { execFile } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { quotasOf } from '../../bin/doctor/quotas.ts';

type Answer = [status: number, body: unknown, headers?: Record<string, string>];
type Answers = Record<string, Answer | ((message: IncomingMessage) => Answer)>;

const QUOTAS = [
  ['Cross-region model inference tokens per minute for Anthropic Claude Sonnet 4.6', 200_000],
  ['Cross-region model inference requests per minute for Anthropic Claude Sonnet 4.6', 100],
  ['Cross-region model inference tokens per day for Anthropic Claude Sonnet 4.6', 288_000_000],
  ['Cross-region model inference tokens per minute for Anthropic Claude Sonnet 4.5 V1', 7],
  ['Cross-region model inference tokens per minute for Anthropic Claude Sonnet 4.6 1M Context Length', 7],
  ['Global cross-region model inference tokens per minute for Anthropic Claude Sonnet 4.6', 7],
  ['Global cross-region model inference requests per minute for Anthropic Claude Haiku 4.5', 8],
  ['On-demand model inference requests per minute for Anthropic Claude 3.5 Haiku', 9],
].map(([QuotaName, Value]) => ({ QuotaName, Value }) as { QuotaName: string; Value: number });

const denied = (action: string): Answer => [
  403,
  { __type: 'AccessDeniedException', message: `User is not authorized to perform: ${action}` },
  { 'x-amzn-errortype': 'AccessDeniedException' },
];
const xml = (body: string): Answer => [200, `<?xml version="1.0"?>${body}`, { 'content-type': 'application/xml' }];
const listing = (...keys: string[]): Answer =>
  xml(
    `<ListBucketResult><IsTruncated>false</IsTruncated>${keys.map((key) => `<Contents><Key>${key}</Key><Size>9</Size></Contents>`).join('')}</ListBucketResult>`,
  );
const inRegion = (region: string, status = 200): Answer => [status, '', { 'x-amz-bucket-region': region }];

const HEALTHY: Answers = {
  'GET /inference-profiles/us.anthropic.claude-sonnet-4-6': [
    200,
    { models: [{ modelArn: 'arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-6' }] },
  ],
  'GET /foundation-models/anthropic.claude-sonnet-4-6': [
    200,
    { modelDetails: { modelLifecycle: { status: 'ACTIVE' } } },
  ],
  ListServiceQuotas: [200, { Quotas: QUOTAS.slice(0, 2), NextToken: 'more' }],
  'ListServiceQuotas more': [200, { Quotas: QUOTAS.slice(2) }],
  'GET /2016-08-19/account-settings': [
    200,
    { AccountLimit: { ConcurrentExecutions: 1000, UnreservedConcurrentExecutions: 900 } },
  ],
  'HEAD /my-captures': inRegion('us-east-1'),
  'GET /': xml(
    '<ListAllMyBucketsResult><Buckets><Bucket><Name>my-captures</Name></Bucket></Buckets></ListAllMyBucketsResult>',
  ),
  'GET /my-captures': listing('e/AllTraffic/2026/11/20/10/', 'e/AllTraffic/2026/11/20/10/a.jsonl'),
  'GET /my-captures/e/AllTraffic/2026/11/20/10/a.jsonl': [206, '{', { 'content-range': 'bytes 0-0/9', etag: '"a"' }],
  'HEAD /artifacts': inRegion('us-east-1'),
  'GET /version': [200, '3.10.1'],
};

let answers: Answers = HEALTHY;
const server = createServer((message, response) => void answer(message, response));
let url: string;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
beforeEach(() => {
  answers = HEALTHY;
});

async function answer(message: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = '';
  for await (const piece of message) body += piece;
  const operation = message.headers['x-amz-target']?.toString().split('.')[1];
  const path = `${message.method} ${decodeURIComponent((message.url ?? '').split('?')[0] ?? '').replace(/(?<=.)\/$/, '')}`;
  const token = operation && (JSON.parse(body) as { NextToken?: string }).NextToken;
  const name = operation === undefined ? path : [operation, token].filter(Boolean).join(' ');
  const found = answers[name];
  const [status, content, headers = {}] = (typeof found === 'function' ? found(message) : found) ?? [404, `no ${name}`];
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof content === 'string' ? content : JSON.stringify(content));
}

const SETTINGS = {
  STACK_PREFIX: 'prod',
  SAGEMAKER_ENDPOINT_NAME: 'e',
  DATA_CAPTURE_S3_BUCKET: 'my-captures',
  MLFLOW_ARTIFACT_BUCKET: 's3://artifacts/mlflow',
};

/** Runs the command. @returns its lines by their subject, with single spaces */
async function doctor(settings: Record<string, string> = {}, changed: Answers = {}) {
  answers = { ...HEALTHY, ...changed };
  const env = {
    PATH: process.env.PATH ?? '',
    AWS_ENDPOINT_URL: url,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    DOTENV_CONFIG_PATH: '/nonexistent/.env',
    MLFLOW_TRACKING_URI: url,
    ...SETTINGS,
    ...settings,
  };
  const { code, stdout, stderr } = await promisify(execFile)(process.execPath, ['bin/inference-monitor.ts', 'doctor'], {
    env,
  }).then(
    (ended) => ({ code: 0, ...ended }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
  expect(stderr).toBe('');
  const lines = stdout.trimEnd().split('\n');
  // Level, subject and message are aligned.
  for (const line of lines) expect(line).toMatch(/^(ok {5}|warning|error {2}) {2}(?=\S)[a-z ]{9} {2}\S/);
  return { code, lines: lines.map((line) => line.replaceAll(/ +/g, ' ')) };
}
const line = (lines: string[], subject: string) => lines.filter((each) => each.split(' ')[1] === subject);

test('says in one line for each check that a deployment has what it needs', async () => {
  const { code, lines } = await doctor();
  expect(lines).toEqual([
    'ok settings All required settings are set, and all are valid.',
    expect.stringMatching(
      /^ok judge anthropic.claude-sonnet-4-6 is active\. \(The answer is from http:\S+, not from Bedrock\.\)$/,
    ),
    expect.stringMatching(/^ok price 3\.3 and 16\.5 US dollars per million/),
    expect.stringMatching(
      /^ok bedrock 200,000 tokens per minute, 100 requests per minute, 288,000,000 tokens per day: about [\d,]+ captures a day, at [\d,]+ tokens each \([\d,]+ in, [\d,]+ out, which count 5-fold\)/,
    ),
    'ok lambda 1,000 concurrent invocations in the account, 900 not reserved; the chunks of all runs take up to MAX_FUNCTIONS=8.',
    'ok captures There are captures under s3://my-captures/e/, in the region of the stack.',
    expect.stringMatching(/^ok mlflow Version 3\.10\.1\. http:\S+ answers\.$/),
    'ok artifacts The bucket artifacts exists, in the region of the stack.',
  ]);
  expect(code).toBe(0);
  // The tokens of a minute are the narrowest: 200,000 × 1,440 over the tokens of a capture.
  const [, perDay = '', tokens = '', input = '', output = ''] =
    /about ([\d,]+) captures a day, at ([\d,]+) tokens each \(([\d,]+) in, ([\d,]+) out/.exec(lines[3] ?? '') ?? [];
  const [days, each, into, out] = [perDay, tokens, input, output].map((text) => Number(text.replaceAll(',', '')));
  expect(each).toBe((into ?? 0) + 5 * (out ?? 0));
  expect(days).toBe(Math.floor((200_000 * 1_440) / (each ?? 1)));
});

test.each<[string, Answers, string, string, number]>([
  [
    'a bucket that does not exist',
    { 'HEAD /my-captures': [404, ''] },
    'captures',
    'error captures The bucket my-captures does not exist: create it, or correct DATA_CAPTURE_S3_BUCKET.',
    1,
  ],
  [
    'a bucket in another region',
    { 'HEAD /my-captures': inRegion('eu-west-1', 301) },
    'captures',
    'error captures The bucket my-captures is in eu-west-1, and the stack in us-east-1: S3 sends the events of a bucket in its own region, so deploy the stack there.',
    1,
  ],
  [
    'a bucket of another account',
    { 'GET /': xml('<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>') },
    'captures',
    'error captures The bucket my-captures belongs to another account, which also receives its events: deploy the stack in that account.',
    1,
  ],
  [
    'a bucket that the person may not list',
    { 'HEAD /my-captures': inRegion('us-east-1', 403) },
    'captures',
    "warning captures S3 denies you the bucket my-captures: allow yourself s3:ListBucket, or correct DATA_CAPTURE_S3_BUCKET if the bucket is somebody else's.",
    0,
  ],
  [
    'a prefix without captures',
    { 'GET /my-captures': listing('e/notes.txt') },
    'captures',
    'warning captures There are no captures under s3://my-captures/e/: check DATA_CAPTURE_S3_PREFIX, and that Data Capture is on. The stack processes those that come.',
    0,
  ],
  [
    'captures that may not be read',
    { 'GET /my-captures/e/AllTraffic/2026/11/20/10/a.jsonl': [403, '<Error><Code>AccessDenied</Code></Error>'] },
    'captures',
    'warning captures s3://my-captures/e/AllTraffic/2026/11/20/10/a.jsonl could not be read (AccessDenied): allow yourself s3:GetObject, and set DATA_CAPTURE_KMS_KEY_ARN if a KMS key of yours encrypts it.',
    0,
  ],
  [
    'an artifact bucket in another region',
    { 'HEAD /artifacts': inRegion('eu-west-1', 301) },
    'artifacts',
    'error artifacts The bucket artifacts is in eu-west-1, and the stack in us-east-1: the functions write to buckets of their own region only, so no trace would be stored.',
    1,
  ],
  [
    'an MLflow that is too old',
    { 'GET /version': [200, '3.0.0'] },
    'mlflow',
    'error mlflow This MLflow server is too old to store the traces; got: version 3.0.0; expected: version 3.2 or newer, such as a SageMaker mlflow-app; AWS’s tracking servers run 3.0 at most: set another MLFLOW_TRACKING_URI.',
    1,
  ],
  [
    'the Lambdas of a new account',
    {
      'GET /2016-08-19/account-settings': [
        200,
        { AccountLimit: { ConcurrentExecutions: 10, UnreservedConcurrentExecutions: 10 } },
      ],
    },
    'lambda',
    'ok lambda 10 concurrent invocations in the account, 10 not reserved; the chunks of all runs take up to MAX_FUNCTIONS=8.',
    0,
  ],
])('reports %s', async (_, changed, subject, expected, code) => {
  const ran = await doctor({}, changed);
  expect(line(ran.lines, subject)).toEqual([expected]);
  expect(ran.code).toBe(code);
});

test('reports quotas that allow nothing, or are not found, or may not be read', async () => {
  const none = [{ QuotaName: QUOTAS[0]?.QuotaName, Value: 0 }];
  const zero = await doctor({}, { ListServiceQuotas: [200, { Quotas: none }] });
  expect(line(zero.lines, 'bedrock')).toEqual([
    expect.stringMatching(
      /^error bedrock 0 tokens per minute: about 0 captures a day.*raise the quota in Service Quotas\.$/,
    ),
  ]);
  expect(zero.code).toBe(1);
  const unlisted = await doctor({}, { ListServiceQuotas: [200, { Quotas: [] }] });
  expect(line(unlisted.lines, 'bedrock')).toEqual([
    expect.stringMatching(/^warning bedrock Service Quotas has no quota of us\.anthropic\.claude-sonnet-4-6/),
  ]);
  const unread = await doctor(
    {},
    {
      ListServiceQuotas: denied('servicequotas:ListServiceQuotas'),
      'GET /2016-08-19/account-settings': denied('lambda:GetAccountSettings'),
    },
  );
  expect([...line(unread.lines, 'bedrock'), ...line(unread.lines, 'lambda')]).toEqual([
    expect.stringMatching(
      /^warning bedrock This could not be checked .*: allow yourself servicequotas:ListServiceQuotas\.$/,
    ),
    expect.stringMatching(/^warning lambda This could not be checked .*: allow yourself lambda:GetAccountSettings\.$/),
  ]);
  expect(unread.code).toBe(0);
});

test('names settings that are missing or wrong, and checks the rest', async () => {
  const { code, lines } = await doctor({ STACK_PREFIX: '', MAX_CONCURRENCY: '0', SAGEMAKER_ENDPOINT_NAME: '' });
  expect(line(lines, 'settings')).toEqual([
    expect.stringMatching(/^error settings STACK_PREFIX: got nothing \(it is required\); expected: /),
    expect.stringMatching(/^error settings SAGEMAKER_ENDPOINT_NAME: got nothing/),
    expect.stringMatching(/^error settings MAX_CONCURRENCY: got "0"/),
  ]);
  expect(line(lines, 'mlflow')).toEqual([expect.stringMatching(/^ok mlflow Version 3\.10\.1/)]);
  expect(code).toBe(1);
  const nothing = Object.fromEntries([...Object.keys(SETTINGS), 'MLFLOW_TRACKING_URI'].map((name) => [name, '']));
  const alone = await doctor(nothing);
  expect(alone.lines.map((each) => each.split(' ').slice(0, 2).join(' '))).toEqual([
    'warning settings',
    'ok judge',
    'ok price',
    'ok bedrock',
    'ok lambda',
  ]);
  expect(alone.code).toBe(0);
});

test('says what is wrong with the settings where the region is not known', async () => {
  const { code, lines } = await doctor({ AWS_REGION: '', AWS_CONFIG_FILE: '/nonexistent', STACK_PREFIX: '' });
  expect(lines).toEqual([
    expect.stringMatching(/^error settings STACK_PREFIX: got nothing/),
    expect.stringMatching(/^error region The region of the stack is not known: set AWS_REGION/),
  ]);
  expect(code).toBe(1);
});

test.each([
  ['us.anthropic.claude-sonnet-4-6', [200_000 * 1_440, 100 * 1_440, 288_000_000]],
  [
    'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-6',
    [200_000 * 1_440, 100 * 1_440, 288_000_000],
  ],
  ['global.anthropic.claude-sonnet-4-6', [7 * 1_440]],
  ['global.anthropic.claude-haiku-4-5-20251001-v1:0', [8 * 1_440]],
  ['anthropic.claude-3-5-haiku-20241022-v1:0', [9 * 1_440]],
  ['eu.anthropic.claude-sonnet-4-5-20250929-v1:0', [7 * 1_440]],
  ['anthropic.claude-sonnet-4-6', []],
  ['arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2', []],
])('finds the quotas of %s', (model, perDay) => {
  expect(quotasOf(model, QUOTAS).map((quota) => quota.perDay)).toEqual(perDay);
});

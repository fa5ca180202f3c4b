/** Broken set-ups, each named rightly by doctor, against a server that answers for all of AWS and for MLflow. */
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { diagnosisPage } from '../../bin/commands/doctor.ts';
import { type DoctorFlags, diagnose } from '../../bin/doctor/diagnose.ts';
import { checked } from '../../bin/doctor/finding.ts';
import { quotasOf } from '../../bin/doctor/quotas.ts';
import { pageText } from '../../src/core/text/page.ts';
import { type Answer, type Answers, AwsAnswers, withVariables, xml, xmlError } from '../helpers/aws-answers.ts';
import { captureLine } from '../helpers/replay.ts';

const QUOTAS = [
  ['Cross-region model inference tokens per minute for Anthropic Claude Sonnet 4.6', 200_000],
  ['Cross-region model inference requests per minute for Anthropic Claude Sonnet 4.6', 200],
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
/** S3's answer to a listing of a folder: its files with their age, and its folders. */
const listing = (files: Record<string, number>, ...folders: string[]): Answer => {
  const contents = Object.entries(files).map(
    ([key, hours]) =>
      `<Contents><Key>${key}</Key><Size>9</Size><LastModified>${new Date(Date.now() - hours * 3_600_000).toISOString()}</LastModified></Contents>`,
  );
  const prefixes = folders.map((folder) => `<CommonPrefixes><Prefix>${folder}</Prefix></CommonPrefixes>`);
  return xml(
    `<ListBucketResult><IsTruncated>false</IsTruncated>${contents.join('')}${prefixes.join('')}</ListBucketResult>`,
  );
};
/** Listings by the prefix that is asked for. */
const listings =
  (byPrefix: Record<string, Answer>) =>
  ({ url = '' }: IncomingMessage): Answer =>
    byPrefix[new URL(url, 'http://s3').searchParams.get('prefix') ?? ''] ?? listing({});
const CAPTURE = 'e/AllTraffic/2026/11/20/10/a.jsonl';
/** Captures of two variants, in folders of which only the last of each level is listed. */
const arrived = (hours: number) =>
  listings({
    'e/': listing({}, 'e/AllTraffic/', 'e/Old/'),
    'e/AllTraffic/': listing({}, 'e/AllTraffic/2025/', 'e/AllTraffic/2026/'),
    'e/AllTraffic/2026/': listing({}, 'e/AllTraffic/2026/11/'),
    'e/AllTraffic/2026/11/': listing({}, 'e/AllTraffic/2026/11/19/', 'e/AllTraffic/2026/11/20/'),
    'e/AllTraffic/2026/11/20/': listing({}, 'e/AllTraffic/2026/11/20/10/'),
    'e/AllTraffic/2026/11/20/10/': listing({ [CAPTURE]: hours, 'e/AllTraffic/2026/11/20/10/_notes.txt': 0 }),
    'e/Old/': listing({ 'e/Old/b.jsonl': 1000 }),
  });
const inRegion = (region: string, status = 200): Answer => [status, '', { 'x-amz-bucket-region': region }];
/** S3's answer to HEAD if the bucket is not of the account that is expected, if one is. */
const ofAccount =
  (account: string) =>
  ({ headers }: IncomingMessage) =>
    inRegion(
      'us-east-1',
      [undefined, account].includes(headers['x-amz-expected-bucket-owner']?.toString()) ? 200 : 403,
    );

const ARN = 'arn:aws:sagemaker:us-east-1:123456789012';
const KEY = 'arn:aws:kms:us-east-1:123456789012:key/k1';
const secret = (name: string) => `arn:aws:secretsmanager:us-east-1:123456789012:secret:${name}-AbCdEf`;
const STACK = 'SageMakerInferenceMonitoringStack-prod';
const ACCOUNT_SETTINGS = 'GET /2016-08-19/account-settings';
const BEDROCK_QUOTAS = 'ListServiceQuotas bedrock';
const BY_NAME = 'GET /api/2.0/mlflow/experiments/get-by-name';
const PROFILE = 'GET /inference-profiles/us.anthropic.claude-sonnet-4-6';
const AVAILABLE = 'GET /foundation-model-availability/anthropic.claude-sonnet-4-6';
const VPC = { VPC_SUBNET_IDS: 'subnet-1', VPC_SECURITY_GROUP_IDS: 'sg-1' };
const ok = (body: object): Answer => [200, body];
const endpoint = (more: object = {}, capture: object = {}): Answer =>
  ok({
    EndpointName: 'e',
    EndpointArn: `${ARN}:endpoint/e`,
    EndpointConfigName: 'e-config',
    EndpointStatus: 'InService',
    CreationTime: 1795000000,
    LastModifiedTime: 1795000000,
    ProductionVariants: [{ VariantName: 'AllTraffic' }],
    DataCaptureConfig: {
      EnableCapture: true,
      CaptureStatus: 'Started',
      CurrentSamplingPercentage: 100,
      DestinationS3Uri: 's3://my-captures',
      KmsKeyId: '',
      ...capture,
    },
    ...more,
  });
const withEndpoint = (more: object, capture?: object): Answers => ({ DescribeEndpoint: endpoint(more, capture) });
const endpointConfig = (...modes: string[]): Answer =>
  ok({
    EndpointConfigName: 'e-config',
    DataCaptureConfig: {
      EnableCapture: true,
      InitialSamplingPercentage: 100,
      DestinationS3Uri: 's3://my-captures',
      CaptureOptions: modes.map((CaptureMode) => ({ CaptureMode })),
      CaptureContentTypeHeader: { JsonContentTypes: ['application/json'] },
    },
  });
const availability = (more: object = {}): Answer =>
  ok({
    modelId: 'anthropic.claude-sonnet-4-6',
    agreementAvailability: { status: 'AVAILABLE' },
    authorizationStatus: 'AUTHORIZED',
    entitlementAvailability: 'AVAILABLE',
    regionAvailability: 'AVAILABLE',
    ...more,
  });
const message = `Could not find endpoint "${ARN}:endpoint/e".`;
const NO_ENDPOINT: Answer = [400, { __type: 'ValidationException', message }];
const ofStack = (value: string) => ({ key: 'inference_monitor.stack.e', value });
const ofStaging = ok({ experiment: { experiment_id: '7', name: 'e', tags: [ofStack('staging')] } });
const RENAMED = { experiment_id: '7', name: 'Ann’s', tags: [ofStack('prod')] };
const HEALTHY: Answers = {
  GetCallerIdentity: xml(
    '<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:sts::123456789012:assumed-role/Admin/me</Arn><UserId>AROA:me</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>',
  ),
  DescribeEndpoint: endpoint(),
  DescribeEndpointConfig: endpointConfig('Input', 'Output'),
  ListEndpoints: [200, { Endpoints: [{ EndpointName: 'garden', EndpointStatus: 'InService' }] }],
  [PROFILE]: ok({ models: [{ modelArn: 'arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-6' }] }),
  'GET /foundation-models/anthropic.claude-sonnet-4-6': ok({ modelDetails: { modelLifecycle: { status: 'ACTIVE' } } }),
  [AVAILABLE]: availability(),
  'ListServiceQuotas bedrock': [200, { Quotas: QUOTAS.slice(0, 2), NextToken: 'more' }],
  'ListServiceQuotas bedrock more': [200, { Quotas: QUOTAS.slice(2) }],
  [ACCOUNT_SETTINGS]: ok({ AccountLimit: { ConcurrentExecutions: 1000, UnreservedConcurrentExecutions: 900 } }),
  'HEAD /my-captures': ofAccount('123456789012'),
  'GET /my-captures': arrived(3),
  'GET /my-captures?notification': xml(
    '<NotificationConfiguration><QueueConfiguration><Id>q</Id><Queue>arn:aws:sqs:us-east-1:123456789012:q</Queue><Event>s3:ObjectRemoved:*</Event></QueueConfiguration></NotificationConfiguration>',
  ),
  'HEAD /artifacts': ofAccount('123456789012'),
  'GET /version': [200, '3.17.2'],
  'GET /api/2.0/mlflow/experiments/get-by-name': [404, { error_code: 'RESOURCE_DOES_NOT_EXIST', message: 'no' }],
  'POST /api/2.0/mlflow/experiments/search': [200, {}],
  'POST /api/3.0/mlflow/traces': [400, { error_code: 'INVALID_PARAMETER_VALUE', message: "Missing value for 'trace'" }],
  'POST /v1/traces': [400, { detail: 'Invalid OpenTelemetry format - no spans found' }],
  DescribeStacks: xmlError(400, 'ValidationError', `Stack with id ${STACK} does not exist`),
  DescribeStackResources: xmlError(400, 'ValidationError', 'Stack for the processor does not exist'),
};

const aws = new AwsAnswers();
beforeAll(() => aws.start());
afterAll(() => aws.close());

const variables = (settings: Record<string, string>): Record<string, string> =>
  aws.variables({
    MLFLOW_TRACKING_URI: aws.url,
    STACK_PREFIX: 'prod',
    SAGEMAKER_ENDPOINT_NAME: 'e',
    DATA_CAPTURE_S3_BUCKET: 'my-captures',
    MLFLOW_ARTIFACT_BUCKET: 's3://artifacts/mlflow',
    BEDROCK_MODEL_ID: 'us.anthropic.claude-sonnet-4-6',
    ...settings,
  });

/** Runs the checks in this process, with the environment of a person. @returns a line for each finding, in their order */
async function doctor(settings: Record<string, string> = {}, changed: Answers = {}, flags: DoctorFlags = {}) {
  aws.answers = { ...HEALTHY, ...changed };
  const diagnosis = await withVariables(variables(settings), () => diagnose(flags));
  const lines = diagnosis.findings.map(({ level, check, message, repair }) =>
    [level, check, message, ...(repair ? ['→', repair] : [])].join(' ').replaceAll(/\s+/g, ' '),
  );
  return { ...diagnosis, lines };
}
const about = (lines: string[], check: string) => lines.filter((each) => each.split(' ')[1] === check);

const FINE = [
  'ok account You are arn:aws:sts::123456789012:assumed-role/Admin/me, in the account 123456789012 and the region us-east-1 (from AWS_REGION of the environment).',
  'ok settings All required settings are set, and all are valid.',
  'ok endpoint The endpoint e is InService.',
  'ok capture 100% of the requests are captured to s3://my-captures, application/json as text, other bodies as base64, which the stack decodes.',
  'ok captures The newest capture under s3://my-captures/e/ came 3 h ago.',
  'ok events The deployment lets the bucket my-captures send its events to EventBridge. Its other notifications (1) stay.',
  expect.stringMatching(
    /^ok mlflow Version 3\.17\.2 answers at http:\S+, and takes traces by the REST API and OTLP\.$/,
  ),
  'ok artifacts The bucket artifacts exists, in the region of the stack.',
  expect.stringMatching(
    /^ok judge anthropic.claude-sonnet-4-6 is active\. \(The answer is from http:\S+, not from Bedrock\.\)$/,
  ),
  'ok access The account may use anthropic.claude-sonnet-4-6.',
  expect.stringMatching(/^ok price 3\.3 and 16\.5 US dollars per million/),
  expect.stringMatching(
    /^ok quota 200,000 tokens per minute, 200 requests per minute, 288,000,000 tokens per day: about [\d,]+ captures a day, at [\d,]+ tokens each \([\d,]+ in, [\d,]+ out, which count 5-fold\)\. More are throttled\. → judge fewer captures/,
  ),
  'ok lambda 1,000 concurrent invocations in the account, 900 not reserved; the chunks of all runs take up to MAX_FUNCTIONS=8.',
  'warning stack No stack with STACK_PREFIX=prod is deployed in us-east-1. → deploy it: inference-monitor deploy',
];

test('says in one line for each check that a deployment has what it needs', async () => {
  const { healthy, lines, counts } = await doctor();
  expect(lines).toEqual(FINE);
  expect({ healthy, counts }).toEqual({ healthy: true, counts: { ok: 13, warning: 1, error: 0, unknown: 0 } });
  // The tokens of a minute are the narrowest: 200,000 × 1,440 over the tokens of a capture.
  const [, perDay = '', tokens = '', input = '', output = ''] =
    /about ([\d,]+) captures a day, at ([\d,]+) tokens each \(([\d,]+) in, ([\d,]+) out/.exec(
      about(lines, 'quota')[0] ?? '',
    ) ?? [];
  const [days, each, into, out] = [perDay, tokens, input, output].map((text) => Number(text.replaceAll(',', '')));
  expect(each).toBe((into ?? 0) + 5 * (out ?? 0));
  expect(days).toBe(Math.floor((200_000 * 1_440) / (each ?? 1)));
});

test('says what the newest captures are like, if it is asked', async () => {
  const csv = (data: string) => ({ data, encoding: 'CSV', contentType: 'text/csv' });
  const parquet = { data: 'UEFSMQ==', encoding: 'BASE64', contentType: 'application/x-parquet' };
  const replies = [...Array<string>(5).fill('pred\nyes\nno\n'), '1\n'];
  const body = replies.map((reply, at) => `${captureLine(`e${at}`, at, parquet, csv(reply))}\n`).join('');
  const file = `<Key>e/AllTraffic/new.jsonl</Key><Size>${body.length}</Size><ETag>"1"</ETag>`;
  const listed = xml(
    `<ListBucketResult><Name>my-captures</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents>${file}<LastModified>${new Date().toISOString()}</LastModified></Contents></ListBucketResult>`,
  );
  const answers: Answers = {
    'GET /my-captures': (request) => (request.url?.includes('delimiter') ? arrived(3)(request) : listed),
    'GET /my-captures/e/AllTraffic/new.jsonl': [200, body, { etag: '"1"' }],
  };
  const { lines } = await doctor({}, answers, { captures: 5 });
  expect(about(lines, 'shape')).toEqual([
    'ok shape Requests and replies: 5 × tabular-csv (binary to csv).',
    'warning shape Of 5 CSV replies, all begin with one row that stands nowhere else in them: a header. → set CSV_HEADER=true',
    'ok shape Rows of requests: none.',
    expect.stringContaining(' shape Labels join 0 captures by inferenceId and 5 by eventId. Predictions: 5 × '),
    'ok shape Error replies, which are not judged: none.',
    'ok shape Other captures that no judge reads: 5 × tabular-csv.',
    'ok shape Personal data and secrets are in 0 captures; by kind: none; by field: none.',
  ]);
  const none = await doctor({}, { 'GET /my-captures': arrived(3) }, { captures: 5 });
  expect(about(none.lines, 'shape')).toEqual(['warning shape There are no captures of the last 90 days to look at.']);
});

test.each([
  [
    'claude-sonnet-4',
    'anthropic.claude-sonnet-4-6, anthropic.claude-sonnet-4-20250514-v1:0, anthropic.claude-sonnet-4-5-20250929-v1:0; or its price in JUDGE_PRICES, such as {"claude-sonnet-4":{"input":3,"output":15}}',
  ],
  ['us.anthropic.claude-sonet-4-6', 'us.anthropic.claude-sonnet-4-6; or its price'],
  ['zzzzzzzz', 'a Bedrock model in the price table, or its price'],
])(
  'the misspelt model %s is named with similar ones, and no advice switches the budget off',
  async (model, similar) => {
    const { findings } = await doctor({ BEDROCK_MODEL_ID: model });
    const found = findings.find(({ level, check }) => level === 'error' && check === 'settings');
    expect(found?.message).toBe(`BEDROCK_MODEL_ID: got ${model}, without a price, which the budget needs.`);
    expect(found?.repair?.slice(0, 'expected: '.length + similar.length)).toBe(`expected: ${similar}`);
  },
);

const shadow = [{ VariantName: 'Shadow' }];
const old = (hours: number): Answers => ({ 'GET /my-captures': arrived(hours) });
const ofState = (KeyState: string): Answer => ok({ KeyMetadata: { KeyState } });
const items = (of: string, ...all: string[]): Answer =>
  xml(`<Describe${of}Response>${all.map((one) => `<item>${one}</item>`).join('')}</Describe${of}Response>`);
const metric = (...MetricDataResults: object[]): Answer => ok({ MetricDataResults });

/** The check whose lines differ from those of a good set-up, and the answers and settings that do. */
const BROKEN: Record<string, [check: string, answers?: Answers, settings?: Record<string, string>]> = {
  'a misspelt setting': ['names', {}, { EVALUATION_SAMPEL_RATE: '0.1' }],
  'an endpoint that does not exist': ['endpoint', { DescribeEndpoint: NO_ENDPOINT }],
  'an endpoint with a misspelt name': [
    'endpoint',
    { DescribeEndpoint: NO_ENDPOINT },
    { SAGEMAKER_ENDPOINT_NAME: 'gardn', DATA_CAPTURE_S3_PREFIX: 'e' },
  ],
  'an endpoint that has failed': ['endpoint', withEndpoint({ EndpointStatus: 'Failed', FailureReason: 'no capacity' })],
  'an endpoint with a variant that is not counted': [
    'endpoint',
    withEndpoint({ ProductionVariants: [{ VariantName: 'AllTraffic' }, { VariantName: 'b' }] }),
  ],
  'a shadow variant that is not named': ['endpoint', withEndpoint({ ShadowProductionVariants: shadow })],
  'a shadow variant that is none any more': [
    'endpoint',
    { DescribeEndpointConfig: ok({ EndpointConfigName: 'e-config', ShadowProductionVariants: shadow }) },
    { SHADOW_VARIANTS: 'Old,Shadow' },
  ],
  'Data Capture that is off': ['capture', withEndpoint({ DataCaptureConfig: undefined })],
  'Data Capture that is stopped': ['capture', withEndpoint({}, { CaptureStatus: 'Stopped' })],
  'Data Capture of nothing': ['capture', withEndpoint({}, { CurrentSamplingPercentage: 0 })],
  'Data Capture of requests alone': ['capture', { DescribeEndpointConfig: endpointConfig('Input') }],
  'Data Capture of replies alone': ['capture', { DescribeEndpointConfig: endpointConfig('Output') }],
  'Data Capture to another bucket': ['capture', withEndpoint({}, { DestinationS3Uri: 's3://others/captures/' })],
  'captures encrypted with a key that the settings do not name': [
    'capture',
    { ...withEndpoint({}, { KmsKeyId: 'alias/captures' }), DescribeKey: ok({ KeyMetadata: { Arn: KEY } }) },
  ],
  'a bucket that does not exist': ['captures', { 'HEAD /my-captures': [404, ''] }],
  'a bucket in another region': ['captures', { 'HEAD /my-captures': inRegion('eu-west-1', 301) }],
  'a bucket of another account': ['captures', { 'HEAD /my-captures': ofAccount('210987654321') }],
  'a bucket that the person may not list': ['captures', { 'HEAD /my-captures': inRegion('us-east-1', 403) }],
  'a prefix without captures': ['captures', { 'GET /my-captures': listings({ 'e/': listing({ 'e/notes.txt': 0 }) }) }],
  'no captures for a day, while the endpoint is used': [
    'captures',
    { ...old(49), GetMetricData: metric({ Id: 'm0', Timestamps: [3600, 7200], Values: [1000, 234] }) },
  ],
  'no captures for a day, and no calls of the endpoint': ['captures', { ...old(25), GetMetricData: metric() }],
  'artifacts in a bucket of another account': ['artifacts', { 'HEAD /artifacts': ofAccount('210987654321') }],
  'artifacts in a bucket of the account that the settings name': [
    'artifacts',
    { 'HEAD /artifacts': ofAccount('210987654321') },
    { MLFLOW_ARTIFACT_BUCKET: 's3://210987654321@artifacts/mlflow' },
  ],
  'an artifact bucket in another region': ['artifacts', { 'HEAD /artifacts': inRegion('eu-west-1', 301) }],
  'an MLflow that is too old': ['mlflow', { 'GET /version': [200, '3.0.0'] }],
  'an MLflow that cannot be reached': ['mlflow', {}, { MLFLOW_TRACKING_URI: 'http://127.0.0.1:9' }],
  'an MLflow that wants another login': ['mlflow', { 'GET /version': [401, 'Unauthorized'] }],
  'a gateway that does not forward OTLP': ['mlflow', { 'POST /v1/traces': [404, 'no'] }],
  'an experiment of another stack': ['mlflow', { 'GET /api/2.0/mlflow/experiments/get-by-name': ofStaging }],
  'an experiment that may be shared': ['mlflow', { [BY_NAME]: ofStaging }, { MLFLOW_EXPERIMENT_SHARED: 'true' }],
  'an experiment that a person has renamed': [
    'mlflow',
    { 'POST /api/2.0/mlflow/experiments/search': ok({ experiments: [RENAMED] }) },
  ],
  'an MLflow app that does not exist': [
    'mlflow',
    { DescribeMlflowApp: [400, { __type: 'ResourceNotFound', message: 'no' }] },
    { MLFLOW_TRACKING_URI: `${ARN}:mlflow-app/app-1` },
  ],
  'an MLflow app with another artifact bucket': [
    'artifacts',
    { DescribeMlflowApp: [200, { Status: 'Created', MlflowVersion: '3.4.0', ArtifactStoreUri: 's3://mlflow-own/x' }] },
    { MLFLOW_TRACKING_URI: `${ARN}:mlflow-app/app-1`, SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: 'self' },
  ],
  'a model that does not exist': [
    'judge',
    { [PROFILE]: [404, { message: 'no' }, { 'x-amzn-errortype': 'ResourceNotFoundException' }] },
  ],
  'a model without access': [
    'access',
    { [AVAILABLE]: availability({ agreementAvailability: { status: 'NOT_AVAILABLE' } }) },
  ],
  'a quota of 0': ['quota', { [BEDROCK_QUOTAS]: ok({ Quotas: [{ ...QUOTAS[0], Value: 0 }] }) }],
  'a size above the quota': ['quota', {}, { SIZE: 'large' }],
  'a quota that is not listed': ['quota', { 'ListServiceQuotas bedrock': [200, { Quotas: [] }] }],
  'the Lambdas of a new account': [
    'lambda',
    { [ACCOUNT_SETTINGS]: ok({ AccountLimit: { ConcurrentExecutions: 9, UnreservedConcurrentExecutions: 9 } }) },
  ],
  'quotas that may not be read': ['lambda', { [ACCOUNT_SETTINGS]: denied('lambda:GetAccountSettings') }],
  'subnets of two VPCs': [
    'vpc',
    {
      DescribeSubnets: items('Subnets', '<vpcId>vpc-1</vpcId>', '<vpcId>vpc-2</vpcId>'),
      DescribeSecurityGroups: items('SecurityGroups', '<groupId>sg-1</groupId>'),
    },
    { ...VPC, VPC_SUBNET_IDS: 'subnet-1,subnet-2' },
  ],
  'a subnet that does not exist': [
    'vpc',
    { DescribeSubnets: xmlError(400, 'InvalidSubnetID.NotFound', "The subnet ID 'subnet-1' does not exist") },
    VPC,
  ],
  'a key that is disabled': ['keys', { DescribeKey: ofState('PendingDeletion') }, { WORK_KMS_KEY_ARN: KEY }],
  'a secret that does not exist': [
    'secrets',
    { DescribeSecret: [400, { __type: 'ResourceNotFoundException', message: 'no' }] },
    { MLFLOW_SECRET_ARN: secret('mlflow'), MLFLOW_TRACKING_TOKEN: 'own' },
  ],
  'a secret whose key is disabled': [
    'secrets',
    { DescribeSecret: ok({ KmsKeyId: KEY }), DescribeKey: ofState('Disabled') },
    { REPLAY_HEADERS_SECRET_ARN: secret('replay') },
  ],
  'an ARN of another account': [
    'account',
    { DescribeKey: ofState('Enabled') },
    { WORK_KMS_KEY_ARN: KEY.replace('123456789012', '999999999999') },
  ],
  'a stack whose creation was rolled back': [
    'stack',
    {
      DescribeStacks: xml(
        `<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>${STACK}</StackName><StackStatus>ROLLBACK_COMPLETE</StackStatus></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`,
      ),
    },
  ],
};

/** The lines of that check by set-up. To record what is printed now: `UPDATE_FINDINGS=1`, this file, and `npm run format`. */
const RECORDED = `${__dirname}/doctor-findings.json`;
const recorded = JSON.parse(readFileSync(RECORDED, 'utf8')) as Record<string, string[]>;
const printed: Record<string, string[]> = {};
afterAll(() => {
  if (process.env.UPDATE_FINDINGS) writeFileSync(RECORDED, JSON.stringify(printed, null, 2));
});

test.each(Object.entries(BROKEN))('names %s', async (name, [check, changed = {}, settings = {}]) => {
  // The double of an MLflow app is the server itself.
  const self: Record<string, string> = settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT
    ? { SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: aws.url }
    : {};
  const { healthy, lines, findings } = await doctor({ ...settings, ...self }, changed);
  const said = about(lines, check).map((line) => line.replaceAll(aws.url, 'http://aws'));
  printed[name] = said;
  if (!process.env.UPDATE_FINDINGS) expect(said).toEqual(recorded[name]);
  expect(healthy).toBe(!said.some((line) => line.startsWith('error')));
  // No other check takes it for its own fault.
  expect(findings.filter((each) => each.level === 'error' && each.check !== check)).toEqual([]);
});

test('says that a stack is missing if --stack names it', async () => {
  const { healthy, lines } = await doctor({}, {}, { stack: 'prod' });
  expect(about(lines, 'stack')).toEqual([expect.stringMatching(/^error stack No stack with STACK_PREFIX=prod/)]);
  expect(healthy).toBe(false);
});

test('skips AWS checks without credentials, with expired ones, and without a region', async () => {
  const missing = await doctor({ AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' });
  expect(missing.lines).toEqual([
    expect.stringMatching(
      /^error account AWS credentials are missing \(.*\)\. → AWS_ACCESS_KEY_ID and .*\. The checks that ask AWS are left out$/,
    ),
    FINE[1],
  ]);
  const message = 'The security token included in the request is expired';
  const expired = await doctor({}, { GetCallerIdentity: xmlError(403, 'ExpiredToken', message) });
  expect(expired.lines).toEqual([
    expect.stringMatching(
      /^error account The AWS credentials have expired \(.*ExpiredToken.*\)\. → fresh credentials: aws sso login/,
    ),
    FINE[1],
  ]);
  const nowhere = await doctor({ AWS_REGION: '', STACK_PREFIX: '' });
  expect(nowhere.lines).toEqual([
    expect.stringMatching(/^error account The region of the stack is not known\. → set AWS_REGION/),
    expect.stringMatching(/^error settings STACK_PREFIX: got nothing/),
  ]);
  for (const { healthy } of [missing, expired, nowhere]) expect(healthy).toBe(false);
});

test('names settings that are missing or wrong, and checks the rest', async () => {
  const { healthy, lines } = await doctor({ STACK_PREFIX: '', MAX_FUNCTIONS: '-1', SAGEMAKER_ENDPOINT_NAME: '' });
  expect(about(lines, 'settings')).toEqual([
    expect.stringMatching(/^error settings STACK_PREFIX: got nothing \(it is required\)\. → expected: /),
    expect.stringMatching(/^error settings SAGEMAKER_ENDPOINT_NAME: got nothing/),
    expect.stringMatching(/^error settings MAX_FUNCTIONS: got "-1"/),
  ]);
  expect(about(lines, 'mlflow')).toEqual([expect.stringMatching(/^ok mlflow Version 3\.17\.2/)]);
  expect(healthy).toBe(false);
  const names = ['STACK_PREFIX', 'SAGEMAKER_ENDPOINT_NAME', 'DATA_CAPTURE_S3_BUCKET', 'MLFLOW_TRACKING_URI'];
  const alone = await doctor(Object.fromEntries([...names, 'MLFLOW_ARTIFACT_BUCKET'].map((name) => [name, ''])));
  expect(alone.findings.map(({ level, check }) => `${level} ${check}`).join()).toBe(
    'ok account,warning settings,ok judge,ok access,ok price,ok quota,ok lambda',
  );
  expect(alone.healthy).toBe(true);
});

test('does not report a missing stack if it has no permission to look for it', async () => {
  const { lines, healthy } = await doctor({}, { DescribeStacks: xmlError(403, 'AccessDenied', 'no') });
  expect([...about(lines, 'events'), ...about(lines, 'stack')]).toEqual([
    expect.stringMatching(
      /^warning events The bucket my-captures does not send its events .* or switch it on if it is/,
    ),
    'unknown stack No permission to check stack. → needs cloudformation:DescribeStacks and cloudformation:DescribeStackResources',
  ]);
  expect(healthy).toBe(true);
});

test('does not wait for a service that does not answer', async () => {
  jest.useFakeTimers();
  try {
    const found = checked('quota', 'any:Action', () => new Promise(() => {}));
    await jest.advanceTimersByTimeAsync(20_000);
    const message = 'quota: there was no answer within 20 s.';
    expect(await found).toMatchObject([{ check: 'quota', level: 'unknown', message }]);
  } finally {
    jest.useRealTimers();
  }
});

test('prints the findings in groups, each in one line of a pipe', async () => {
  const diagnosis = await doctor({}, { DescribeEndpoint: endpoint({ DataCaptureConfig: undefined }) });
  const text = pageText(diagnosisPage(diagnosis));
  expect(text).toMatch(
    /^── Endpoint ──\nok +endpoint +The endpoint e is .*\nerror +capture +Data Capture is off.* → /m,
  );
  expect(text).toMatch(/\n\n12 ok, 1 warning, 1 error\n$/);
  const found = text.replaceAll(/ +/g, ' ').split('\n');
  expect(found).toEqual(expect.arrayContaining(diagnosis.lines));
});

const OF_US = [200_000 * 1_440, 200 * 1_440, 288_000_000];
test.each([
  ['us.anthropic.claude-sonnet-4-6', OF_US],
  ['arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-6', OF_US],
  ['global.anthropic.claude-sonnet-4-6', [7 * 1_440]],
  ['global.anthropic.claude-haiku-4-5-20251001-v1:0', [8 * 1_440]],
  ['anthropic.claude-3-5-haiku-20241022-v1:0', [9 * 1_440]],
  ['eu.anthropic.claude-sonnet-4-5-20250929-v1:0', [7 * 1_440]],
  ['anthropic.claude-sonnet-4-6', []],
  ['arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2', []],
])('finds the quotas of %s', (model, perDay) => {
  expect(quotasOf(model, QUOTAS).map((quota) => quota.perDay)).toEqual(perDay);
});

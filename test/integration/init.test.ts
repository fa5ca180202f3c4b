/** `init` with flags, with answers of a person, and on a terminal of its own. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { parse } from 'dotenv';
import initCommand from '../../bin/commands/init.ts';
import { quickClients } from '../../bin/doctor/finding.ts';
import { collect, foundAccount } from '../../bin/init/collect.ts';
import { openPrompt } from '../../bin/init/prompt.ts';
import { dotenvText } from '../../src/core/settings/dotenv-file.ts';
import { AwsAnswers, withVariables, xml } from '../helpers/aws-answers.ts';
import { runHere } from '../helpers/command-here.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const ARN = 'arn:aws:sagemaker:us-east-1:123456789012';
const APP = `${ARN}:mlflow-app/app-ABC`;
const KEY = 'arn:aws:kms:us-east-1:123456789012:key/k1';
const NO_KEYS = { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' };
const CAPTURE = {
  EnableCapture: true,
  CaptureStatus: 'Started',
  CurrentSamplingPercentage: 100,
  DestinationS3Uri: 's3://my-captures/datacapture',
  KmsKeyId: 'alias/captures',
};
const described = (DataCaptureConfig: object | undefined) => ({
  EndpointName: 'garden',
  EndpointStatus: 'InService',
  ProductionVariants: [{ VariantName: 'a' }, { VariantName: 'b' }],
  ShadowProductionVariants: [{ VariantName: 'c' }],
  DataCaptureConfig,
});

const Endpoints = [
  { EndpointName: 'old', EndpointStatus: 'Failed' },
  { EndpointName: 'garden', EndpointStatus: 'InService' },
];
const Summaries = [
  { Arn: `${ARN}:mlflow-app/app-OLD`, Name: 'gone', Status: 'Deleted', MlflowVersion: '3.4.0' },
  { Arn: APP, Name: 'team', Status: 'Created', MlflowVersion: '3.10.1' },
];

/** What the answers below say of the endpoint and of the app, and the name of the stack. */
const OF_GARDEN = {
  STACK_PREFIX: 'prod',
  SAGEMAKER_ENDPOINT_NAME: 'garden',
  DATA_CAPTURE_S3_BUCKET: 'my-captures',
  DATA_CAPTURE_S3_PREFIX: 'datacapture/garden/',
  DATA_CAPTURE_KMS_KEY_ARN: KEY,
  ENDPOINT_VARIANTS: 'a,b',
  SHADOW_VARIANTS: 'c',
  MLFLOW_TRACKING_URI: APP,
  MLFLOW_ARTIFACT_BUCKET: 's3://mlflow-own/team',
};
const aws = new AwsAnswers();
let folder: string;
let file: string;
beforeAll(() => aws.start());
afterAll(() => aws.close());
beforeEach(() => {
  folder = temporaryFolder('init-');
  file = join(folder, '.env');
  aws.answers = {
    ListEndpoints: [200, { Endpoints }],
    DescribeEndpoint: [200, described(CAPTURE)],
    DescribeKey: [200, { KeyMetadata: { Arn: KEY } }],
    'GET /': xml('<R><Buckets><Bucket><Name>some-bucket</Name></Bucket></Buckets></R>'),
    ListMlflowApps: [200, { Summaries }],
    DescribeMlflowApp: [200, { Status: 'Created', ArtifactStoreUri: 's3://mlflow-own/team' }],
  };
});

/** A person who answers each question that ends with ": ", in order. @returns what was asked, and the settings */
async function answered(answers: string[], variables: Record<string, string> = {}, given: Record<string, string> = {}) {
  const input = new PassThrough();
  const output = new PassThrough();
  let text = '';
  const rest = [...answers];
  output.on('data', (data: Buffer) => {
    text += data.toString();
    if (/: $/.test(text) && rest.length > 0) setImmediate(() => input.write(rest.shift() as string));
  });
  const prompt = openPrompt(input, output, false);
  const work = async () => {
    const clients = quickClients(undefined);
    const account = foundAccount(clients, (line) => prompt.say(line));
    const region = await clients.lambda.config.region().catch(() => undefined);
    return collect(given, account, region, prompt);
  };
  const values = await withVariables(aws.variables(variables), work).catch((error: Error) => error);
  prompt.close();
  return { values, text, unused: rest };
}

test('offers what the account has, and asks again for what is not valid', async () => {
  const { values, text, unused } = await answered([
    '2\n', // the endpoint
    '\n', // bucket
    '\n', // prefix
    'ftp://mlflow\n',
    '1\n', // the app
    '\n', // artifacts
    'a name\n',
    'prod\n',
    'half\n',
    '300\n',
    '\n', // email
  ]);
  expect(values).toEqual({ ...OF_GARDEN, JUDGED_CAPTURES_PER_DAY: '300' });
  expect(unused).toEqual([]);
  expect(text).toContain('  1) old (Failed)\n  2) garden\n');
  expect(text).toContain('  1) team, MLflow 3.10.1\n');
  expect(text).not.toContain('gone');
  expect(text).toContain('MLFLOW_TRACKING_URI: got "ftp://mlflow"; expected: the ARN of a SageMaker mlflow-app');
  expect(text).toContain('JUDGED_CAPTURES_PER_DAY: got "half"; expected: a whole number from 1 to');
});

test('offers buckets where Data Capture is off, and asks without credentials', async () => {
  aws.answers.DescribeEndpoint = [200, described(undefined)];
  const off = await answered(['garden\n', '1\n', '\n', 'https://mlflow.example.com\n', '\n', '\n', 'me@example.com\n']);
  expect(off.values).toEqual({
    SAGEMAKER_ENDPOINT_NAME: 'garden',
    DATA_CAPTURE_S3_BUCKET: 'some-bucket',
    DATA_CAPTURE_S3_PREFIX: 'garden/',
    JUDGED_CAPTURES_PER_DAY: '1000',
    MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
    STACK_PREFIX: 'garden',
    ALARM_EMAIL: 'me@example.com',
  });
  expect(off.text).toContain('Data Capture of garden is off');
  const alone = await answered(
    ['garden\n', 'b\n', 'my-bucket\n', '\n', 'https://mlflow.example.com\n', 'p\n', '\n', '\n'],
    NO_KEYS,
  );
  expect(alone.values).toMatchObject({ DATA_CAPTURE_S3_BUCKET: 'my-bucket', STACK_PREFIX: 'p' });
  expect(alone.text.match(/Not looked up in the account/g)).toHaveLength(1);
  expect(alone.text).toContain('DATA_CAPTURE_S3_BUCKET: got "b"; expected: the name of the bucket');
});

test('asks again for settings that do not fit together', async () => {
  const secret = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:mlflow-AbCdEf';
  const given = {
    SAGEMAKER_ENDPOINT_NAME: 'garden',
    MLFLOW_TRACKING_URI: 'https://m.example.com',
    MLFLOW_SECRET_ARN: secret,
  };
  const own = secret.replace('eu-west-1', 'us-east-1');
  const { values, text } = await answered(['\n', '\n', '\n', '\n', '\n', `${own}\n`], {}, given);
  expect(text).toContain('These settings do not fit together:\n  MLFLOW_SECRET_ARN: got one in eu-west-1');
  expect(values).toMatchObject({ MLFLOW_SECRET_ARN: own });
});

/** Runs the command in this process. @returns what it wrote to stderr, or what it threw */
async function init(args: string[], variables: Record<string, string> = {}): Promise<string> {
  const said: string[] = [];
  const spy = jest.spyOn(process.stderr, 'write').mockImplementation((line) => said.push(String(line)) > 0);
  const run = () => initCommand().exitOverride().parseAsync(args, { from: 'user' });
  try {
    await withVariables(aws.variables({ DOTENV_CONFIG_PATH: file, ...variables }), run);
    return said.join('').trimEnd();
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  } finally {
    spy.mockRestore();
  }
}
const FLAGS = ['--yes', '--stack', 'prod', '--endpoint', 'garden'];

test('writes by flags alone, with what the endpoint and MLflow say, and the comments of all settings', async () => {
  const said = await init([...FLAGS, '--mlflow', APP, '--set', 'EVALUATION_SAMPLE_RATE=0.5']);
  expect(said).toContain(`Wrote ${file}. Next: inference-monitor doctor`);
  const text = readFileSync(file, 'utf8');
  expect(parse(text)).toEqual({ ...OF_GARDEN, EVALUATION_SAMPLE_RATE: '0.5', AWS_REGION: 'us-east-1' });
  const comments = (all: string): string[] => all.split('\n').filter((line) => line.startsWith('# '));
  expect(comments(text)).toEqual(comments(readFileSync('.env.example', 'utf8')));
});

test.each([
  ['my-captures', 'datacapture/garden/'],
  ['b-1', 'garden/'],
])('looks the prefix up that belongs to the bucket %s', async (bucket, prefix) => {
  await init([...FLAGS, '--bucket', bucket, '--mlflow', 'https://m.example.com']);
  const written = parse(readFileSync(file, 'utf8'));
  const captures = { DATA_CAPTURE_S3_BUCKET: bucket, DATA_CAPTURE_S3_PREFIX: prefix };
  expect(written).toMatchObject({ ...captures, ENDPOINT_VARIANTS: 'a,b', SHADOW_VARIANTS: 'c' });
});

test('needs no AWS if the flags say everything', async () => {
  const nowhere = { ...NO_KEYS, AWS_REGION: '', AWS_ENDPOINT_URL: '' };
  const place = ['--bucket', 'b-1', '--set', 'DATA_CAPTURE_S3_PREFIX=garden/'];
  const said = await init([...FLAGS, ...place, '--mlflow', 'https://m.example.com'], nowhere);
  expect(said).toBe(`Wrote ${file}. Next: inference-monitor doctor`);
  expect(parse(readFileSync(file, 'utf8'))).toMatchObject({ DATA_CAPTURE_S3_BUCKET: 'b-1' });
});

test.each([
  [[...FLAGS, '--bucket', 'b-1'], /^InvalidSettings: .*\n {2}MLFLOW_TRACKING_URI: got nothing \(it is required\)/],
  [['--yes', '--endpoint', 'a name'], /^InvalidSettings: .*\n {2}SAGEMAKER_ENDPOINT_NAME: got "a name"/],
  [
    ['--yes', '--set', 'EVALUATION_SAMPEL_RATE=1'],
    /^UnknownName: There is no setting of this name; did you mean EVALUATION_SAMPLE_RATE\?/,
  ],
  [['--endpoint', 'garden'], /^NoTerminal: .*expected: --yes/],
])('refuses %j', async (args, expected) => {
  expect(await init(args)).toMatch(expected);
  expect(existsSync(file)).toBe(false);
});

test('writes the region, which the next commands and the CDK read from there', async () => {
  const place = [
    ...['--region', 'eu-west-1', '--bucket', 'b-1', '--set', 'DATA_CAPTURE_S3_PREFIX=garden/', '--mlflow'],
    ...['https://m.example.com'],
  ];
  await init([...FLAGS, ...place], { AWS_REGION: '' });
  expect(parse(readFileSync(file, 'utf8'))).toMatchObject({ AWS_REGION: 'eu-west-1' });
  aws.answers.GetCallerIdentity = xml(
    '<GetCallerIdentityResponse><Arn>arn:aws:iam::123456789012:user/me</Arn><Account>123456789012</Account></GetCallerIdentityResponse>',
  );
  const { AWS_REGION: _, ...nowhere } = aws.variables({ DOTENV_CONFIG_PATH: file });
  const region = async (more: Record<string, string> = {}): Promise<string> =>
    withVariables({ ...nowhere, ...more }, async () => {
      const { stdout } = await runHere(['doctor']);
      return /the region (.*)\.$/m.exec(stdout)?.[1] ?? stdout;
    });
  expect(await region()).toBe('eu-west-1 (from .env)');
  expect(await region({ AWS_REGION: 'us-west-2' })).toBe('us-west-2 (from AWS_REGION of the environment)');
});

describe('a command says first where it acts', () => {
  /** What a command says in a shell with these variables, beside the `.env`. */
  const said = (words: string[], variables: Record<string, string> = {}, dotenv = 'STACK_PREFIX=prod\n') => {
    writeFileSync(file, dotenv);
    return withVariables(aws.variables({ DOTENV_CONFIG_PATH: file, ...variables }), () => runHere(words));
  };
  const local = () => ({ INFERENCE_MONITOR_LOCAL: aws.url });

  test('with each setting of .env that the environment overrules, and no secret', async () => {
    const { stderr, stdout } = await said(
      ['doctor', '--json'],
      {
        ...local(),
        STACK_PREFIX: 'local',
        EVALUATION_BUDGET_USD: '0',
        JUDGE_API_KEY: 'k-1',
        JUDGE_BASE_URL: '',
        MLFLOW_TRACKING_URI: 'http://me:pw-1@m',
      },
      'STACK_PREFIX=prod\nEVALUATION_BUDGET_USD=5\nJUDGE_API_KEY=k-2\nJUDGE_BASE_URL=http://j\nMLFLOW_TRACKING_URI=http://me:pw-2@n\nAWS_REGION=us-east-1\n',
    );
    expect(stderr.split('\n')).toEqual([
      'acts on: emulator of npm start',
      'from the environment, not .env: STACK_PREFIX=local (.env: prod)',
      'from the environment, not .env: MLFLOW_TRACKING_URI=http://…@m (.env: http://…@n)',
      'from the environment, not .env: EVALUATION_BUDGET_USD=0 (.env: 5)',
      'from the environment, not .env: JUDGE_API_KEY',
      '',
    ]);
    expect(JSON.parse(stdout)).toHaveProperty('findings');
  });

  test('in which account and region, also if AWS does not tell', async () => {
    const answer = (statusCode: number, body: string) =>
      jest
        .spyOn(NodeHttpHandler.prototype, 'handle')
        .mockImplementation(async ({ hostname }) =>
          hostname === 'sts.eu-west-1.amazonaws.com'
            ? { response: { statusCode, headers: {}, body: Readable.from([body]) } as never }
            : Promise.reject(new Error('no network')),
        );
    const own = { AWS_ENDPOINT_URL: '', AWS_REGION: '' };
    const dotenv = 'STACK_PREFIX=prod\nAWS_REGION=eu-west-1\n';
    answer(200, '<GetCallerIdentityResponse><Account>123456789012</Account></GetCallerIdentityResponse>');
    expect((await said(['stop', 'run-1'], own, dotenv)).stderr).toMatch(/^acts on: account 123456789012, eu-west-1\n/);
    answer(403, '<ErrorResponse><Error><Code>ExpiredToken</Code></Error></ErrorResponse>');
    expect((await said(['retry', 'run-1'], own, dotenv)).stderr).toMatch(
      /^acts on: an account that is not known \(AwsCredentialsExpired\), eu-west-1\n/,
    );
    jest.restoreAllMocks();
  });

  test('deploy: in the account of the profile that the CDK gets', async () => {
    const profiles = join(folder, 'profiles');
    writeFileSync(profiles, '[x]\naws_access_key_id = KEYOFX\naws_secret_access_key = s\n');
    jest.spyOn(NodeHttpHandler.prototype, 'handle').mockImplementation(async ({ headers }) => {
      const account = headers.authorization?.includes('KEYOFX') ? '222222222222' : '111111111111';
      const body = `<GetCallerIdentityResponse><Account>${account}</Account></GetCallerIdentityResponse>`;
      return { response: { statusCode: 200, headers: {}, body: Readable.from([body]) } as never };
    });
    // A mix is refused before anything is deployed.
    const own = { INFERENCE_MONITOR_LOCAL: 'http://l', AWS_ENDPOINT_URL: '', AWS_SHARED_CREDENTIALS_FILE: profiles };
    for (const words of [['--profile', 'x'], ['--profile=x']]) {
      const { stderr } = await said(['deploy', '--require-approval', 'never', ...words], own);
      expect(stderr).toMatch(/^acts on: account 222222222222, [\s\S]*MixedEnvironments/);
    }
    expect((await said(['deploy'], own)).stderr).toMatch(/^acts on: account 111111111111, /);
    jest.restoreAllMocks();
  });

  test.each<[string[], string]>([
    [['init', '--yes'], 'acts on: the emulator at AWS_ENDPOINT_URL, http://127.0.0.1'],
    [['process', 'garden/'], 'acts on: the emulator at'],
    [['ground-truth', 'labels.csv'], 'acts on: the emulator at'],
    [['replay', 'nowhere', '--endpoint', 'e'], 'acts on: the emulator at'],
    [['replay', 'nowhere', '--url', 'http://me:pw@h:1'], 'sends to: http://…@h:1\n'],
  ])('%j', async (words, expected) => {
    expect((await said(words)).stderr.slice(0, expected.length)).toBe(expected);
  });

  test.each([
    [['worst']],
    [['ground-truth']],
    [['dataset', '--out', 'x']],
    [['replay', 'nowhere', '--url', 'http://h', '--dry-run']],
  ])('%j changes nothing, and says nothing', async (words) =>
    expect((await said(words)).stderr).not.toMatch(/^(acts on|sends to|writes to)/),
  );

  test.each<[string, Record<string, string>, string]>([
    ['the settings of npm start for an account', { AWS_ENDPOINT_URL: '' }, 'its settings, and your AWS account;'],
    ['the emulator for the stack of .env', {}, 'its emulator, and STACK_PREFIX=prod in .env;'],
  ])('deploy refuses %s, and so does the app', async (_, more, got) => {
    const expected = `got: ${got}`;
    const variables = { STACK_PREFIX: 'local', ...more };
    const { stderr, code } = await said(['deploy'], { ...local(), AWS_ENDPOINT_URL_LAMBDA: aws.url, ...variables });
    expect(code).toBe(2);
    expect(stderr).toContain(`MixedEnvironments: The environment of npm start is mixed with another one; ${expected}`);
    const env = aws.variables({ DOTENV_CONFIG_PATH: file, ...local(), ...variables });
    const app = spawnSync(process.execPath, ['bin/app.ts'], { env, encoding: 'utf8' });
    expect(app.stderr).toContain(expected);
    expect(app.status).toBe(1);
  });
});

test('never overwrites a file', async () => {
  writeFileSync(file, 'MINE=1\n');
  expect(await init([...FLAGS, '--bucket', 'b-1', '--mlflow', 'https://m.example.com'])).toMatch(
    /^FileExists: The file exists, and is not overwritten; got: .*; expected: to edit it \(inference-monitor doctor checks it\), or another file with --out$/,
  );
  expect(readFileSync(file, 'utf8')).toBe('MINE=1\n');
});

test('writes values so that dotenv reads the same, or not at all', () => {
  const example = 'A=\n#B=example\nC=\n';
  const values = { A: `{"x":"it's #1 $HOME"}`, B: 'two words', C: 's3://a-b/c' };
  expect(parse(dotenvText(example, values))).toEqual(values);
  expect(() => dotenvText(example, { A: `two\n' #lines" \`` })).toThrow('cannot be written into a .env file');
});

test('Ctrl-C on a terminal writes nothing and exits with 130', async () => {
  const pty = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';
  const child = spawn('python3', ['-c', pty, process.execPath, 'bin/inference-monitor.ts', 'init', '--out', file], {
    env: aws.variables({ TERM: 'xterm' }),
  });
  let text = '';
  child.stdout.on('data', (data: Buffer) => {
    text += data.toString();
    if (text.includes('SageMaker endpoint to monitor') && !child.stdin.destroyed) child.stdin.end('\x03');
  });
  expect(await new Promise((resolve) => child.once('close', resolve))).toBe(130);
  expect(text).toContain('Stopped. Nothing was written.');
  expect(existsSync(file)).toBe(false);
});

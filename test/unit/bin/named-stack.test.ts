/** Whichever way a stack is named, every command asks for that stack alone, with the settings that it is deployed with. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { COMMANDS } from '../../../bin/commands.ts';
import { OUTPUT_PARAMETERS, outputPath } from '../../../src/core/contract/names.ts';
import { truthKeys } from '../../../src/core/contract/work-keys.ts';
import { packed } from '../../../src/core/settings/packed.ts';
import { S3Wire } from '../../doubles/s3-wire.ts';
import { type Answer, AwsAnswers } from '../../helpers/aws-answers.ts';
import { runHere } from '../../helpers/command-here.ts';
import { writeCounts } from '../../helpers/day-sums.ts';
import { expectPublished } from '../../helpers/published-json.ts';
import UNKNOWN from './unknown-names.json' with { type: 'json' };

/** Endpoints by STACK_PREFIX; `alpha` is to be asked. The deployment of `half` has not finished. */
const STACKS = { alpha: 'chat', beta: 'churn', gamma: 'twice', delta: 'twice', half: 'half' };
type Prefix = keyof typeof STACKS;
const REFUSED: Answer = [400, { error_code: 'INVALID_PARAMETER_VALUE', message: 'no' }];
const FUNCTION = 'GET /2015-03-31/functions/processorArn-alpha/configuration';
const aws = new AwsAnswers();
let s3: S3Wire;
let folder: string;
let asked: string[];

const settingsOf = (prefix: Prefix, mlflow = `http://${prefix}.invalid`): Record<string, string> => ({
  STACK_PREFIX: prefix,
  SAGEMAKER_ENDPOINT_NAME: STACKS[prefix],
  DATA_CAPTURE_S3_BUCKET: `captures-${prefix}`,
  DATA_CAPTURE_S3_PREFIX: `${STACKS[prefix]}/`,
  DATA_CAPTURE_KMS_KEY_ARN: `arn:aws:kms:us-east-1:123456789012:key/${prefix}`,
  MLFLOW_TRACKING_URI: mlflow,
  MLFLOW_EXPERIMENT_NAME: STACKS[prefix],
  JUDGE_GUIDELINES: JSON.stringify({ [`rule_${prefix}`]: `A rule of ${prefix}.` }),
  // Long enough to be compressed.
  FEATURE_NAMES: packed(JSON.stringify(Array.from({ length: 200 }, (_, n) => `feature_${n}`))),
});
const parameters = (Object.keys(STACKS) as Prefix[])
  .flatMap((prefix) =>
    Object.entries(OUTPUT_PARAMETERS).map(([field, name]) => {
      const Value = { endpoint: STACKS[prefix], workBucket: `work-${prefix}` }[field] ?? `${field}-${prefix}`;
      return { Name: outputPath(prefix) + name, Value };
    }),
  )
  .filter(({ Name }) => !Name.includes('/half/') || Name.endsWith('/endpoint'));
const Rows = ['n', '=7'].map((VarCharValue) => ({ Data: [{ VarCharValue }] }));
const ResultSet = { Rows, ResultSetMetadata: { ColumnInfo: [{ Name: 'n', Type: 'varchar' }] } };
const DESCRIBED = {
  ...{ EndpointName: 'chat', EndpointArn: 'arn:aws:a:b:c:endpoint/chat' },
  ProductionVariants: [{ VariantName: 'green' }],
};
const TRACE = { trace_id: 'tr-1', request_time: '2026-11-20T10:00:00Z', tags: { sagemaker_variant_name: 'green' } };

beforeAll(async () => {
  s3 = await S3Wire.start();
  await aws.start();
  const counts = { '2026-11-20T10': { blue: { captures: 40, scorers: {} } } };
  await writeCounts({ storage: s3.storage, workBucket: 'work-alpha' }, counts);
  const Variables = { ...settingsOf('alpha', aws.url), WORK_BUCKET: 'work-alpha', BUDGET_TABLE: 'b' };
  aws.answers = {
    GetParametersByPath: (_, body) => {
      const path = `${JSON.parse(body).Path}/`;
      return [200, { Parameters: parameters.filter(({ Name }) => Name.startsWith(path)) }];
    },
    [FUNCTION]: [200, { Environment: { Variables } }],
    'GET /version': [200, '3.17.2'],
    'GET /api/2.0/mlflow/experiments/get-by-name': [200, { experiment: { experiment_id: '7', name: 'chat' } }],
    'POST /api/2.0/mlflow/experiments/search': [200, { experiments: [] }],
    'POST /api/3.0/mlflow/traces/search': (_, body) => [200, { traces: body.includes('grean') ? [] : [TRACE] }],
    'POST /api/3.0/mlflow/traces': REFUSED,
    'POST /v1/traces': REFUSED,
    DescribeExecution: [400, { __type: 'ExecutionDoesNotExist', message: 'no' }],
    ListExecutions: [200, { executions: [] }],
    DescribeEndpoint: [200, DESCRIBED],
    StartQueryExecution: [200, { QueryExecutionId: 'q' }],
    GetQueryExecution: [200, { QueryExecution: { Status: { State: 'SUCCEEDED' } } }],
    GetQueryResults: [200, { ResultSet }],
    DescribeEndpointConfig: [200, { EndpointConfigName: 'c' }],
  };
  aws.onRequest = (name, url, body) => void asked.push(`${name} ${url} ${body}`);
});
afterAll(() => Promise.all([aws.close(), s3.stop()]));
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stack-'));
  writeFileSync(join(folder, 'captures.jsonl'), '{}\n');
  asked = [];
  s3.requests.length = 0;
});
afterEach(() => rmSync(folder, { recursive: true }));

async function run(args: readonly string[], shell: Record<string, string> = {}, dotenv: Record<string, string> = {}) {
  const file = join(folder, '.env');
  const lines = Object.entries(dotenv).map(([name, value]) => `${name}='${value}'`);
  writeFileSync(file, lines.join('\n'));
  const placed = args.map((arg) => (/^[a-z]+\.[a-z]+$|^replayed$/.test(arg) ? join(folder, arg) : arg));
  return runHere(placed, aws.variables({ DOTENV_CONFIG_PATH: file, AWS_ENDPOINT_URL_S3: s3.url, ...shell }));
}

const RULE = ['--scorer', 'rule_alpha'];
const DAYS = ['--from', '2026-11-20', '--to', '2026-11-21'];
/** By command, its arguments, and what it prints and then asks for. */
const CALLS: Record<string, [args: readonly string[], shows: RegExp]> = {
  doctor: [[], /^chat \(stack alpha\)\n.*get-by-name\?experiment_name=chat/s],
  capture: [['status', 'chat'], /^endpoint: chat\n.*captureBucket-alpha.*key\/alpha/s],
  forward: [['--from', '1d', '--dry-run'], /sagemaker-forwarder-alpha/],
  process: [['--from', '1d', '--dry-run'], /captureBucket-alpha/],
  runs: [[], /^chat \(stack alpha\)\nThere are no such runs/],
  show: [['run-1'], /NoSuchRun.*work-alpha/s],
  retry: [['run-1'], /NoSuchRun.*work-alpha/s],
  stop: [['run-1'], /NoSuchRun/],
  status: [DAYS, /^\S chat: .*\nchat \(stack alpha\), 2026-11-20/s],
  report: [[...DAYS, '--worst', '-o', 'report.html'], /^\S chat: .*experiment_name=chat/s],
  open: [['--print'], /^http.*\nchat \(stack alpha\)$/ms],
  rates: [[...DAYS, ...RULE], /^chat \(stack alpha\)\n2026-11-20 00:00.*experiment_name=chat/s],
  sql: [['select 1'], /^chat \(stack alpha\)\n.*\b1 row, 0\.0 kB scanned.*sqlWorkGroup-alpha.*sqlDatabase-alpha/s],
  traffic: [[], /^chat \(stack alpha\)\nNo window is excluded.*\nwork-alpha ledger\/excluded.json/s],
  find: [['--user', 'jane', ...DAYS], /^chat \(stack alpha\)\n\n0 traces\n.*dataset --filter.*\nwork-alpha $/s],
  forget: [['--user', 'jane', '--yes'], /^chat \(stack alpha\)\nThe ledger has no such id.*\nwork-alpha $/s],
  'ground-truth': [[], /NoLabels.*work-alpha/s],
  worst: [RULE, /^chat \(stack alpha\)\n\n2026.*: 1 traces, 0 of them judged/],
  dataset: [[...RULE, '-o', 'set.jsonl'], /NothingSelected.*experiment_name=chat/s],
  label: [RULE, /NothingToLabel.*experiment_name=chat/s],
  calibrate: [RULE, /^chat \(stack alpha\)\n.*experiment_name=chat/s],
  replay: [['captures.jsonl', '--url', 'http://127.0.0.1:9', '--mlflow', '-o', 'replayed'], /name=chat-replays/],
};
const WITHOUT = ['init', 'deploy', 'destroy', 'smoke', 'start', 'inspect', 'judge', 'compare'];
/** They check, or need, what is not deployed yet. */
const OF_DOTENV = ['doctor', 'replay'];
const [NONE, beta] = [{}, settingsOf('beta')];

const WAYS: Record<string, Parameters<typeof run>> = {
  '--stack, beside the .env of another stack': [['--stack', 'alpha'], NONE, beta],
  '--stack with the name of the endpoint': [['--stack', 'chat'], NONE, beta],
  '--stack, in a shell of another stack': [['--stack', 'alpha'], beta, NONE],
  'STACK_PREFIX in the shell, beside the .env of another stack': [[], { STACK_PREFIX: 'alpha' }, beta],
  'STACK_PREFIX before a command in a shell of another stack': [[], { ...beta, STACK_PREFIX: 'alpha' }, NONE],
  '.env of the stack, whose other settings are not deployed': [[], NONE, { ...beta, STACK_PREFIX: 'alpha' }],
};

test('every command is in the table, or is about no stack', () => {
  expect([...Object.keys(CALLS), ...WITHOUT].toSorted()).toEqual(Object.keys(COMMANDS).toSorted());
});

describe.each(Object.entries(WAYS))('%s', (way, [flags, shell, dotenv]) => {
  test.each(Object.entries(CALLS).filter(([name]) => !way.startsWith('.env') || !OF_DOTENV.includes(name)))(
    '%s',
    async (name, [args, shows]) => {
      const { stdout, stderr } = await run([name, ...args, ...flags], shell, dotenv);
      asked.push(...s3.requests.map(({ bucket, key }) => `${bucket} ${key}`));
      const said = [stdout, stderr.replaceAll(/^from the environment, not .env: .*\n/gm, ''), ...asked];
      expect(said.filter((text) => /beta|churn/.test(text))).toEqual([]);
      expect(said.join('\n')).toMatch(shows);
    },
  );
});

test.each(Object.entries(CALLS).filter(([name]) => !OF_DOTENV.includes(name)))('nothing: %s', async (name, [args]) => {
  expect(await run([name, ...args])).toMatchObject({ code: 2, stderr: expect.stringContaining('StackPrefixMissing') });
  expect(asked.filter((request) => !request.startsWith('DescribeEndpoint'))).toEqual([]);
});

test.each([
  [['--stack', 'alpha'], NONE, { STACK_PREFIX: 'alpha' }, ''],
  [['--stack', 'alpha'], { STACK_PREFIX: 'beta' }, { STACK_PREFIX: 'alpha' }, ' --stack alpha'],
  [[], { STACK_PREFIX: 'alpha' }, NONE, ' --stack alpha'],
])('%j, %j in the shell and %j in .env: proposed commands have%s', async (flags, shell, dotenv, proposed) => {
  s3.put('captureBucket-alpha', 'capturePrefix-alpha/A/2026/11/20/10/a.jsonl', '{}\n');
  aws.answers.StartExecution = [200, { executionArn: 'arn:run-2', startDate: 0 }];
  const { stderr } = await run(['process', '--from', '2026-11-20', '--detach', ...flags], shell, dotenv);
  expect(stderr).toMatch(new RegExp(`To follow it: inference-monitor show run-2 --follow${proposed}$`, 'm'));
});

test.each([
  [31, false],
  [29, true],
  [-1, true],
])('status of a judge that costs more in %i days', async (days, isTold) => {
  const publicExtendedAccessTime = new Date(Date.now() + days * 86_400_000).toISOString();
  const modelLifecycle = { status: 'LEGACY', publicExtendedAccessTime };
  const [model, profile] = ['anthropic.claude-sonnet-5-5', 'global.anthropic.claude-sonnet-5-5'];
  aws.answers[`GET /inference-profiles/${profile}`] = [200, { models: [{ modelArn: `arn:x/${model}` }] }];
  aws.answers[`GET /foundation-models/${model}`] = [200, { modelDetails: { modelLifecycle } }];
  const { stderr } = await run(['status', '--stack', 'alpha', ...DAYS]);
  expect(stderr.includes(`JUDGE_PRICES={"${profile}":{"input":2,"output":10}}`)).toBe(isTold);
});

test.each(['runs', 'worst', 'traffic', 'find', 'forget', 'open', 'status', 'rates', 'sql', 'doctor'] as const)(
  '%s --json',
  async (name) => {
    const { stdout } = await run([name, ...(CALLS[name]?.[0] ?? []), '--stack', 'chat', '--json'], NONE, beta);
    expect(expectPublished(name, stdout)).toMatchObject({ endpoint: 'chat', stack: 'alpha' });
  },
);

test('traffic excludes a window, and takes a part of it back', async () => {
  const traffic = async (...args: string[]) => {
    const { stdout, stderr } = await run(['traffic', ...args, '--stack', 'alpha', '--json']);
    if (stdout === '') return stderr;
    return expectPublished<{ windows: { from: string; to: string }[] }>('traffic', stdout).windows;
  };
  const at = (hour: number) => `2026-10-01T${hour}:00:00.000Z`;
  const only = { variant: 'Bl*', inferenceId: 'load-*' };
  const [some, own] = [
    ['--from', at(10), '--to', at(14)],
    ['--variant', 'Bl*', '--id-pattern', 'load-*'],
  ];
  expect(await traffic('exclude', ...some, ...own)).toEqual([{ from: at(10), to: at(14), ...only }]);
  await traffic('exclude', '--from', at(12), '--to', at(20));
  expect(await traffic('exclude', '--from', at(14), '--to', at(15), ...own)).toHaveLength(3);
  expect(await traffic('include', '--from', at(11), '--to', at(12), '--variant', 'Bl*')).toHaveLength(3);
  expect(await traffic('include', '--from', at(11), '--to', at(20), ...own)).toEqual([
    { from: at(10), to: at(11), ...only },
    { from: at(12), to: at(20) },
  ]);
  expect(await traffic('include', '--from', '2026-09-01', '--to', '2026-11-01')).toEqual(await traffic('list'));
  expect(await traffic('list')).toEqual([]);
  for (const args of [['exclude'], ['exclude', '--from', '2h'], ['list', ...some], some])
    expect(await traffic(...args)).toContain('InvalidCommandLine');
});

test('sql --csv has no formula', async () => {
  expect((await run(['sql', 'select 1', '--csv', '--stack', 'alpha'])).stdout).toBe("n\n'=7\n");
});

test.each(UNKNOWN as [string[], string, string][])('%j is refused', async (args, what, meant) => {
  const row = { id: 'i', endpoint: 'chat', variant: 'green', traceId: 'tr-1', second: 1, label: 1, prediction: 1 };
  const labeled = [{ settled: {} }, row].map((line) => `${JSON.stringify(line)}\n`).join('');
  s3.put('work-alpha', truthKeys.labeled('2026-11-20T10'), gzipSync(labeled));
  const { stderr } = await run([...args, '--stack', 'alpha']);
  expect(stderr).toContain(`UnknownName: There is no ${what} of this name; did you mean ${meant}?`);
});

test.each([
  ['--tag', 'status_code=grean'],
  ['--filter', "tag.`status_code` = 'grean'"],
])('a tag that no trace of the window has yet: %s %s', async (...selection) => {
  const { stderr } = await run(['dataset', '-o', 'set.jsonl', ...selection, '--stack', 'alpha']);
  expect(stderr).toContain('NothingSelected');
});

test.each([
  ['twice', /StackPrefixMissing: The endpoint has several stacks; .* one of delta, gamma$/m],
  ['half', /StackIncomplete: The deployment of half is incomplete; got: .* without stateMachineArn, /],
  ['chatt', /StackNotDeployed: .* did you mean chat\?; .*: alpha \(chat\), beta \(churn\), delta \(twice\), gamma/],
])('--stack %s', async (name, message) => {
  expect((await run(['runs', '--stack', name])).stderr).toMatch(message);
});

test.each([
  ['calibrate', '--add-examples'],
  ['compare', 'a', 'b', '--judge'],
])('%s %s says with CONTENT=none that it needs texts, before the judge costs money', async (...args) => {
  const { code, stderr } = await run(args, {
    CONTENT: 'none',
    DATA_CAPTURE_S3_BUCKET: 'b',
    MLFLOW_TRACKING_URI: aws.url,
  });
  expect(code).toBe(2);
  expect(stderr).toMatch(/NoContent: Traces have no texts, since CONTENT=none\. .*dataset --out FILE --raw/);
});

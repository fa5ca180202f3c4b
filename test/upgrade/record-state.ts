/**
 * Records the state of a stack of this version into `state-before.json.gz`, from which the upgrade test of the next one starts:
 * `node --import ./local/ready.js test/upgrade/record-state.ts`. See load-state.ts for what the file has, and how it is put back.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gzipSync } from 'node:zlib';
import { DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { DescribeExecutionCommand, DescribeStateMachineCommand, ListExecutionsCommand } from '@aws-sdk/client-sfn';
import { startEnvironment } from '../../local/start/environment.ts';
import { chatLine, mixedLines } from '../helpers/deployed-captures.ts';
import { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { runCli } from '../helpers/replay.ts';
import { DAY, ENDPOINT, prediction, SETTINGS, STATE_FILE, type StackState } from './load-state.ts';

const environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.05' }, log: console.error });
const { clients, judge, ministack } = environment;
const pipeline = new DeployedPipeline(environment, SETTINGS.STACK_PREFIX, await environment.deployStack(SETTINGS));
const { captureBucket, workBucket, stateMachineArn } = pipeline.outputs;
await environment.mlflow;
await pipeline.disableRule();

const variables = {
  ...ministack.env,
  ...SETTINGS,
  AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url,
  AWS_ENDPOINT_URL_BEDROCK: judge.url,
  DATA_CAPTURE_S3_BUCKET: captureBucket,
  MLFLOW_TRACKING_URI: environment.mlflowUrl,
  MLFLOW_EXPERIMENT_NAME: ENDPOINT,
};
async function command(...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await runCli(args, variables);
  console.error(`${args.join(' ')}: ${code}\n${stdout}${stderr}`);
}

/** A finished run: predictions, traces of each kind, a line in quarantine. */
const finished = `${DAY}/10/finished.jsonl`;
await pipeline.put(finished, [...['old-0', 'old-1', 'old-2'].map((id) => prediction(id)), ...mixedLines('finished')]);
await command('process', finished, '--name', 'before-finished');
/** Labels that were joined, and two that wait for a capture. */
const labels = join(mkdtempSync(join(environment.directory, 'labels-')), 'labels.csv');
writeFileSync(labels, 'inference_id,label\nold-0_0,1\nold-0_1,0\nold-1_0,0\nlate-0_0,1\nlate-0_1,0\n');
await command('ground-truth', labels);
/** Captures that the budget held back. */
const held = `${DAY}/11/held.jsonl`;
await pipeline.put(
  held,
  ['held-0', 'held-1', 'held-2'].map((name) => chatLine(name, '2026-11-20T11:00:00Z')),
);
await command('process', held, '--name', 'before-held', '--budget', '0.0001');
/** Bytes of empty lines in a file, so that two files do not fit into one chunk. */
const BETWEEN = 4_300_000;
/** A run under way: one chunk is done, of the next one the judge has answered one of two captures, the last one has not begun. */
for (const file of ['a', 'b', 'c']) {
  const [first = '', last = ''] = [0, 1].map((at) => chatLine(`under-way-${file}${at}`, '2026-11-20T12:00:00Z'));
  await pipeline.put(`${DAY}/12/under-way-${file}.jsonl`, [first + '\n'.repeat(BETWEEN), last]);
}
judge.forget();
judge.behave({ delayMs: 600_000 });
await command('process', `${DAY}/12/`, '--name', 'before-under-way', '--detach');
await pipeline.until('the first chunk', async () => judge.counts.calls === 2 || undefined);
judge.behave({ delayMs: 600_000, faultyCalls: 1 });
await pipeline.until('the second chunk', async () => judge.counts.calls === 4 || undefined);
await new Promise((resolve) => setTimeout(resolve, 15_000));

const objectsOf = async (Bucket: string): Promise<Record<string, string>> => {
  const { Contents = [] } = await clients.s3.send(new ListObjectsV2Command({ Bucket }));
  const read = Contents.map(async ({ Key = '' }) => {
    const bytes = await (await clients.s3.send(new GetObjectCommand({ Bucket, Key }))).Body?.transformToByteArray();
    return [Key, Buffer.from(bytes ?? []).toString(Key.endsWith('.gz') ? 'base64' : 'utf8')];
  });
  return Object.fromEntries(await Promise.all(read));
};

const itemsOf = async (): Promise<StackState['items']> => {
  const { Environment } = await clients.lambda.send(
    new GetFunctionConfigurationCommand({ FunctionName: pipeline.functionName('evaluator') }),
  );
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const dynamo = new DynamoDBClient({ endpoint: ministack.url, region: ministack.region, credentials });
  const { Items = [] } = await dynamo.send(new ScanCommand({ TableName: Environment?.Variables?.BUDGET_TABLE ?? '' }));
  dynamo.destroy();
  return Items;
};

async function runsOf(): Promise<StackState['runs']> {
  const { executions = [] } = await clients.sfn.send(new ListExecutionsCommand({ stateMachineArn }));
  const read = executions.map(async ({ executionArn = '' }) => {
    const { name = '', status, input = '' } = await clients.sfn.send(new DescribeExecutionCommand({ executionArn }));
    if (status === 'SUCCEEDED') return { name, input };
    const entered = (await pipeline.history(executionArn)).flatMap(({ stateEnteredEventDetails: at }) => at ?? []);
    const map = entered.find((one) => one.name === 'ForEachChunk');
    return { name, input, atMap: map?.input ?? '' };
  });
  return Promise.all(read);
}

const rowsOf = (): string[] => {
  const database = new DatabaseSync(join(environment.directory, 'mlflow', 'mlflow.db'), { readOnly: true });
  const named = (sql: string) =>
    database
      .prepare(sql)
      .all()
      .map(({ name }) => String(name));
  return named("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'alembic_version'").flatMap((table) => {
    const columns = named(`SELECT name FROM pragma_table_info('${table}')`).map((column) => `"${column}"`);
    const values = columns.map((column) => `quote(${column})`).join(" || ',' || ");
    const rows = named(`SELECT ${values} AS name FROM "${table}"`);
    return rows.map((row) => `INSERT OR IGNORE INTO "${table}" (${columns}) VALUES (${row});`);
  });
};
const { definition = '' } = await clients.sfn.send(new DescribeStateMachineCommand({ stateMachineArn }));
const state: StackState = {
  recordedMs: Date.now(),
  workBucket,
  captures: await objectsOf(captureBucket),
  work: await objectsOf(workBucket),
  items: await itemsOf(),
  runs: await runsOf(),
  definition,
  sql: rowsOf().join('\n'),
};
writeFileSync(STATE_FILE, gzipSync(JSON.stringify(state), { level: 9 }));
writeFileSync('/tmp/ar-state.json', JSON.stringify(state, null, 1));
await environment.stop();

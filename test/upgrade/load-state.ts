/**
 * The state of a stack before an upgrade, in `state-before.json.gz`: what the version of contract 2 left in the work bucket, the
 * table and MLflow. It was recorded from that version in the emulator, by commands, and is put into a stack of today:
 *
 * - `before-finished`: a run with three predictions of ground truth, five captures of each kind, three of them judged, and a line in
 *   quarantine. Of a label file, three labels are joined and in MLflow, and two wait for a capture (`late-0`).
 * - `before-held`: three captures that the budget held back.
 * - `before-under-way`: three chunks of two captures. One is done; of the next one the judge has answered one capture, which is written
 *   nowhere, and not the other; the last has not begun. The function is gone, and has its locks and its part of the budget.
 *
 * Ids of traces come from the bytes of the captures, so those keep their times. What is about today moves to the day of the test: the
 * spending of the day, times in the table, and the times of labels that wait. The setting `days` of ground truth must
 * reach back to 2026-11-20, where the predictions are.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type AttributeValue, DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { DescribeStateMachineCommand, UpdateStateMachineCommand } from '@aws-sdk/client-sfn';
import { projectPath } from '../../local/project-root.ts';
import { captureLine, csv } from '../helpers/deployed-captures.ts';
import type { DeployedPipeline } from '../helpers/deployed-pipeline.ts';

export const STATE_FILE = projectPath('test', 'upgrade', 'state-before.json.gz');
export const ENDPOINT = 'garden-endpoint';
export const DAY = `${ENDPOINT}/AllTraffic/2026/11/20`;
/** Of the stack that was recorded. */
export const SETTINGS = {
  STACK_PREFIX: 'upgraded',
  SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
  MAX_CONCURRENCY: '1',
  BATCH_WINDOW_SECONDS: '0',
  GROUND_TRUTH: '{"days":400}',
};

export interface StackState {
  recordedMs: number;
  workBucket: string;
  /** Objects by key: text, and base64 of those that end in `.gz`. */
  captures: Record<string, string>;
  work: Record<string, string>;
  /** Of the table. */
  items: Record<string, AttributeValue>[];
  /** Executions, the one under way with the input of its Map. */
  runs: { name: string; input: string; atMap?: string }[];
  /** Of the old state machine, with which a running execution continues. */
  definition: string;
  /** Rows of MLflow's database, as statements. */
  sql: string;
}

/** A call of a classifier with two rows, of which the first one is predicted to be of the positive class. */
export function prediction(id: string, time = '2026-11-20T10:05:00Z'): string {
  const record = JSON.parse(captureLine(`event-${id}`, time, csv('1,2\n3,4\n'), csv('0.9\n0.2\n')));
  record.eventMetadata.inferenceId = id;
  return JSON.stringify(record);
}

/** Puts the state into a new stack of `SETTINGS`, whose rule is disabled. */
export async function loadState(pipeline: DeployedPipeline): Promise<void> {
  const { environment, outputs } = pipeline;
  const state = readState(outputs.workBucket);
  const toToday = (text: string): string => moved(text, Date.now() - state.recordedMs);
  await putObjects(pipeline, outputs.captureBucket, state.captures, (text) => text);
  await putObjects(pipeline, outputs.workBucket, state.work, toToday);
  await putItems(pipeline, JSON.parse(toToday(JSON.stringify(state.items))));
  const { directory } = await environment.mlflow;
  const options = { timeout: 60_000, enableForeignKeyConstraints: false };
  const database = new DatabaseSync(join(directory, 'mlflow.db'), options);
  database.exec(`BEGIN;${state.sql};COMMIT;`);
  database.close();
}

/** Reads the state with the day of today, and another name of the work bucket. */
function readState(workBucket: string): StackState {
  const text = gunzipSync(readFileSync(STATE_FILE)).toString();
  const recorded = JSON.parse(text) as StackState;
  const dayOf = (ms: number): string => `day#${new Date(ms).toISOString().slice(0, 10)}`;
  const now = text
    .replaceAll(recorded.workBucket, workBucket)
    .replaceAll(dayOf(recorded.recordedMs), dayOf(Date.now()));
  return JSON.parse(now);
}

/** Moves times around that of the record, epoch seconds or milliseconds. */
const moved = (text: string, ms: number): string =>
  text.replace(/\b1[78]\d{8}(\d{3})?\b/g, (time, isMs) => String(Number(time) + Math.round(isMs ? ms : ms / 1000)));

async function putObjects(
  { environment }: DeployedPipeline,
  Bucket: string,
  objects: Record<string, string>,
  toToday: (text: string) => string,
): Promise<void> {
  for (const [Key, text] of Object.entries(objects)) {
    const bytes = Buffer.from(text, Key.endsWith('.gz') ? 'base64' : 'utf8');
    const isWaiting = Key.startsWith('ground-truth/waiting/');
    const Body = isWaiting ? gzipSync(toToday(gunzipSync(bytes).toString())) : bytes;
    await environment.clients.s3.send(new PutObjectCommand({ Bucket, Key, Body }));
  }
}

async function putItems(pipeline: DeployedPipeline, items: StackState['items']): Promise<void> {
  const { clients, ministack } = pipeline.environment;
  const FunctionName = pipeline.functionName('evaluator');
  const { Environment } = await clients.lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const dynamo = new DynamoDBClient({ endpoint: ministack.url, region: ministack.region, credentials });
  const TableName = Environment?.Variables?.BUDGET_TABLE;
  for (const Item of items) await dynamo.send(new PutItemCommand({ TableName, Item }));
  dynamo.destroy();
}

/**
 * Starts the executions under their names: those that had ended end at once, and the one under way begins at its Map.
 *
 * @returns the ARN of the one under way
 */
export async function startRuns(pipeline: DeployedPipeline): Promise<string> {
  const { sfn } = pipeline.environment.clients;
  const { stateMachineArn, workBucket } = pipeline.outputs;
  const { runs, definition } = readState(workBucket);
  const today = await sfn.send(new DescribeStateMachineCommand({ stateMachineArn }));
  const old = JSON.parse(definition);
  let underWay = '';
  for (const { name, input, atMap } of runs) {
    const begin =
      atMap === undefined
        ? { Begin: { Type: 'Succeed' } }
        : { ...old.States, Begin: { Type: 'Pass', Result: JSON.parse(atMap), Next: 'ForEachChunk' } };
    const changed = JSON.stringify({ ...old, StartAt: 'Begin', States: begin });
    await sfn.send(new UpdateStateMachineCommand({ stateMachineArn, definition: changed }));
    const arn = await pipeline.start(JSON.parse(input), name);
    // The emulator reads the definition when an execution enters its first state.
    await pipeline.until('the first state', async () => (await pipeline.history(arn)).length > 1 || undefined);
    if (atMap !== undefined) underWay = arn;
  }
  await sfn.send(new UpdateStateMachineCommand({ stateMachineArn, definition: today.definition }));
  return underWay;
}

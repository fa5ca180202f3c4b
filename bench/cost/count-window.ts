/** Runs the capture files of one window in the deployed stack, and counts what that took. */

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { InvokeCommand } from '@aws-sdk/client-lambda';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { STARTERS_AT_ONCE } from '../../lib/object-rule.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { QuotaEnvironment } from '../../test/helpers/quota-environment.ts';
import { countExecutions, executionsOf, type Units, unitsOf } from './count-calls.ts';

export interface Window {
  runs: number;
  units: Units;
  /** Requests to MLflow. */
  mlflow: number;
}

interface WindowOptions {
  /** Names the objects; each window has its own. */
  name: string;
  bodies: readonly string[];
  captures: number;
}

const LIMIT_MS = 1_800_000;

/** @throws Error if a run fails, or if not every capture has a trace */
export async function countWindow(stack: QuotaEnvironment, options: WindowOptions): Promise<Window> {
  const { pipeline, shim } = stack;
  const { name, bodies, captures } = options;
  const before = new Set((await executionsOf(stack)).map(({ arn }) => arn));
  // The emulator hands events over ten at a time, whatever the window: the starter gets them here as on AWS.
  await pipeline.disableRule();
  const partsBefore = await sentParts(stack);
  const sinceMs = Date.now();
  shim.counts.forget();
  const keys = await putFiles(stack, name, bodies);
  await startRuns(stack, keys);
  const own = async () => (await executionsOf(stack)).filter(({ arn }) => !before.has(arn));
  await pipeline.until(
    `the executions of ${keys.length} files`,
    async () => {
      const found = await own();
      if (found.length === 0 || found.some(({ running }) => running)) return undefined;
      return (await tracedBy(stack, found)) >= captures ? true : undefined;
    },
    LIMIT_MS,
  );
  const parts = (await sentParts(stack)) - partsBefore;
  await sleep(300);
  const runs = await own();
  const traced = await tracedBy(stack, runs);
  if (traced !== captures) throw new Error(`The runs are incomplete; got: ${traced} traces; expected: ${captures}`);
  const executions = await countExecutions(
    stack,
    runs.map(({ arn }) => arn),
  );
  const queued = [...shim.counts.operations.keys()].some((operation) => operation === 'states StartExecution');
  const mlflow = [...shim.counts.operations].reduce(
    (sum, [each, count]) => sum + (each.startsWith('mlflow ') ? count : 0),
    0,
  );
  return {
    runs: runs.length,
    units: unitsOf(stack, { files: bodies.length, parts, queued, executions, sinceMs }),
    mlflow,
  };
}

/** Invokes the starter as Lambda's pollers do at the end of a window, each with what it collected. */
async function startRuns({ pipeline, environment }: QuotaEnvironment, keys: readonly string[]): Promise<void> {
  const FunctionName = pipeline.functionName('starter');
  const share = Math.ceil(keys.length / STARTERS_AT_ONCE);
  const SentTimestamp = String(Date.now());
  for (let from = 0; from < keys.length; from += share) {
    const Records = keys.slice(from, from + share).map((key) => ({
      messageId: randomUUID(),
      body: JSON.stringify(pipeline.event(key)),
      attributes: { SentTimestamp },
    }));
    const Payload = Buffer.from(JSON.stringify({ Records }));
    const { FunctionError, Payload: said } = await environment.clients.lambda.send(
      new InvokeCommand({ FunctionName, Payload }),
    );
    if (FunctionError) throw new Error(`The starter failed: ${said?.transformToString()}`);
  }
}

/** Puts the files into the bucket, which sends their events if its rule is enabled. */
async function putFiles(stack: QuotaEnvironment, name: string, bodies: readonly string[]): Promise<string[]> {
  const { pipeline, environment } = stack;
  const keys = bodies.map((_, n) => stack.key(`${name}-${n}`));
  for (const [n, Body] of bodies.entries()) {
    const Bucket = pipeline.outputs.captureBucket;
    await environment.clients.s3.send(new PutObjectCommand({ Bucket, Key: keys[n], Body }));
  }
  return keys;
}

/** Waits until all parts are sent to the receiver, if the stack has one. @returns how many have been sent since the stack is there */
async function sentParts({ pipeline, environment }: QuotaEnvironment): Promise<number> {
  const variables = await pipeline.variablesOf('otlpSender').catch(() => undefined);
  if (variables === undefined) return 0;
  const AttributeNames = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'];
  const input = { QueueUrl: variables.QUEUE_URL, AttributeNames };
  await pipeline.until('an empty queue of parts', async () => {
    type Reply = { Attributes: Record<string, string> };
    const { Attributes } = await callAws<Reply>(environment.clients.lambda, 'sqs', 'GetQueueAttributes', input);
    return Object.values(Attributes).every((count) => Number(count) === 0) ? true : undefined;
  });
  const keys = await pipeline.keysUnder('ledger/');
  return keys.filter((key) => /^ledger\/(captures|verdicts)\/.*\.part\.parquet$/.test(key)).length;
}

async function tracedBy({ pipeline }: QuotaEnvironment, runs: readonly { arn: string }[]): Promise<number> {
  let traced = 0;
  for (const { arn } of runs) {
    const { summary, status, cause } = await pipeline.ended(arn);
    if (status !== 'SUCCEEDED') throw new Error(`${arn} ${status}: ${cause}`);
    traced += summary?.lines.traced ?? 0;
  }
  return traced;
}

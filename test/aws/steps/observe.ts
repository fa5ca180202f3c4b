/** What CloudWatch and the queues show after the runs: heaps, metrics, alarms, logs, dead letters. */

import { queueAttributes } from '../../../bin/operate/aws-calls.ts';
import { callAws } from '../../../src/core/aws/aws-json.ts';
import { RESOURCE_METRICS } from '../../../src/core/contract/metric-names.ts';
import { resourceNames } from '../../../src/core/contract/names.ts';
import type { Canary } from '../canary.ts';
import { JUDGED } from '../captures.ts';
import { judgeHeap, readHeapLines } from '../heap.ts';
import { deployedEnvironment } from '../smoke-steps.ts';
import { stackResources } from '../stack.ts';
import { checkErrorCapture } from './error-capture.ts';

/** CloudWatch shows a new metric within a few minutes, and evaluates alarms each minute. */
const METRIC_LIMIT_MS = 600_000;
/** Alarms that the canary's own refused and throttled runs raise. */
const PROVOKED = ['RunFailed', 'RunThrottled', 'FunctionErrors', 'FunctionThrottled'];

export async function observeStep(canary: Canary): Promise<void> {
  const { clients, state } = canary;
  const heap = judgeHeap(await readHeapLines(clients, state.prefix));
  canary.note('heap-honoured', heap.ok, heap.found);
  await checkQueues(canary);
  await checkLogs(canary);
  await checkMetrics(canary);
  await checkBedrock(canary);
  await checkErrorCapture(canary);
  await checkAlarms(canary);
}

/** Returns the sum of a metric since the canary began; 0 without data points. */
async function sumOf(
  { clients, state }: Canary,
  Namespace: string,
  MetricName: string,
  dimensions: Record<string, string>,
) {
  const StartTime = Math.floor(Date.parse(state.startedAt) / 60_000) * 60;
  const window = { StartTime, EndTime: Math.floor(Date.now() / 1000) + 60, Period: 300 };
  const Dimensions = Object.entries(dimensions).map(([Name, Value]) => ({ Name, Value }));
  const input = { Namespace, MetricName, ...window, Dimensions, Statistics: ['Sum'] };
  type Reply = { Datapoints?: { Sum?: number }[] };
  const { Datapoints = [] } = await callAws<Reply>(clients.lambda, 'monitoring', 'GetMetricStatistics', input);
  return Datapoints.reduce((sum, { Sum = 0 }) => sum + Sum, 0);
}

async function checkMetrics(canary: Canary): Promise<void> {
  const above = (enough: number, sum: () => Promise<number>) => async () => {
    const value = await sum();
    return value >= enough ? value : undefined;
  };
  const own = { [RESOURCE_METRICS.dimension]: canary.state.prefix };
  const checks = [
    ['run-metrics', 'TracedLines', JUDGED, () => sumOf(canary, RESOURCE_METRICS.namespace, 'TracedLines', own)],
    ['map-metrics', 'ExecutionsStarted of ForEachChunk', 1, () => startedChildren(canary)],
  ] as const;
  for (const [id, name, enough, sum] of checks) {
    if (canary.cannotSee(id)) continue;
    const value = await canary.until(name, METRIC_LIMIT_MS, above(enough, sum)).catch((error: Error) => error.message);
    canary.note(id, typeof value === 'number', `${name}: ${value}`);
  }
}

const startedChildren = async (canary: Canary): Promise<number> =>
  sumOf(canary, 'AWS/States', 'ExecutionsStarted', {
    StateMachineArn: `${await canary.machine('stateMachineArn')}/ForEachChunk`,
  });

/** Bedrock's own metrics are of the whole account: another user of the same model is counted too. */
async function checkBedrock(canary: Canary): Promise<void> {
  if (canary.cannotSee('cache-read', 'bedrock-throttle')) return;
  const { BEDROCK_MODEL_ID: model } = await deployedEnvironment(canary.clients, await canary.outputs());
  const sum = (name: string) => sumOf(canary, 'AWS/Bedrock', name, { ModelId: model });
  const read = await sum('CacheReadInputTokenCount');
  canary.note(
    'cache-read',
    read > 0,
    `${read} tokens read, ${await sum('CacheWriteInputTokenCount')} written, ${await sum('InputTokenCount')} others`,
  );
  const throttles = await sum('InvocationThrottles');
  const accepted = canary.state.findings['schema-accepted'];
  if (throttles === 0) canary.skip('bedrock-throttle', 'no call was throttled');
  else
    canary.note('bedrock-throttle', accepted?.outcome === 'seen', `${throttles} throttled calls; ${accepted?.detail}`);
}

async function checkLogs(canary: Canary): Promise<void> {
  if (canary.cannotSee('logs-delivered')) return;
  const logGroupName = resourceNames(canary.state.prefix).stateMachineLogGroup;
  const lines = await canary
    .until('lines in the log of executions', METRIC_LIMIT_MS, async () => {
      const input = { logGroupName, limit: 100 };
      const found = await callAws<{ events?: object[] }>(canary.clients.lambda, 'logs', 'FilterLogEvents', input);
      return found.events?.length || undefined;
    })
    .catch(() => 0);
  canary.note('logs-delivered', lines > 0, `${lines} lines or more`);
}

const ofType = async (canary: Canary, wanted: string): Promise<string[]> =>
  (await stackResources(canary)).filter(({ type }) => type === wanted).map(({ id }) => id);

async function checkQueues(canary: Canary): Promise<void> {
  let messages = 0;
  const queues = await ofType(canary, 'AWS::SQS::Queue');
  for (const QueueUrl of queues) {
    const { ApproximateNumberOfMessages: waiting } = await queueAttributes(canary.clients.lambda, QueueUrl);
    messages += Number(waiting ?? Number.NaN);
  }
  canary.note('no-dead-letters', queues.length > 0 && messages === 0, `${messages} in ${queues.length} queues`);
}

async function checkAlarms(canary: Canary): Promise<void> {
  if (canary.cannotSee('alarms-ok')) return;
  const AlarmNames = await ofType(canary, 'AWS::CloudWatch::Alarm');
  type Reply = { MetricAlarms?: { AlarmName: string; StateValue: string }[] };
  const read = async () => {
    const input = { AlarmNames, MaxRecords: 100 };
    return (await callAws<Reply>(canary.clients.lambda, 'monitoring', 'DescribeAlarms', input)).MetricAlarms ?? [];
  };
  const evaluated = async () => {
    const alarms = await read();
    const isKnown = alarms.length > 0 && alarms.every(({ StateValue }) => StateValue !== 'INSUFFICIENT_DATA');
    return isKnown ? alarms : undefined;
  };
  const alarms = await canary.until('the state of all alarms', METRIC_LIMIT_MS, evaluated).catch(read);
  const wrong = alarms.filter(
    ({ AlarmName, StateValue }) =>
      StateValue !== 'OK' && !(StateValue === 'ALARM' && PROVOKED.some((name) => AlarmName.includes(name))),
  );
  const named = wrong.map(({ AlarmName, StateValue }) => `${AlarmName} ${StateValue}`);
  canary.note(
    'alarms-ok',
    alarms.length > 0 && wrong.length === 0,
    `${alarms.length} alarms; ${named.join(', ') || 'none raised unasked'}`,
  );
}

/** Counts what a deployed stack asks of AWS for some capture files, in the units that AWS charges. */
import {
  DescribeStateMachineCommand,
  type HistoryEvent,
  ListExecutionsCommand,
  ListMapRunsCommand,
} from '@aws-sdk/client-sfn';
import type { QuotaEnvironment } from '../../test/helpers/quota-environment.ts';
import type { Priced } from '../support/list-prices.ts';
import { type Machine, transitionsIn } from './transitions.ts';

/** Units of each price. */
export type Units = Record<Priced, number>;

/** What Step Functions itself asks of S3 for a Map Run: it reads the manifest, and writes its results and their manifest. */
const MAP_RUN_READS = 1;
const MAP_RUN_WRITES = 2;

/** CloudWatch counts these in addition to the text of each log event. */
const LOG_EVENT_BYTES = 26;
/** `execution_arn`, ids and times of an event of an execution in its log. */
const EXECUTION_EVENT_BYTES = 330;
/** START, END and REPORT, which the emulator does not return with the log of an invocation. */
const INVOCATION_LOG_BYTES = 3 * LOG_EVENT_BYTES + 340;

interface Executions {
  transitions: number;
  mapRuns: number;
  /** Bytes of the events in the log of the state machine. */
  logBytes: number;
}

/** Reads the histories of executions and of their Maps' children, and counts what Standard workflows charge. */
export async function countExecutions(stack: QuotaEnvironment, arns: readonly string[]): Promise<Executions> {
  const { pipeline, environment } = stack;
  const { sfn } = environment.clients;
  const { stateMachineArn } = pipeline.outputs;
  const { loggingConfiguration, definition = '' } = await sfn.send(
    new DescribeStateMachineCommand({ stateMachineArn }),
  );
  const machine = JSON.parse(definition) as Machine;
  const counted: Executions = { transitions: 0, mapRuns: 0, logBytes: 0 };
  for (const arn of arns) {
    const { mapRuns = [] } = await sfn.send(new ListMapRunsCommand({ executionArn: arn }));
    counted.mapRuns += mapRuns.length;
    // That of the run itself, and those of the children.
    const histories = await pipeline.childHistories(arn);
    for (const history of histories) {
      counted.transitions += transitionsIn(history, machine);
      if (loggingConfiguration?.level !== 'ALL') continue;
      const withData = loggingConfiguration.includeExecutionData === true;
      for (const event of history) counted.logBytes += loggedBytes(event, withData);
    }
  }
  return counted;
}

function loggedBytes(event: HistoryEvent, withData: boolean): number {
  const details = Object.entries(event).find(([name]) => name.endsWith('EventDetails'))?.[1] as object | undefined;
  const kept = Object.entries(details ?? {}).filter(
    ([name]) => withData || !/^(?:input|output|parameters)$/.test(name),
  );
  return EXECUTION_EVENT_BYTES + LOG_EVENT_BYTES + JSON.stringify(Object.fromEntries(kept)).length;
}

/** Lists the executions of the stack's state machine. */
export async function executionsOf({
  environment,
  pipeline,
}: QuotaEnvironment): Promise<{ arn: string; name: string; running: boolean }[]> {
  const found: { arn: string; name: string; running: boolean }[] = [];
  let nextToken: string | undefined;
  do {
    const page = await environment.clients.sfn.send(
      new ListExecutionsCommand({ stateMachineArn: pipeline.outputs.stateMachineArn, maxResults: 1000, nextToken }),
    );
    for (const { executionArn = '', name = '', status } of page.executions ?? []) {
      found.push({ arn: executionArn, name, running: status === 'RUNNING' });
    }
    nextToken = page.nextToken;
  } while (nextToken);
  return found;
}

export interface Phase {
  /** Capture files, each of which is one event. */
  files: number;
  /** Parts of the ledger that are sent to a receiver of OpenTelemetry. */
  parts: number;
  /** Whether their events went through a queue. */
  queued: boolean;
  executions: Executions;
  /** Events of the emulator since the phase began. */
  sinceMs: number;
}

/** Adds up the units of what happened since the shim's counts were cleared. */
export function unitsOf(stack: QuotaEnvironment, { files, parts, queued, executions, sinceMs }: Phase): Units {
  const { counts } = stack.shim;
  const { captureBucket, workBucket } = stack.pipeline.outputs;
  const sum = (pattern: RegExp): number =>
    [...counts.operations].reduce((total, [name, count]) => total + (pattern.test(name) ? count : 0), 0);
  const invocations = stack.shim.emulatorEvents().filter(({ at, ms }) => at >= sinceMs && ms !== undefined);
  const functionLogs = invocations.reduce((total, { logBytes = 0 }) => total + logBytes + INVOCATION_LOG_BYTES, 0);
  // Span files are apart: they are the App's way of storing traces.
  const ofStack = `(?:${captureBucket}|${workBucket})`;
  const mapRunWrites = executions.mapRuns * MAP_RUN_WRITES;
  return {
    stateTransition: executions.transitions,
    lambdaGbSecond: invocations.reduce((total, { ms = 0, memoryMb = 0 }) => total + (ms / 1000) * (memoryMb / 1024), 0),
    lambdaRequest: invocations.length,
    s3Write: sum(new RegExp(`^s3 (?:PUT|POST|LIST) ${ofStack}$`)) + mapRunWrites,
    s3Read: sum(new RegExp(`^s3 (?:GET|HEAD) ${ofStack}$`)) + executions.mapRuns * MAP_RUN_READS,
    dynamodbWriteUnit: sum(/^dynamodb write units$/),
    dynamodbReadUnit: sum(/^dynamodb read units$/),
    // The work bucket sends none.
    eventBridgeEvent: files + sum(new RegExp(`^s3 (?:PUT|POST|DELETE) ${captureBucket}$`)),
    // Each event is sent; the poller receives and deletes ten at a time, and parts for OpenTelemetry one at a time.
    sqsRequest: (queued ? files * 1.2 : 0) + 3 * parts,
    logsGb: (functionLogs + executions.logBytes) / 1e9,
  };
}

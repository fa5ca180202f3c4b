/** Puts capture files into the capture bucket and follows the executions that process them. */
import { createReadStream } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  DescribeMapRunCommand,
  type ExecutionListItem,
  ListMapRunsCommand,
  paginateListExecutions,
  StartExecutionCommand,
} from '@aws-sdk/client-sfn';
import { Upload } from '@aws-sdk/lib-storage';
import { forEachConcurrently } from '../../src/shared/concurrency.ts';
import type { AwsClients } from '../stack/aws-clients.ts';
import type { CaptureFile } from '../start/capture-files.ts';

export interface Run {
  /** Name of the execution. */
  name: string;
  arn: string;
  /** The object that started it, or the prefix of a backfill. */
  key: string;
  status: string;
  /** Present if it failed. */
  error?: string;
  cause?: string;
  /** JSON text, present if it succeeded. */
  output?: string;
}

export interface FileProgress {
  /** The unit that is counted: files, or a backfill's chunks of lines. */
  unit: 'files' | 'chunks';
  total: number;
  /** The number that have ended, successfully or not. */
  done: number;
  runs: readonly Run[];
}

interface ProcessFilesOptions {
  clients: AwsClients;
  captureBucket: string;
  stateMachineArn: string;
  files: readonly CaptureFile[];
  /** Files processed concurrently. */
  concurrency: number;
  onProgress?: (progress: FileProgress) => void;
  signal?: AbortSignal;
  /** Time that the rule has to start an execution after a file was put. */
  startLimitMs?: number;
}

const POLL_MS = 400;

const PUT_CONCURRENCY = 8;

/** EventBridge takes a second or two on AWS, sometimes half a minute. The emulator reacts immediately. */
const START_LIMIT_MS = 120_000;

/** The clocks of this machine and of AWS differ by a few seconds at most. */
const CLOCK_SLACK_MS = 60_000;

/**
 * Puts each file unchanged and waits until every execution that it started has ended, successfully or not.
 *
 * @returns the runs, in the order in which they were found
 * @throws Error if the rule does not start an execution for a file in time
 */
export async function processFiles(options: ProcessFilesOptions): Promise<Run[]> {
  const { clients, files, signal } = options;
  const since = Date.now() - CLOCK_SLACK_MS;
  const waiting = [...files];
  const putAt = new Map<string, number>();
  const runs = new Map<string, Run>();
  // Executions that other objects started.
  const others = new Set<string>();
  const ended = (key: string): boolean => {
    const own = [...runs.values()].filter((run) => run.key === key);
    return own.length > 0 && own.every((run) => run.status !== 'RUNNING');
  };
  for (;;) {
    signal?.throwIfAborted();
    for (const item of await recentExecutions(options, since)) await update(item);
    const done = [...putAt.keys()].filter(ended).length;
    const room = options.concurrency - (putAt.size - done);
    for (const file of waiting.splice(0, Math.max(0, room))) {
      await put(clients, options.captureBucket, file);
      putAt.set(file.key, Date.now());
    }
    options.onProgress?.({ unit: 'files', total: files.length, done, runs: [...runs.values()] });
    if (done === files.length) return [...runs.values()];
    for (const [key, at] of putAt) {
      const limit = options.startLimitMs ?? START_LIMIT_MS;
      if (Date.now() - at > limit && ![...runs.values()].some((run) => run.key === key)) {
        throw new Error(
          `The rule started no execution; got: none of ${options.stateMachineArn} in the ${limit / 1000} s after s3://${options.captureBucket}/${key} was put; expected: one. Check that the rule is enabled, that EventBridge notifications are on for the bucket, and that the key is under DATA_CAPTURE_S3_PREFIX`,
        );
      }
    }
    await sleep(POLL_MS);
  }

  async function update(item: ExecutionListItem): Promise<void> {
    const arn = item.executionArn ?? '';
    const known = runs.get(arn);
    if (others.has(arn) || (known && known.status === item.status)) return;
    const execution = await clients.sfn.send(new DescribeExecutionCommand({ executionArn: arn }));
    const key = objectKey(execution.input);
    if (key === undefined || !putAt.has(key)) {
      others.add(arn);
      return;
    }
    runs.set(arn, runOf(execution, key));
  }
}

const runOf = (
  { name, executionArn, status, error, cause, output }: DescribeExecutionCommandOutput,
  key: string,
): Run => ({ name: name ?? '', arn: executionArn ?? '', key, status: status ?? 'RUNNING', error, cause, output });

async function put({ s3 }: Pick<AwsClients, 's3'>, bucket: string, file: CaptureFile): Promise<void> {
  const params = {
    Bucket: bucket,
    Key: file.key,
    Body: createReadStream(file.path),
    ContentType: 'application/x-ndjson',
  };
  await new Upload({ client: s3, params }).done();
}

/** Puts files for a backfill, several concurrently, before a rule watches the bucket. */
export async function putCaptures(
  clients: Pick<AwsClients, 's3'>,
  bucket: string,
  files: readonly CaptureFile[],
  signal?: AbortSignal,
): Promise<void> {
  await forEachConcurrently(PUT_CONCURRENCY, files, (file) => {
    signal?.throwIfAborted();
    return put(clients, bucket, file);
  });
}

/** Runs one execution over all captures under a prefix and waits until it has ended, successfully or not. */
export async function runBackfill(
  options: Pick<ProcessFilesOptions, 'clients' | 'captureBucket' | 'stateMachineArn' | 'onProgress' | 'signal'> & {
    prefix: string;
  },
): Promise<Run[]> {
  const { captureBucket: bucket, stateMachineArn, prefix } = options;
  const { sfn } = options.clients;
  const input = JSON.stringify({ bucket, prefix });
  const { executionArn } = await sfn.send(new StartExecutionCommand({ stateMachineArn, input }));
  for (;;) {
    options.signal?.throwIfAborted();
    const run = runOf(await sfn.send(new DescribeExecutionCommand({ executionArn })), prefix);
    const { mapRuns = [] } = await sfn.send(new ListMapRunsCommand({ executionArn }));
    const counts = await Promise.all(
      mapRuns.map(async ({ mapRunArn }) => (await sfn.send(new DescribeMapRunCommand({ mapRunArn }))).itemCounts),
    );
    const sum = (names: ('total' | 'succeeded' | 'failed')[]) =>
      counts.reduce((all, one) => all + names.reduce((part, name) => part + (one?.[name] ?? 0), 0), 0);
    options.onProgress?.({ unit: 'chunks', total: sum(['total']), done: sum(['succeeded', 'failed']), runs: [run] });
    if (run.status !== 'RUNNING') return [run];
    await sleep(POLL_MS);
  }
}

/** Lists the executions since a time, newest first. */
async function recentExecutions(options: ProcessFilesOptions, since: number): Promise<ExecutionListItem[]> {
  const { clients, stateMachineArn } = options;
  const found: ExecutionListItem[] = [];
  for await (const { executions = [] } of paginateListExecutions({ client: clients.sfn }, { stateMachineArn })) {
    const recent = executions.filter((item) => (item.startDate?.getTime() ?? 0) >= since);
    found.push(...recent);
    if (recent.length < executions.length) break;
  }
  return found;
}

/** Returns the key in an "Object Created" event; `undefined` for any other input. */
function objectKey(input: string | undefined): string | undefined {
  const event = JSON.parse(input ?? '{}') as { detail?: { object?: { key?: string } } } | null;
  return event?.detail?.object?.key;
}

/** Puts capture files into the capture bucket and follows the executions that process them. */
import { createReadStream } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  type ExecutionListItem,
  paginateListExecutions,
} from '@aws-sdk/client-sfn';
import { Upload } from '@aws-sdk/lib-storage';
import { Storage } from '../../src/core/aws/storage.ts';
import type { FilesInput, ListedFile } from '../../src/core/contract/input.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import type { AwsClients } from './aws-clients.ts';

/** A file to put: its path, and its key in the capture bucket. */
interface FileToPut {
  path: string;
  key: string;
  bytes: number;
}

export interface Run {
  /** Name of the execution. */
  name: string;
  arn: string;
  /** The objects that started it, or the prefix of a backfill. */
  keys: readonly string[];
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

export interface ProcessFilesOptions {
  clients: AwsClients;
  captureBucket: string;
  workBucket: string;
  stateMachineArn: string;
  files: readonly FileToPut[];
  /** Awaited if it returns a promise. */
  onProgress?: (progress: FileProgress) => unknown;
  signal?: AbortSignal;
  /** Time in which an execution must start after a file was put. */
  startLimitMs?: number;
  /** Between two looks at the executions. The default is for an emulator. */
  pollMs?: number;
}

const POLL_MS = 400;

const PUT_CONCURRENCY = 8;

/**
 * EventBridge takes a second or two on AWS, sometimes half a minute, and the window of the stack up to five. The emulator has
 * no window.
 */
const START_LIMIT_MS = 420_000;

/** The clocks of this machine and of AWS differ by a few seconds at most. */
const CLOCK_SLACK_MS = 60_000;

/**
 * Puts all files unchanged and waits until every execution that it started has ended, successfully or not.
 *
 * @returns the runs, in the order in which they were found
 * @throws Error if no execution starts for a file in time
 */
export async function processFiles(options: ProcessFilesOptions): Promise<Run[]> {
  const { clients, files, signal, startLimitMs: limit = START_LIMIT_MS, pollMs = POLL_MS } = options;
  const since = Date.now() - CLOCK_SLACK_MS;
  const keys = new Set(files.map(({ key }) => key));
  const runs = new Map<string, Run>();
  // Executions that other objects started.
  const others = new Set<string>();
  const runsOf = (key: string): Run[] => [...runs.values()].filter((run) => run.keys.includes(key));
  const ended = (key: string): boolean => {
    const own = runsOf(key);
    return own.length > 0 && own.every((run) => run.status !== 'RUNNING');
  };
  await putCaptures(clients, options.captureBucket, files, signal);
  const putAt = Date.now();
  for (;;) {
    signal?.throwIfAborted();
    for (const item of await recentExecutions(options, since)) await update(item);
    const done = [...keys].filter(ended).length;
    await options.onProgress?.({ unit: 'files', total: keys.size, done, runs: [...runs.values()] });
    if (done === keys.size) return [...runs.values()];
    const late = Date.now() - putAt > limit ? [...keys].find((key) => runsOf(key).length === 0) : undefined;
    if (late !== undefined) {
      throw new Error(
        `No execution started; got: none of ${options.stateMachineArn} in the ${limit / 1000} s after s3://${options.captureBucket}/${late} was put; expected: one. Check that the rule is enabled, that EventBridge notifications are on for the bucket, that the key is under DATA_CAPTURE_S3_PREFIX, and the log of the function that starts runs`,
      );
    }
    await sleep(pollMs);
  }

  async function update(item: ExecutionListItem): Promise<void> {
    const arn = item.executionArn ?? '';
    const known = runs.get(arn);
    if (others.has(arn) || (known && known.status === item.status)) return;
    const execution = await clients.sfn.send(new DescribeExecutionCommand({ executionArn: arn }));
    const own = (await keysOf(execution.input, options)).filter((key) => keys.has(key));
    if (own.length === 0) others.add(arn);
    else runs.set(arn, runOf(execution, own));
  }
}

export const runOf = (
  { name, executionArn, status, error, cause, output }: DescribeExecutionCommandOutput,
  keys: readonly string[],
): Run => ({ name: name ?? '', arn: executionArn ?? '', keys, status: status ?? 'RUNNING', error, cause, output });

/** Puts files, several concurrently. */
export async function putCaptures(
  clients: Pick<AwsClients, 's3'>,
  bucket: string,
  files: readonly FileToPut[],
  signal?: AbortSignal,
): Promise<void> {
  await forEachConcurrently(PUT_CONCURRENCY, files, (file) => {
    signal?.throwIfAborted();
    const Body = createReadStream(file.path);
    const params = { Bucket: bucket, Key: file.key, Body, ContentType: 'application/x-ndjson' };
    return new Upload({ client: clients.s3, params }).done();
  });
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

/** Returns the keys of the files that an input lists; none for any other input. */
async function keysOf(input: string | undefined, { clients, workBucket }: ProcessFilesOptions): Promise<string[]> {
  const { files } = JSON.parse(input ?? '{}') as Partial<FilesInput>;
  if (files === undefined) return [];
  const listed = await new Storage(clients.s3).getJsonLines<ListedFile>(workBucket, files.key);
  return listed.map(({ key }) => key);
}

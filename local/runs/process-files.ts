/** Puts capture files into the capture bucket and follows the executions that process them. */

import { createReadStream } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  DescribeMapRunCommand,
  type ExecutionListItem,
  ListExecutionsCommand,
  ListMapRunsCommand,
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
  /** Object that started it, or the prefix of a backfill. */
  key: string;
  status: string;
  /** There when it failed. */
  error?: string;
  cause?: string;
  /** JSON text; there when it succeeded. */
  output?: string;
}

export interface FileProgress {
  /** What is counted: files, or a backfill's chunks of lines. */
  unit: 'files' | 'chunks';
  total: number;
  /** Of these, how many are through, well or not. */
  done: number;
  runs: readonly Run[];
}

interface ProcessFilesOptions {
  clients: AwsClients;
  captureBucket: string;
  stateMachineArn: string;
  files: readonly CaptureFile[];
  /** Files that are in the works at a time. */
  atOnce: number;
  onProgress?: (progress: FileProgress) => void;
  signal?: AbortSignal;
  /** How long after a file was put the rule may take to start an execution. */
  startLimitMs?: number;
}

const POLL_MS = 400;

const PUTS_AT_ONCE = 8;

/** EventBridge takes a second or two on AWS, at times half a minute; the emulator is at it at once. */
const START_LIMIT_MS = 120_000;

/** Clocks of this machine and of AWS differ by some seconds at most. */
const CLOCK_SLACK_MS = 60_000;

/**
 * Puts each file as it is and waits until every execution that it started has ended, well or not.
 *
 * @returns the runs, in the order in which they were found
 * @throws Error when the rule starts no execution for a file in time
 */
export async function processFiles(options: ProcessFilesOptions): Promise<Run[]> {
  const { clients, files, signal } = options;
  const since = Date.now() - CLOCK_SLACK_MS;
  const waiting = [...files];
  const putAt = new Map<string, number>();
  const runs = new Map<string, Run>();
  // Executions of other objects, which are none of ours.
  const others = new Set<string>();
  const ended = (key: string): boolean => {
    const own = [...runs.values()].filter((run) => run.key === key);
    return own.length > 0 && own.every((run) => run.status !== 'RUNNING');
  };
  for (;;) {
    signal?.throwIfAborted();
    for (const item of await recentExecutions(options, since)) {
      await look(item);
    }
    const done = [...putAt.keys()].filter(ended).length;
    const room = options.atOnce - (putAt.size - done);
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
          `The rule started no execution; got: none of ${options.stateMachineArn} ${limit / 1000} s after s3://${options.captureBucket}/${key} was put; expected: one. Check that the rule is enabled, that EventBridge notification is on for the bucket, and that the key is under DATA_CAPTURE_S3_PREFIX`,
        );
      }
    }
    await sleep(POLL_MS);
  }

  async function look(item: ExecutionListItem): Promise<void> {
    const arn = item.executionArn ?? '';
    const known = runs.get(arn);
    if (others.has(arn) || (known && known.status === item.status)) return;
    const facts = await clients.sfn.send(new DescribeExecutionCommand({ executionArn: arn }));
    const key = objectKey(facts.input);
    if (key === undefined || !putAt.has(key)) {
      others.add(arn);
      return;
    }
    runs.set(arn, runOf(facts, key));
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

/** Puts files, some at a time, of which no rule is to hear: a backfill takes them. */
export async function putFiles(
  clients: Pick<AwsClients, 's3'>,
  bucket: string,
  files: readonly CaptureFile[],
  signal?: AbortSignal,
): Promise<void> {
  await forEachConcurrently(PUTS_AT_ONCE, files, (file) => {
    signal?.throwIfAborted();
    return put(clients, bucket, file);
  });
}

/** One execution over all captures under a prefix, until it has ended, well or not. */
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

/** Newest first, as far back as `since`. */
async function recentExecutions(options: ProcessFilesOptions, since: number): Promise<ExecutionListItem[]> {
  const found: ExecutionListItem[] = [];
  let nextToken: string | undefined;
  do {
    const page = await options.clients.sfn.send(
      new ListExecutionsCommand({ stateMachineArn: options.stateMachineArn, nextToken, maxResults: 100 }),
    );
    const recent = (page.executions ?? []).filter((item) => (item.startDate?.getTime() ?? 0) >= since);
    found.push(...recent);
    nextToken = recent.length < (page.executions ?? []).length ? undefined : page.nextToken;
  } while (nextToken);
  return found;
}

/** The key in an "Object Created" event, `undefined` for an input of another kind. */
function objectKey(input: string | undefined): string | undefined {
  const event = JSON.parse(input ?? '{}') as { detail?: { object?: { key?: string } } } | null;
  return event?.detail?.object?.key;
}

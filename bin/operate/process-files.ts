/** Puts capture files into the capture bucket and finds the executions that process them. */
import { listedExecutions } from '../../src/core/aws/executions.ts';
import type { Storage, Work } from '../../src/core/aws/storage.ts';
import { putFile } from '../../src/core/aws/uploads.ts';
import type { FilesInput, ListedFile } from '../../src/core/contract/input.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import type { AwsClients } from './aws-clients.ts';
import type { CaptureFile } from './capture-files.ts';
import { describeExecution, type StartedExecution } from './executions.ts';
import { untilNextPoll } from './run-progress.ts';

type FileToPut = Pick<CaptureFile, 'path' | 'key' | 'bytes'>;

/** The stack that processes the files. */
interface Processing {
  clients: Pick<AwsClients, 'sfn'>;
  work: Work;
  outputs: Pick<StackOutputs, 'captureBucket' | 'stateMachineArn'>;
}

const PUT_CONCURRENCY = 8;

/**
 * Time in which an execution must start after a file was put.
 * EventBridge takes a second or two on AWS, sometimes half a minute, and the window of the stack up to five. The emulator has
 * no window.
 */
const START_LIMIT_MS = 420_000;

/** The clocks of this machine and of AWS differ by a few seconds at most. */
const CLOCK_SLACK_MS = 60_000;

/**
 * Puts all files unchanged and waits until each has a run.
 *
 * @param onWait called while a file has no run yet
 * @returns the runs, in the order in which they were found
 * @throws Error if no execution starts for a file in time
 */
export async function startedRuns(
  { clients, work, outputs: { captureBucket, stateMachineArn } }: Processing,
  files: readonly FileToPut[],
  onWait?: (text: string) => void,
  signal?: AbortSignal,
): Promise<StartedExecution[]> {
  const since = Date.now() - CLOCK_SLACK_MS;
  await putCaptures(work.storage, captureBucket, files, signal);
  const putAt = Date.now();
  const own = new Set(files.map(({ key }) => key));
  const waiting = new Set(own);
  const described = new Set<string>();
  const found: StartedExecution[] = [];
  for (;;) {
    const started = listedExecutions(clients.sfn, stateMachineArn, { fromMs: since });
    for await (const { executionArn: arn = '', name = '' } of started) {
      if (described.has(arn)) continue;
      described.add(arn);
      const { input } = await describeExecution(clients.sfn, arn);
      const keys = (await keysOf(input, work)).filter((key) => own.has(key));
      for (const key of keys) waiting.delete(key);
      if (keys.length > 0) found.push({ name, arn });
    }
    const [late] = waiting;
    if (late === undefined) return found;
    if (Date.now() - putAt > START_LIMIT_MS) {
      throw new Error(
        `No execution started; got: none of ${stateMachineArn} in the ${START_LIMIT_MS / 1000} s after s3://${captureBucket}/${late} was put; expected: one. Check that the rule is enabled, that EventBridge notifications are on for the bucket, that the key is under DATA_CAPTURE_S3_PREFIX, and the log of the function that starts runs`,
      );
    }
    onWait?.("waiting for the stack's rule to start runs, a minute or two …");
    await untilNextPoll(putAt, signal);
  }
}

/** Puts files, several concurrently. */
export async function putCaptures(storage: Storage, bucket: string, files: readonly FileToPut[], signal?: AbortSignal) {
  await forEachConcurrently(PUT_CONCURRENCY, files, ({ key, path }) => {
    signal?.throwIfAborted();
    return putFile(storage, bucket, key, path, 'application/x-ndjson');
  });
}

/** Returns the keys of the files that an input lists. Returns no keys for any other input. */
async function keysOf(input: string | undefined, { storage, workBucket }: Work): Promise<string[]> {
  const { files } = JSON.parse(input ?? '{}') as Partial<FilesInput>;
  if (files === undefined) return [];
  const listed = await storage.getJsonLines<ListedFile>(workBucket, files.key);
  return listed.map(({ key }) => key);
}

/** Files that a user has forwarded: sends events to the stack's queue, and puts dead letters back into it. */
import { GetFunctionConfigurationCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { backfillObjects } from '../../src/captures/files/capture-objects.ts';
import { HOUR_MS } from '../../src/captures/files/capture-path.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { ObjectFacts, Storage } from '../../src/core/aws/storage.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { type ForwardEnvironment, readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { orMissing, queueAttributes } from './aws-calls.ts';

const MESSAGES_AT_ONCE = 10;

/** Returns the environment of the deployed function. @throws PermanentError `NothingForwarded` if the stack has no such function */
export async function findForwarding(lambda: LambdaClient, stackPrefix: string): Promise<ForwardEnvironment> {
  const FunctionName = resourceNames(stackPrefix).forwarder;
  const found = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName })).catch(orMissing);
  if (found !== undefined) return readForwardEnvironment(found.Environment?.Variables ?? {});
  const expected = 'a stack that was deployed with ARTHUR_HOST: docs/arthur.md';
  throw new PermanentError('NothingForwarded', 'This stack forwards nothing', { expected, where: FunctionName });
}

/**
 * Lists the files of a window by the hours of their folders.
 *
 * @param within prefix of the keys, in or above the prefix of the forwarding
 * @throws PermanentError `OutsideCaptureScope`
 */
export async function* filesToForward(
  storage: Storage,
  { DATA_CAPTURE_S3_BUCKET: bucket, ARTHUR_S3_PREFIX: prefix, ARTHUR_S3_SUFFIX: suffix }: ForwardEnvironment,
  {
    within = prefix,
    fromMs,
    toMs,
  }: { within?: string | undefined; fromMs?: number | undefined; toMs?: number | undefined },
): AsyncGenerator<ObjectFacts> {
  // A run also looks at the hour before and after, for single records. Here files are whole.
  const window = { fromMs: fromMs && fromMs + HOUR_MS, toMs: toMs && toMs - HOUR_MS };
  for await (const file of backfillObjects(storage, { bucket, prefix }, { bucket, prefix: within }, window)) {
    if (file.key.endsWith(suffix)) yield file;
  }
}

/**
 * Sends the events of files to the queue.
 *
 * @param queue its URL; absent: the files are only counted
 * @param onSent gets the number of files so far
 * @returns the number of files, and their bytes
 */
export async function sendEvents(
  lambda: LambdaClient,
  queue: string | undefined,
  files: AsyncIterable<ObjectFacts>,
  onSent: (files: number) => void,
): Promise<{ files: number; bytes: number }> {
  const sum = { files: 0, bytes: 0 };
  await forEachConcurrently(MESSAGES_AT_ONCE, files, async ({ bucket, key, etag, size }) => {
    const event = { source: 'forward', detail: { bucket: { name: bucket }, object: { key, etag, size } } };
    const message = { QueueUrl: queue, MessageBody: JSON.stringify(event) };
    if (queue !== undefined) await callAws(lambda, 'sqs', 'SendMessage', message);
    sum.files += 1;
    sum.bytes += size;
    onSent(sum.files);
  });
  return sum;
}

/** Makes SQS put all dead letters back into the queue, or only counts them. @returns their approximate number */
export async function putBack(
  lambda: LambdaClient,
  { QUEUE_URL: queue, DEAD_LETTERS_URL: deadLetters }: ForwardEnvironment,
  queued: boolean,
): Promise<number> {
  const [from, to] = [await queueAttributes(lambda, deadLetters), await queueAttributes(lambda, queue)];
  // Start even if the count is 0, because the count is some seconds late.
  const input = { SourceArn: from.QueueArn, DestinationArn: to.QueueArn };
  if (queued) await callAws(lambda, 'sqs', 'StartMessageMoveTask', input);
  return Number(from.ApproximateNumberOfMessages);
}

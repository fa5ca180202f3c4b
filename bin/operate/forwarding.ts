/** Files that a user has forwarded: sends events to the stack's queue, and puts dead letters back into it. */
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { backfillObjects } from '../../src/captures/files/capture-objects.ts';
import { HOUR_MS } from '../../src/captures/files/capture-path.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { ObjectFacts, Storage, Work } from '../../src/core/aws/storage.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { SENT_TABLES } from '../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { type ForwardEnvironment, readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { dayOf, listFiles, partsOf } from '../../src/ledger/files.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { functionVariables, orMissing, queueAttributes } from './aws-calls.ts';

const MESSAGES_AT_ONCE = 10;

/** Returns the variables of a deployed function. @throws PermanentError `NothingForwarded` if the stack has no such function */
async function variablesOf(lambda: LambdaClient, FunctionName: string, expected: string) {
  const found = await functionVariables(lambda, FunctionName).catch(orMissing);
  if (found !== undefined) return found;
  throw new PermanentError('NothingForwarded', 'This stack forwards nothing', { expected, where: FunctionName });
}

/** Returns the environment of the deployed function. @throws PermanentError `NothingForwarded` if the stack has no such function */
export async function findForwarding(lambda: LambdaClient, stackPrefix: string): Promise<ForwardEnvironment> {
  const expected = 'a stack that was deployed with ARTHUR_HOST: docs/arthur.md';
  return readForwardEnvironment(await variablesOf(lambda, resourceNames(stackPrefix).forwarder, expected));
}

/** Returns the URL of the queue of parts that are sent. @throws PermanentError `NothingForwarded` if the stack sends none */
export async function findOtlpQueue(lambda: LambdaClient, stackPrefix: string): Promise<string | undefined> {
  const expected = 'a stack that was deployed with OTLP_ENDPOINT: docs/otlp.md';
  return (await variablesOf(lambda, resourceNames(stackPrefix).otlpSender, expected)).QUEUE_URL;
}

/** A file whose event is sent. `hours`: only its rows from the first to the last. */
type EventFile = Pick<ObjectFacts, 'bucket' | 'key' | 'etag' | 'size'> & { hours?: [first: string, last: string] };

/** Lists the files of the ledger that may have rows of a window: the spans before the verdicts. */
export async function* filesToSend(work: Work, { fromMs, toMs }: TimeWindow): AsyncGenerator<EventFile> {
  const hours: EventFile['hours'] = [hourOf(fromMs), hourOf(toMs - 1)];
  for (const table of SENT_TABLES) {
    const files = await Array.fromAsync(listFiles(work, table, dayOf(hours[0]), dayOf(hours[1])));
    const merged = files.filter(({ isMerged }) => isMerged);
    const within = new Set((await Promise.all(merged.map(({ key }) => partsOf(work, key)))).flat());
    for (const file of files) {
      const isAsked = hours[0] <= file.last && file.first <= hours[1] && !within.has(file.key);
      if (isAsked) yield { ...file, bucket: work.workBucket, hours };
    }
  }
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
  { within = prefix, fromMs, toMs }: Partial<TimeWindow> & { within?: string | undefined },
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
  files: AsyncIterable<EventFile>,
  onSent: (files: number) => void,
): Promise<{ files: number; bytes: number }> {
  const sum = { files: 0, bytes: 0 };
  await forEachConcurrently(MESSAGES_AT_ONCE, files, async ({ bucket, key, etag, size, hours }) => {
    const event = { source: 'forward', detail: { bucket: { name: bucket }, object: { key, etag, size } }, hours };
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

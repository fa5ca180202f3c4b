/** Files that a person has forwarded: what is sent to the stack's queue, and what is put back into it. */
import { GetFunctionConfigurationCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { backfillObjects } from '../../src/captures/files/capture-objects.ts';
import { HOUR_MS } from '../../src/captures/files/capture-path.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { ObjectFacts, Storage } from '../../src/core/aws/storage.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { orMissing, queueAttributes } from './aws-calls.ts';

/** What the deployed function forwards, and where its events come from. */
export type Forwarding = Awaited<ReturnType<typeof findForwarding>>;

/** SQS's maximum. */
const MESSAGES_AT_ONCE = 10;

/** @throws PermanentError `NothingForwarded` if the stack has no such function */
export async function findForwarding(lambda: LambdaClient, stackPrefix: string) {
  const FunctionName = resourceNames(stackPrefix).forwarder;
  const found = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName })).catch(orMissing);
  if (found === undefined) {
    const expected = 'a stack that was deployed with ARTHUR_HOST: docs/arthur.md';
    throw new PermanentError('NothingForwarded', 'This stack forwards nothing', { expected, where: FunctionName });
  }
  const variable = (name: string): string => found.Environment?.Variables?.[name] ?? '';
  return {
    /** Of the keys. */
    prefix: variable('ARTHUR_S3_PREFIX'),
    suffix: variable('ARTHUR_S3_SUFFIX'),
    /** URLs. */
    queue: variable('FORWARD_QUEUE'),
    deadLetters: variable('FORWARD_DEAD_LETTERS'),
  };
}

/**
 * Lists the files of a window by the hours of their folders.
 *
 * @param within prefix of the keys, in or above that of the forwarding
 * @throws PermanentError `OutsideCaptureScope`
 */
export async function* filesToForward(
  storage: Storage,
  bucket: string,
  { prefix, suffix }: Forwarding,
  { within = prefix, fromMs, toMs }: { within?: string | undefined; fromMs?: number; toMs?: number },
): AsyncGenerator<ObjectFacts> {
  // A run also looks at the hour before and after, for single records. Here files are whole.
  const window = {
    ...(fromMs !== undefined && { fromMs: fromMs + HOUR_MS }),
    ...(toMs !== undefined && { toMs: toMs - HOUR_MS }),
  };
  for await (const file of backfillObjects(storage, { bucket, prefix }, { bucket, prefix: within }, window)) {
    if (file.key.endsWith(suffix)) yield file;
  }
}

/**
 * Sends the events of files to the queue.
 *
 * @param queue absent: the files are only counted
 * @param onSent gets the number of files so far
 * @returns the number of files, and their bytes
 * @throws PermanentError `EventsNotSent`
 */
export async function sendEvents(
  lambda: LambdaClient,
  queue: string | undefined,
  files: AsyncIterable<ObjectFacts>,
  onSent: (files: number) => void,
): Promise<{ files: number; bytes: number }> {
  const sum = { files: 0, bytes: 0 };
  let batch: ObjectFacts[] = [];
  const sendBatch = async (): Promise<void> => {
    if (queue !== undefined && batch.length > 0) await sendMessages(lambda, queue, batch.map(eventOf));
    batch = [];
    onSent(sum.files);
  };
  for await (const file of files) {
    sum.files += 1;
    sum.bytes += file.size;
    batch.push(file);
    if (batch.length === MESSAGES_AT_ONCE) await sendBatch();
  }
  await sendBatch();
  return sum;
}

const eventOf = ({ bucket, key, etag, size }: ObjectFacts): string =>
  JSON.stringify({ source: 'forward', detail: { bucket: { name: bucket }, object: { key, etag, size } } });

async function sendMessages(lambda: LambdaClient, queue: string, bodies: readonly string[]): Promise<void> {
  const Entries = bodies.map((MessageBody, index) => ({ Id: String(index), MessageBody }));
  const input = { QueueUrl: queue, Entries };
  const { Failed = [] } = await callAws<{ Failed?: { Code: string }[] }>(lambda, 'sqs', 'SendMessageBatch', input);
  if (Failed.length === 0) return;
  const facts = { got: Failed[0]?.Code, expected: 'to be repeated: what was sent is not sent twice', where: queue };
  throw new PermanentError('EventsNotSent', `SQS did not take ${Failed.length} events`, facts);
}

/** Has SQS put all dead letters back into the queue. @returns about how many there are */
export async function putBack(
  lambda: LambdaClient,
  { queue, deadLetters }: Forwarding,
  dryRun: boolean,
): Promise<number> {
  const [from, to] = [await queueAttributes(lambda, deadLetters), await queueAttributes(lambda, queue)];
  const waiting = Number(from.ApproximateNumberOfMessages);
  // Also if none is counted: the count is some seconds late.
  const input = { SourceArn: from.QueueArn, DestinationArn: to.QueueArn };
  if (!dryRun) await callAws(lambda, 'sqs', 'StartMessageMoveTask', input);
  return waiting;
}

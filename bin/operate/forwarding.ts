/** Files that a person has forwarded: what is sent to the stack's queue, and what becomes of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { GetFunctionConfigurationCommand, type LambdaClient, ResourceNotFoundException } from '@aws-sdk/client-lambda';
import { backfillObjects } from '../../src/captures/files/capture-objects.ts';
import { HOUR_MS } from '../../src/captures/files/capture-path.ts';
import type { ObjectFacts, Storage } from '../../src/core/aws/storage.ts';
import { DEAD_LETTER, type ForwardReceipt } from '../../src/core/contract/forward.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import { batches } from '../../src/core/values/batches.ts';
import { readReceipt, receiptKey } from '../../src/monitoring/arthur/forward-file.ts';
import { callAws } from './aws-json.ts';

/** What the deployed function forwards, and where its events come from. */
export interface Forwarding {
  /** Of the keys. */
  prefix: string;
  suffix: string;
  /** URLs. */
  queue: string;
  deadLetters: string;
}

/** A file that is to be forwarded, and what its receipt was before. */
export interface PendingFile {
  file: ObjectFacts;
  /** The ETag of the receipt. */
  before: string | undefined;
}

export interface FollowedFiles {
  forwarded: ForwardReceipt[];
  failed: { key: string; name: string; message: string }[];
}

const REQUESTS_AT_ONCE = 20;
/** SQS's maximum. */
const MESSAGES_AT_ONCE = 10;
const RECEIPTS_A_LOOK = 200;
const LOOK_MS = 2_000;
/** Looks at a queue that is empty while files are missing: a minute and a half, since its counts are right only after a minute. */
const EMPTY_LOOKS = 45;

/** @throws PermanentError `NothingForwarded` if the stack has no such function */
export async function findForwarding(lambda: LambdaClient, stackPrefix: string): Promise<Forwarding> {
  const FunctionName = resourceNames(stackPrefix).forwarder;
  try {
    const { Environment } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
    const variable = (name: string): string => Environment?.Variables?.[name] ?? '';
    return {
      prefix: variable('ARTHUR_S3_PREFIX'),
      suffix: variable('ARTHUR_S3_SUFFIX'),
      queue: variable('FORWARD_QUEUE'),
      deadLetters: variable('FORWARD_DEAD_LETTERS'),
    };
  } catch (error) {
    if (!(error instanceof ResourceNotFoundException)) throw error;
    const expected = 'a stack that was deployed with ARTHUR_HOST: docs/arthur.md';
    throw new PermanentError('NothingForwarded', 'This stack forwards nothing', { expected, where: FunctionName });
  }
}

/**
 * Lists the files of a window by the hours of their folders.
 *
 * @param within prefix of the keys, in or above that of the forwarding
 * @throws PermanentError `OutsideCaptureScope`
 */
export async function filesToForward(
  storage: Storage,
  { captureBucket: bucket, workBucket }: { captureBucket: string; workBucket: string },
  { prefix, suffix }: Forwarding,
  { within = prefix, fromMs, toMs }: { within?: string | undefined; fromMs?: number; toMs?: number },
): Promise<{ pending: PendingFile[]; before: number }> {
  // A run also looks at the hour before and after, for single records. Here files are whole.
  const window = {
    ...(fromMs === undefined ? {} : { fromMs: fromMs + HOUR_MS }),
    ...(toMs === undefined ? {} : { toMs: toMs - HOUR_MS }),
  };
  const listed = backfillObjects(storage, { bucket, prefix }, { bucket, prefix: within }, window);
  const pending: PendingFile[] = [];
  let before = 0;
  const read = async (file: ObjectFacts) => ({ file, known: await readReceipt(storage, workBucket, receiptKey(file)) });
  for await (const { file, known } of inOrder(REQUESTS_AT_ONCE, listed, read)) {
    if (!file.key.endsWith(suffix)) continue;
    if (known?.receipt.state === 'forwarded') before += 1;
    else pending.push({ file, before: known?.etag });
  }
  return { pending, before };
}

/** Sends the events of files to the queue. @param onSent gets the number so far */
export async function sendEvents(
  lambda: LambdaClient,
  queue: string,
  files: readonly PendingFile[],
  onSent: (count: number) => void,
): Promise<void> {
  let sent = 0;
  for (const batch of batches(files, MESSAGES_AT_ONCE)) {
    const entries = batch.map(({ file: { bucket, key, etag, size } }, index) => ({
      Id: String(index),
      MessageBody: JSON.stringify({
        source: 'forward',
        detail: { bucket: { name: bucket }, object: { key, etag, size } },
      }),
    }));
    const { Failed = [] } = await callAws<{ Failed?: { Code: string }[] }>(lambda, 'sqs', 'SendMessageBatch', {
      QueueUrl: queue,
      Entries: entries,
    });
    if (Failed.length > 0) {
      const facts = { got: Failed[0]?.Code, expected: 'to be repeated: what was sent is not sent twice', where: queue };
      throw new PermanentError('EventsNotSent', `SQS did not take ${Failed.length} events`, facts);
    }
    sent += batch.length;
    onSent(sent);
  }
}

/**
 * Follows files until each is forwarded or failed. A file that waits for Arthur is followed on.
 *
 * @param onLook gets the numbers so far
 */
export async function followFiles(
  { storage, lambda, workBucket }: { storage: Storage; lambda: LambdaClient; workBucket: string },
  { queue }: Forwarding,
  files: readonly PendingFile[],
  onLook: (done: number, waiting: number) => void,
  signal: AbortSignal,
  lookMs = LOOK_MS,
): Promise<FollowedFiles> {
  const found: FollowedFiles = { forwarded: [], failed: [] };
  let open = [...files];
  const waiting = new Map<string, ForwardReceipt>();
  for (let empty = 0; open.length > 0; ) {
    // The next ones each time, so that a file that waits hides no other.
    const looked = open.slice(0, RECEIPTS_A_LOOK);
    const still: PendingFile[] = [];
    const read = async (each: PendingFile) => ({
      each,
      now: await readReceipt(storage, workBucket, receiptKey(each.file)),
    });
    for await (const { each, now } of inOrder(REQUESTS_AT_ONCE, looked, read)) {
      const { key } = each.file;
      const { receipt } = now ?? {};
      waiting.delete(key);
      if (receipt?.state === 'forwarded') found.forwarded.push(receipt);
      else if (receipt?.state === 'failed' && now?.etag !== each.before) found.failed.push(failureOf(key, receipt));
      else {
        still.push(each);
        if (receipt?.state === 'waiting') waiting.set(key, receipt);
      }
    }
    const moved = still.length < looked.length;
    open = [...open.slice(RECEIPTS_A_LOOK), ...still];
    onLook(files.length - open.length, waiting.size);
    if (open.length === 0) break;
    empty = moved || (await messagesIn(lambda, queue)) > 0 ? 0 : empty + 1;
    if (empty === EMPTY_LOOKS) {
      found.failed.push(...open.map(({ file }) => failureOf(file.key, waiting.get(file.key))));
      break;
    }
    if (!moved) await sleep(lookMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    signal.throwIfAborted();
  }
  return found;
}

const failureOf = (key: string, receipt: ForwardReceipt | undefined) => ({
  key,
  ...(receipt?.error ?? {
    name: 'NotForwarded',
    message: 'Its event is not in the queue any more; see the dead letters',
  }),
});

/** The messages of a queue, also those that are hidden. */
export async function messagesIn(lambda: LambdaClient, queue: string): Promise<number> {
  const names = ['', 'NotVisible', 'Delayed'].map((kind) => `ApproximateNumberOfMessages${kind}`);
  const { Attributes = {} } = await callAws<{ Attributes?: Record<string, string> }>(
    lambda,
    'sqs',
    'GetQueueAttributes',
    {
      QueueUrl: queue,
      AttributeNames: names,
    },
  );
  return names.reduce((sum, name) => sum + Number(Attributes[name] ?? 0), 0);
}

/** Why a dead letter is one. Events that EventBridge could not deliver have its own attributes. */
export interface DeadLetter {
  name: string;
  message: string;
}

/**
 * Puts the dead letters back into the queue, each before it is deleted.
 *
 * @returns those that were put back, or with `dryRun` some that would be
 */
export async function putBack(
  lambda: LambdaClient,
  { queue, deadLetters }: Forwarding,
  dryRun: boolean,
): Promise<DeadLetter[]> {
  const found: DeadLetter[] = [];
  const startedMs = Date.now();
  for (;;) {
    const { Messages = [] } = await callAws<{ Messages?: Message[] }>(lambda, 'sqs', 'ReceiveMessage', {
      QueueUrl: deadLetters,
      MaxNumberOfMessages: MESSAGES_AT_ONCE,
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: ['SentTimestamp'],
      // Seen again at once, if it is only looked at.
      ...(dryRun ? { VisibilityTimeout: 0 } : {}),
      // Asks all of SQS's servers.
      WaitTimeSeconds: 1,
    });
    // What was put back and has failed again is left.
    const old = Messages.filter(({ Attributes }) => Number(Attributes?.SentTimestamp ?? 0) < startedMs);
    for (const { Body, ReceiptHandle, MessageAttributes: said = {} } of old) {
      const text = (name: string): string | undefined => said[name]?.StringValue;
      found.push({
        name: text(DEAD_LETTER.name) ?? text('ERROR_CODE') ?? 'NotForwarded',
        message: text(DEAD_LETTER.message) ?? text('ERROR_MESSAGE') ?? 'It was tried for a day',
      });
      if (dryRun) continue;
      await callAws(lambda, 'sqs', 'SendMessage', { QueueUrl: queue, MessageBody: Body });
      await callAws(lambda, 'sqs', 'DeleteMessage', { QueueUrl: deadLetters, ReceiptHandle });
    }
    if (old.length === 0 || dryRun) return found;
  }
}

interface Message {
  Body: string;
  ReceiptHandle: string;
  Attributes?: { SentTimestamp?: string };
  MessageAttributes?: Record<string, { StringValue?: string }>;
}

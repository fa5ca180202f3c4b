/**
 * Forwards the files of a batch of the queue, each once however often its event comes. A receipt in the work bucket,
 * by the file's place and ETag, says whether a function is at it, and what Arthur answered.
 */

import { hash } from 'node:crypto';
import type { SQSBatchResponse, SQSRecord, SQSRecordAttributes } from 'aws-lambda';
import { type CaptureScope, capturedObject } from '../../captures/files/capture-objects.ts';
import { scanLines } from '../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Work } from '../../core/aws/storage.ts';
import { parseStored } from '../../core/aws/storage-errors.ts';
import type { ListedFile } from '../../core/contract/input.ts';
import type { ForwardMetric } from '../../core/contract/names.ts';
import { markKeys, workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError, RetryableError, toNamedError } from '../../core/errors/errors.ts';
import { logger } from '../../core/process/logging.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../core/values/line-bound.ts';
import type { HttpReply } from '../../mlflow/transport.ts';
import { Marks, REPLAY_ID_PREFIX } from '../../replay/marks/believe.ts';
import { peekAt } from '../../replay/source/index-captures.ts';
import { fileIn } from '../start-run.ts';
import { countsIn } from './arthur.ts';

export type ForwardMessage = Pick<SQSRecord, 'messageId' | 'body' | 'receiptHandle'> & {
  attributes: Pick<SQSRecordAttributes, 'SentTimestamp' | 'ApproximateReceiveCount'>;
};

/** A file with its bytes, which a second post reads again. */
export interface OpenFile {
  key: string;
  size: number;
  open(): Promise<AsyncIterable<Buffer>>;
}

interface ForwardDependencies extends Work {
  /** Where files may come from. */
  scope: CaptureScope;
  /** Posts a file once; see `postToArthur`. */
  post(file: OpenFile, timeoutMs: number): Promise<HttpReply>;
  /** Until Lambda ends the function. */
  remainingMs(): number;
  /** Puts an event among the dead letters. */
  bury(body: string, attributes: Record<string, string>): Promise<void>;
  /** Has the queue deliver a message again after these seconds. */
  later(receiptHandle: string, seconds: number): Promise<void>;
  count(metric: ForwardMetric, value: number): void;
  /** The first wait of a file. Each is twice as long as the one before, up to an hour. */
  firstWaitSeconds: number;
}

/** How far a file is. */
interface Receipt {
  key: string;
  /** `sending`: until `untilMs` (epoch ms) at most, then its function is dead; `forwarded`: Arthur has the file. */
  state: 'sending' | 'waiting' | 'failed' | 'forwarded';
  untilMs: number;
  /** The beginning of Arthur's last answer, which may quote captures. */
  answer?: string;
}

/** Time at the end of a function, to write down the outcome of a file. */
const RESERVE_MS = 45_000;
/** What an upload and the answer to it may take: a minute, and as long as a slow line needs. */
const ANSWER_MS = 60_000;
const SLOWEST_BYTES_PER_MS = 256;
const LONGEST_WAIT_SECONDS = 3600;
/** For `Retry-After`. All deliveries then take a week, and the dead letter has another: SQS counts its two weeks from the event on. */
const LONGEST_ASKED_SECONDS = 6 * 3600;
/** A file that has waited for two hours is late. SQS's own age of the oldest message leaves out what was received three times. */
const LATE_MS = 7_200_000;
const ANSWER_BYTES = 4096;

/** @returns the messages that the queue delivers again */
export async function forwardFiles(
  messages: readonly ForwardMessage[],
  deps: ForwardDependencies,
): Promise<SQSBatchResponse> {
  const batchItemFailures: SQSBatchResponse['batchItemFailures'] = [];
  await Promise.all(
    messages.map(async (message) => {
      const error = await forwardMessage(message, deps);
      if (error === undefined) return;
      batchItemFailures.push({ itemIdentifier: message.messageId });
      await postpone(message, error, deps);
    }),
  );
  return { batchItemFailures };
}

/** @returns the error after which the queue delivers the message again. What a repetition would not change becomes a dead letter */
async function forwardMessage({ body }: ForwardMessage, deps: ForwardDependencies): Promise<unknown> {
  const file = fileIn(body);
  try {
    if (file === undefined) {
      const expected = 'an event "Object Created" of S3, as JSON';
      throw new PermanentError('NotAnEvent', 'The message is not the event of a capture file', { expected });
    }
    // A judgement is no inference of the model.
    if (!deps.scope.excludes?.(file.key)) await forwardOnce(file, deps);
    return undefined;
  } catch (error) {
    const isFinal = error instanceof PermanentError;
    logger.error(isFinal ? 'A file cannot be forwarded' : 'A file was not forwarded yet', {
      key: file?.key,
      error: error as Error,
    });
    if (!isFinal) return error;
    const { name, message } = toNamedError(error);
    return deps.bury(body, { ErrorName: name, ErrorMessage: message.toWellFormed() }).then(
      () => undefined,
      (unburied: unknown) => unburied,
    );
  }
}

async function postpone(message: ForwardMessage, error: unknown, deps: ForwardDependencies): Promise<void> {
  if (Date.now() - Number(message.attributes.SentTimestamp) > LATE_MS) deps.count('ForwardLate', 1);
  const before = Number(message.attributes.ApproximateReceiveCount) - 1;
  const seconds = Math.min(LONGEST_WAIT_SECONDS, deps.firstWaitSeconds * 2 ** before);
  const asked = error instanceof RetryableError ? Math.min(LONGEST_ASKED_SECONDS, (error.retryAfterMs ?? 0) / 1000) : 0;
  try {
    await deps.later(message.receiptHandle, Math.max(seconds, asked));
  } catch (failure) {
    // It comes back when the queue's own time is over.
    logger.warn('A message could not be postponed', { error: failure as Error });
  }
}

/** The key of a file's receipt in the work bucket. */
export const receiptKey = ({ bucket, key, etag }: { bucket: string; key: string; etag: string }): string =>
  workKeys.forward(hash('sha256', [bucket, key, etag].join('\n')));

/**
 * Forwards a file unless that is done.
 *
 * @throws the errors of `post` and of reading the file, and RetryableError `ForwardBusy`
 */
async function forwardOnce(listed: ListedFile, deps: ForwardDependencies): Promise<void> {
  const { storage, workBucket, scope } = deps;
  const { bucket, key, versionId } = listed;
  const etag = listed.etag ?? (await capturedObject(storage, scope, bucket, key, versionId)).etag;
  const place = receiptKey({ bucket, key, etag });
  const before = await storage.getText(workBucket, place);
  const known = before && parseStored<Receipt>(before.text, `s3://${workBucket}/${place}`);
  if (known?.state === 'forwarded') return;
  const sending: Receipt = { key, state: 'sending', untilMs: Date.now() + deps.remainingMs() };
  const isAlive = known?.state === 'sending' && known.untilMs > Date.now();
  const claim = isAlive ? undefined : await storage.putJsonIf(workBucket, place, sending, before?.etag);
  if (claim === undefined) throw new RetryableError('ForwardBusy', 'Another function is at this file', { where: key });
  if (known?.state === 'sending') logger.warn('A function ended during an upload: Arthur may have the file', { key });
  const receipt: Receipt = { ...sending, state: 'waiting' };
  try {
    await upload({ ...listed, etag }, receipt, deps);
    receipt.state = 'forwarded';
  } catch (error) {
    if (error instanceof PermanentError) receipt.state = 'failed';
    throw error;
  } finally {
    await storage.putJsonIf(workBucket, place, receipt, claim);
  }
}

/** Posts a file, and counts what Arthur took of it. @param receipt gets Arthur's answer */
async function upload(file: ListedFile & { etag: string }, receipt: Receipt, deps: ForwardDependencies): Promise<void> {
  const { storage, scope, count } = deps;
  const facts = await capturedObject(storage, scope, file.bucket, file.key, file.versionId);
  const { key } = facts;
  if (facts.etag !== file.etag) {
    throw new PermanentError('CaptureChanged', 'The capture file was overwritten after its event', {
      got: `etag ${facts.etag}`,
      expected: `etag ${file.etag}`,
      where: `s3://${file.bucket}/${key}`,
    });
  }
  const { size, open } = await withoutReplays(deps, facts);
  if (size === 0 && facts.size > 0) return;
  let lines = 0;
  const openCounted = async () => {
    lines = 0;
    return counted(await open(), () => {
      lines += 1;
    });
  };
  const limitMs = Math.min(ANSWER_MS + size / SLOWEST_BYTES_PER_MS, deps.remainingMs() - RESERVE_MS);
  const reply = await deps.post({ key, size, open: openCounted }, limitMs);
  receipt.answer = reply.body.toString('utf8', 0, ANSWER_BYTES);
  const counts = countsIn(reply);
  logger.info('A file was forwarded', { key, receipt: receiptKey(file), lines, status: reply.status, counts });
  count('ForwardedFiles', 1);
  count('ForwardedInferences', counts.success);
  count('ForwardRejected', counts.failure);
  // A line may have several inferences.
  if (lines > 0 && (counts.success === 0 || counts.total < lines)) count('ForwardUntaken', 1);
}

const [NEWLINE, SPACE] = [0x0a, 0x20];

/** Passes the content of a file on, and tells of each line that is not blank. */
async function* counted(content: AsyncIterable<Buffer>, onLine: () => void): AsyncGenerator<Buffer> {
  let isBlank = true;
  for await (const block of content) {
    for (let at = 0; at < block.length; at += 1) {
      const byte = block[at] as number;
      if (byte === NEWLINE) isBlank = true;
      else if (isBlank && byte > SPACE) {
        isBlank = false;
        onLine();
      }
    }
    yield block;
  }
}

// --------------------------------------------------------------------------------- without the stack's own replays
// Their requests are left out of a file before it is forwarded.

interface Content {
  /** Bytes. */
  size: number;
  open(): Promise<AsyncIterable<Buffer>>;
}

/** Returns what is to be forwarded of a file. It is read once more where the stack has registered a replay: uploads need their size. */
async function withoutReplays({ storage, workBucket }: Work, file: ObjectFacts): Promise<Content> {
  const whole: Content = { size: file.size, open: () => storage.read(file) };
  if ((await storage.head(workBucket, markKeys.first)) === undefined) return whole;
  const marks = new Marks(storage, workBucket);
  const left: (typeof NONE)[] = [];
  for await (const { bytes, start, end } of scanLines(await whole.open(), DEFAULT_MAX_LINE_BYTES)) {
    const peek = bytes?.includes(REPLAY_ID_PREFIX) ? peekAt(bytes, false) : undefined;
    if (peek?.kind !== 'record' || peek.marked === undefined) continue;
    if ((await marks.runOf(peek.marked)) !== undefined) left.push({ start, end });
  }
  if (left.length === 0) return whole;
  const size = left.reduce((rest, { start, end }) => rest - (end - start), file.size);
  return { size, open: async () => outside(await whole.open(), left) };
}

const NONE = { start: Number.POSITIVE_INFINITY, end: Number.POSITIVE_INFINITY };

/** Yields the bytes outside of the ranges, which are in order. */
async function* outside(blocks: AsyncIterable<Buffer>, ranges: readonly (typeof NONE)[]): AsyncGenerator<Buffer> {
  let offset = 0;
  let next = 0;
  for await (const block of blocks) {
    for (let at = 0; at < block.length; ) {
      const { start, end } = ranges[next] ?? NONE;
      const isInside = offset + at >= start;
      const until = Math.min(block.length, (isInside ? end : start) - offset);
      if (!isInside) yield block.subarray(at, until);
      at = until;
      if (offset + at === end) next += 1;
    }
    offset += block.length;
  }
}

/** Forwards a capture file once, however often its event comes: its receipt in the work bucket is a claim while a function is at it. */
import { hash } from 'node:crypto';
import { type CaptureScope, capturedObject } from '../../captures/files/capture-objects.ts';
import { scanPieces } from '../../captures/lines/scan-lines.ts';
import type { Storage } from '../../core/aws/storage.ts';
import { parseStored } from '../../core/aws/storage-errors.ts';
import { type ForwardReceipt, forwardReceiptSchema } from '../../core/contract/forward.ts';
import type { ListedFile } from '../../core/contract/input.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError, RetryableError, toNamedError } from '../../core/errors/errors.ts';
import { logger } from '../../core/process/logging.ts';
import { type RetryPolicy, withRetries } from '../../core/process/retry.ts';
import { mayBeTaken, type Taken } from './arthur.ts';
import { withoutReplays } from './without-replays.ts';

/** A file with its bytes. */
export interface OpenFile {
  key: string;
  size: number;
  open(): Promise<AsyncIterable<Buffer>>;
}

export interface ForwardDependencies {
  storage: Storage;
  workBucket: string;
  /** Where files may come from. */
  scope: CaptureScope;
  /** Posts a file once; see `postToArthur`. */
  post(file: OpenFile, timeoutMs: number): Promise<Taken>;
  /** Until Lambda ends the function. */
  remainingMs(): number;
  /** Of one invocation. Afterwards the queue delivers the file again. */
  retry?: RetryPolicy;
}

const RETRY: RetryPolicy = { attempts: 3, baseMs: 1_000, capMs: 10_000, longestRetryAfterMs: 20_000 };

/** Time at the end of a function, for waits and receipts. */
const RESERVE_MS = 45_000;
/** What an upload and the answer to it may take: a minute, and as long as a slow line needs. */
const ANSWER_MS = 60_000;
const SLOWEST_BYTES_PER_MS = 256;

const CLAIM_ROUNDS = 3;

/** The key of a file's receipt in the work bucket. */
export const receiptKey = ({ bucket, key, etag }: Pick<ForwardReceipt, 'bucket' | 'key' | 'etag'>): string =>
  workKeys.forward(hash('sha256', [bucket, key, etag].join('\n')));

/** Returns the receipt of a file, `undefined` if nobody has begun with it. */
export async function readReceipt(
  storage: Storage,
  workBucket: string,
  key: string,
): Promise<{ receipt: ForwardReceipt; etag: string } | undefined> {
  const stored = await storage.getText(workBucket, key);
  if (stored === undefined) return undefined;
  const receipt = forwardReceiptSchema.parse(parseStored(stored.text, `s3://${workBucket}/${key}`));
  return { receipt, etag: stored.etag };
}

/**
 * @param message the id of the queue's message
 * @returns the receipt if this call has forwarded the file; `undefined` if it is forwarded already, or another message's function
 *   is at it
 * @throws the errors of `post`, of reading the file, and RetryableError `ForwardBusy`
 */
export async function forwardFile(
  { bucket, key, versionId, etag: known }: ListedFile,
  message: string,
  deps: ForwardDependencies,
): Promise<ForwardReceipt | undefined> {
  const { storage, workBucket, scope } = deps;
  const etag = known ?? (await capturedObject(storage, scope, bucket, key, versionId)).etag;
  const place = receiptKey({ bucket, key, etag });
  const claim = await claimFile(deps, place, { bucket, key, etag, message });
  if (claim === undefined) return undefined;
  const { receipt } = claim;
  const write = async (end: Partial<ForwardReceipt>): Promise<ForwardReceipt> => {
    const ended = { ...receipt, ...end, at: new Date().toISOString() };
    const written = await storage.putJsonIf(workBucket, place, ended, claim.etag);
    if (written === undefined) logger.warn('Another function has taken a file over', { key });
    return ended;
  };
  let end: Partial<ForwardReceipt>;
  try {
    end = await post({ bucket, key, versionId, etag }, receipt, deps);
  } catch (error) {
    const state = error instanceof PermanentError ? 'failed' : 'waiting';
    await write({ state, error: toNamedError(error) });
    throw error;
  }
  return write({ state: 'forwarded', error: undefined, ...end });
}

/** Uploads the file, again if that may help. Counts the uploads in the receipt. */
async function post(file: ListedFile & { etag: string }, receipt: ForwardReceipt, deps: ForwardDependencies) {
  const { storage, scope } = deps;
  const nothing = { size: 0, counts: { total: 0, success: 0, failure: 0 } };
  // A judgement is no inference of the model.
  if (scope.excludes?.(file.key)) return nothing;
  const facts = await capturedObject(storage, scope, file.bucket, file.key, file.versionId);
  const { key } = facts;
  if (facts.etag !== file.etag) {
    throw new PermanentError('CaptureChanged', 'The capture file was overwritten after its event', {
      got: `etag ${facts.etag}`,
      expected: `etag ${file.etag}`,
      where: `s3://${file.bucket}/${key}`,
    });
  }
  const { size, open: content } = await withoutReplays(storage, deps.workBucket, facts);
  if (size === 0 && facts.size > 0) return nothing;
  let lines = 0;
  const open = async () => {
    lines = 0;
    return passedOn(await content(), (more) => {
      lines += more;
    });
  };
  const taken = await withRetries(deps.retry ?? RETRY, async () => {
    const limitMs = Math.min(ANSWER_MS + size / SLOWEST_BYTES_PER_MS, deps.remainingMs() - RESERVE_MS);
    if (limitMs <= 0) throw new RetryableError('ArthurUnavailable', 'The function has no time left for an upload');
    receipt.posts += 1;
    try {
      return await deps.post({ key, size, open }, limitMs);
    } catch (error) {
      if (mayBeTaken(error)) receipt.unknown += 1;
      throw error;
    }
  });
  return { size, lines, ...taken };
}

/** Passes the content of a file on, and tells how many lines it has. */
async function* passedOn(content: AsyncIterable<Buffer>, onLines: (count: number) => void): AsyncGenerator<Buffer> {
  const held: Buffer[] = [];
  async function* pieces(): AsyncGenerator<Buffer> {
    for await (const piece of content) {
      held.push(piece);
      yield piece;
    }
  }
  for await (const lines of scanPieces(pieces(), 0)) {
    onLines(lines.length);
    yield* held.splice(0);
  }
}

/** Makes this function the one that forwards the file. @returns `undefined` if it need not */
async function claimFile(
  { storage, workBucket, remainingMs }: ForwardDependencies,
  place: string,
  file: Pick<ForwardReceipt, 'bucket' | 'key' | 'etag' | 'message'>,
): Promise<{ receipt: ForwardReceipt; etag: string } | undefined> {
  for (let round = 0; round < CLAIM_ROUNDS; round += 1) {
    const before = await readReceipt(storage, workBucket, place);
    const { state, posts = 0, unknown = 0, untilMs = 0, message } = before?.receipt ?? {};
    if (state === 'forwarded') return undefined;
    const isAlive = state === 'sending' && untilMs > Date.now();
    // The queue keeps the other message until its function is done.
    if (isAlive && message !== file.message) return undefined;
    if (isAlive) break;
    const receipt: ForwardReceipt = {
      ...file,
      state: 'sending',
      untilMs: Date.now() + remainingMs() + RESERVE_MS,
      posts,
      // A function that was killed may have been heard.
      unknown: unknown + (state === 'sending' ? 1 : 0),
      at: new Date().toISOString(),
    };
    const etag = await storage.putJsonIf(workBucket, place, receipt, before?.etag);
    if (etag !== undefined) return { receipt, etag };
  }
  throw new RetryableError('ForwardBusy', 'Another function is at this file', { where: file.key });
}

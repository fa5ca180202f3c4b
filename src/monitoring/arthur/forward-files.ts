/**
 * Forwards the files in a batch of the queue, each file once, even if its event arrives several times. A receipt in the
 * work bucket, identified by the file's location and ETag, has Arthur's last answer, and whether Arthur has the file.
 */

import { hash, randomUUID } from 'node:crypto';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { capturedObject } from '../../captures/files/capture-objects.ts';
import { scanLines } from '../../captures/lines/scan-lines.ts';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import type { ListedFile } from '../../core/contract/input.ts';
import type { ForwardMetric } from '../../core/contract/metric-names.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { RetryableError } from '../../core/errors/errors.ts';
import { logger } from '../../core/process/logging.ts';
import type { ForwardEnvironment } from '../../core/settings/environment.ts';
import { DEFAULT_MAX_LINE_BYTES } from '../../core/values/line-bound.ts';
import { sum } from '../../core/values/sum.ts';
import { captureScope } from '../../judge/capture-scope.ts';
import { Lock } from '../../limits/lock.ts';
import type { LimitsTable } from '../../limits/table.ts';
import { Marks, REPLAY_ID_PREFIX } from '../../replay/marks/believe.ts';
import { peekLine } from '../../replay/source/peek.ts';
import { eachMessage, notAnEvent, type QueueDependencies } from '../queued.ts';
import { fileIn } from '../start-run.ts';
import { type connectArthur, countsIn } from './arthur.ts';

interface ForwardDependencies extends Pick<QueueDependencies, 'sqs'> {
  environment: ForwardEnvironment;
  storage: Storage;
  /** The table of the locks. */
  table: LimitsTable;
  post: ReturnType<typeof connectArthur>;
  /** Until Lambda ends the function. */
  remainingMs(): number;
  count(metric: ForwardMetric, value: number): void;
}

/** Time at the end of a function, to write down the outcome of a file. */
const RESERVE_MS = 45_000;
/** Time limit for an upload and its answer: a minute, plus the time that a slow connection needs. */
const ANSWER_MS = 60_000;
const SLOWEST_BYTES_PER_MS = 256;
const ANSWER_BYTES = 4096;

/** @returns the messages that the queue delivers again */
export function forwardFiles(event: SQSEvent, deps: ForwardDependencies): Promise<SQSBatchResponse> {
  const forward = ({ body }: SQSRecord) => forwardOnce(fileIn(body), deps);
  return eachMessage(event, { ...deps, late: () => deps.count('ForwardLate', 1), done: 'forwarded' }, forward);
}

/**
 * Forwards a file unless it was already forwarded, or belongs to a judge: a judgement is not an inference of the model.
 *
 * @param listed `undefined` if the message has no file
 * @throws PermanentError `NotAnEvent`, RetryableError `ForwardBusy`, and the errors of `upload`
 */
async function forwardOnce(listed: ListedFile | undefined, deps: ForwardDependencies): Promise<void> {
  if (listed === undefined) throw notAnEvent();
  const { storage, environment, table } = deps;
  const { bucket, key, versionId } = listed;
  const scope = { ...captureScope(environment), prefix: environment.ARTHUR_S3_PREFIX };
  if (scope.excludes?.(key)) return;
  const found = await capturedObject(storage, scope, bucket, key, versionId);
  // Reading the file fails if it was overwritten since its event.
  const file = { ...found, etag: listed.etag ?? found.etag };
  const place = workKeys.forward(hash('sha256', [bucket, key, file.etag].join('\n')));
  const lock = new Lock({ table, owner: randomUUID() });
  const { item } = await lock.acquire(place, deps.remainingMs());
  if (item === undefined) throw new RetryableError('ForwardBusy', 'Another function is at this file', { where: key });
  try {
    const receipt = await storage.getJson<{ forwarded: boolean }>(environment.WORK_BUCKET, place);
    if (receipt?.forwarded) return;
    if (item.owner) logger.warn('A function ended during an upload: Arthur may have the file', { key });
    await upload(file, place, deps);
  } finally {
    await lock.release(place);
  }
}

/**
 * Posts a file, writes its receipt, and counts the inferences that Arthur accepted.
 *
 * @param place of the receipt: whether Arthur has the file, and the beginning of its last answer, which may quote
 *   captures
 * @throws the errors of `post`, of `countsIn` and of reading the file
 */
async function upload(file: ObjectFacts, place: string, deps: ForwardDependencies): Promise<void> {
  const { storage, environment, count } = deps;
  const { key } = file;
  const { lines, ...content } = await withoutReplays(storage, environment.WORK_BUCKET, file);
  if (lines === 0) return;
  const limitMs = Math.min(ANSWER_MS + content.size / SLOWEST_BYTES_PER_MS, deps.remainingMs() - RESERVE_MS);
  const reply = await deps.post({ key, ...content }, limitMs);
  const counts = countsIn(reply);
  const forwarded = !(counts instanceof Error);
  const answer = reply.body.toString('utf8', 0, ANSWER_BYTES);
  await storage.putJson(environment.WORK_BUCKET, place, { key, forwarded, answer });
  if (!forwarded) throw counts;
  logger.info('A file was forwarded', { key, receipt: place, lines, status: reply.status, counts });
  count('ForwardedFiles', 1);
  count('ForwardedInferences', counts.success);
  count('ForwardRejected', counts.failure);
  // A line may have several inferences.
  if (counts.success === 0 || counts.total < lines) count('ForwardUntaken', 1);
}

// --------------------------------------------------------------------------------- without the stack's own replays

/** Byte offsets of a file; `end` is exclusive. */
type Range = [start: number, end: number];

/**
 * Returns the content of a file without the requests of registered replays. The file is read once more for it, because
 * an upload needs its size.
 */
async function withoutReplays(storage: Storage, workBucket: string, file: ObjectFacts) {
  const marks = new Marks(storage, workBucket);
  const kept: Range[] = [];
  let lines = 0;
  let from = 0;
  for await (const { bytes, start, end } of scanLines(await storage.read(file), DEFAULT_MAX_LINE_BYTES)) {
    const peek = bytes?.includes(REPLAY_ID_PREFIX) ? peekLine(bytes, false) : undefined;
    const marked = peek?.kind === 'record' ? peek.marked : undefined;
    if (marked === undefined || (await marks.runOf(marked)) === undefined) {
      lines += 1;
      continue;
    }
    kept.push([from, start]);
    from = end;
  }
  kept.push([from, file.size]);
  const open = async () => within(await storage.read(file), kept);
  return { lines, size: sum(kept.map(([start, end]) => end - start)), open };
}

/** Yields the bytes in the ranges, which are in order. */
async function* within(blocks: AsyncIterable<Buffer>, ranges: readonly Range[]): AsyncGenerator<Buffer> {
  let offset = 0;
  let at = 0;
  for await (const block of blocks) {
    const until = offset + block.length;
    for (; at < ranges.length; at += 1) {
      const [start, end] = ranges[at] as Range;
      if (start < until) yield block.subarray(Math.max(0, start - offset), end - offset);
      if (end > until) break;
    }
    offset = until;
  }
}

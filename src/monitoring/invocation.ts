/** Direct invocations of the processor and the evaluator: a whole capture file, without the state machine. */
import * as z from 'zod';
import type { RunOptions } from '../contract/input.ts';
import { type ChunkRequest, chunkRequestSchema } from '../contract/payloads.ts';
import type { LambdaEnvironment } from '../settings/environment.ts';
import { PermanentError, RetryableError } from '../shared/errors.ts';
import { logger } from '../shared/logging.ts';
import type { Storage } from '../shared/storage.ts';
import { CHUNK_BOUNDS } from './chunk/chunk-bounds.ts';
import { capturedObject } from './plan/capture-objects.ts';
import type { UnnumberedChunk } from './plan/retry-source.ts';
import { single, unitsOfObjects } from './plan/units.ts';

const fileSchema = z.strictObject({
  bucket: z.string().min(1),
  key: z.string().min(1),
  /** Numbers of lines, from 1, that go to quarantine as they are. */
  leaveOut: z.array(z.number().int().min(1)).optional(),
  /** Each line by itself, and named in the log before it is begun: shows which one kills the function. */
  oneByOne: z.boolean().optional(),
});

const notificationSchema = z.looseObject({
  Records: z
    .array(
      z.looseObject({
        s3: z.looseObject({
          bucket: z.looseObject({ name: z.string().min(1) }),
          object: z.looseObject({ key: z.string().min(1) }),
        }),
      }),
    )
    .min(1),
});

/** The key is raw, not URL-encoded. */
type CaptureFile = z.infer<typeof fileSchema>;

type Invocation = { kind: 'chunk'; request: ChunkRequest } | { kind: 'files'; files: CaptureFile[] };

/** S3's own notifications URL-encode keys, and write a space as `+`; EventBridge does not. */
const decodeNotifiedKey = (key: string): string => decodeURIComponent(key.replaceAll('+', ' '));

/** @throws PermanentError `InvalidInput` that says what was got and what is allowed. */
export function parseInvocation(event: unknown): Invocation {
  const shape = typeof event === 'object' && event !== null ? event : {};
  if ('chunk' in shape) {
    const request = chunkRequestSchema.safeParse(event);
    if (request.success) return { kind: 'chunk', request: request.data };
    throw invalid(event, z.prettifyError(request.error));
  }
  if ('Records' in shape) {
    const notification = notificationSchema.safeParse(event);
    if (!notification.success) throw invalid(event, z.prettifyError(notification.error));
    try {
      const files = notification.data.Records.map(({ s3 }) => ({
        bucket: s3.bucket.name,
        key: decodeNotifiedKey(s3.object.key),
      }));
      return { kind: 'files', files };
    } catch {
      throw invalid(event, 'a key is not URL-encoded as S3 does it: a "%" stands for no character');
    }
  }
  const file = fileSchema.safeParse(event);
  if (file.success) return { kind: 'files', files: [file.data] };
  throw invalid(event, z.prettifyError(file.error));
}

const invalid = (event: unknown, problem: string): PermanentError =>
  new PermanentError('InvalidInput', `The function's input is not valid: ${problem.replaceAll('\n', ' ')}`, {
    got: event,
    expected:
      '{"bucket":…,"key":…} with "leaveOut":[<line>] or "oneByOne":true where wanted, an S3 notification event, or a chunk from the state machine',
  });

/** Kept back so that a chunk that is begun can end. */
const CHUNK_RESERVE_MS = 60_000;

/**
 * Runs every chunk of the files one after the other. Each is named in the log before it is begun, since a function that is
 * killed has no last word, and nobody is there to halve the chunk.
 *
 * @throws RetryableError `ChunkOutOfTime` when the Lambda's time does not suffice; what was done stays done.
 */
export async function forEachChunkOf(
  files: readonly CaptureFile[],
  deps: { storage: Storage; environment: LambdaEnvironment; requestId: string; remainingMs(): number },
  experimentId: string,
  handle: (request: ChunkRequest) => Promise<void>,
): Promise<void> {
  const { storage, environment, requestId, remainingMs } = deps;
  const scope = { bucket: environment.DATA_CAPTURE_S3_BUCKET, prefix: environment.DATA_CAPTURE_S3_PREFIX };
  const options: RunOptions = {
    evaluate: true,
    reevaluate: false,
    sampleRate: environment.EVALUATION_SAMPLE_RATE,
    dryRun: false,
    judge: 'converse',
  };
  let ordinal = 0;
  for (const file of files) {
    const object = await capturedObject(storage, scope, file.bucket, file.key);
    const limits = {
      maxLineBytes: environment.MAX_LINE_BYTES,
      deadlineMs: () => remainingMs() - CHUNK_RESERVE_MS,
      ...(file.oneByOne ? { bounds: { ...CHUNK_BOUNDS, maxLines: 1 } } : {}),
    };
    const { leaveOut } = file;
    for await (const unit of unitsOfObjects(storage, single(object), limits)) {
      for (const chunk of unit.chunks) {
        if (remainingMs() < CHUNK_RESERVE_MS || unit.outOfTime) throw outOfTime(file);
        const numbered = { ...chunk, experimentId, chunk: ordinal };
        logger.info(adviceOn(chunk), { key: file.key });
        await handle({
          run: `invoke-${requestId}`,
          chunk: numbered,
          options,
          attempt: 0,
          ...(leaveOut && { leaveOut }),
        });
        ordinal += 1;
      }
      if (unit.outOfTime) throw outOfTime(file);
      if (unit.failed) throw new PermanentError(unit.failed.error.name, unit.failed.error.message);
    }
  }
}

const adviceOn = ({ firstLine, lines }: UnnumberedChunk): string =>
  lines === 1
    ? `Next is line ${firstLine}; should it kill the function, leave it out with "leaveOut":[${firstLine}]`
    : `Next are ${lines} lines from line ${firstLine}; should one kill the function, "oneByOne":true has the log name it`;

const outOfTime = (file: CaptureFile): RetryableError =>
  new RetryableError('ChunkOutOfTime', 'The file is too long for one invocation; start an execution on it instead', {
    where: `s3://${file.bucket}/${file.key}`,
  });

/** Handles direct invocations of the processor and the evaluator: whole capture files, without the state machine. */
import type { Context } from 'aws-lambda';
import * as z from 'zod';
import { capturedObject } from '../captures/files/capture-objects.ts';
import { assertContract } from '../core/contract/contract.ts';
import type { RunOptions } from '../core/contract/input.ts';
import {
  type ChunkProgress,
  type ChunkRequest,
  chunkRequestSchema,
  type ManifestLine,
} from '../core/contract/payloads.ts';
import { PermanentError, RetryableError, recordedError } from '../core/errors/errors.ts';
import { captureScope } from '../judge/capture-scope.ts';
import type { Limits } from '../limits/limits.ts';
import type { connectMlflow } from '../mlflow/connect.ts';
import type { connectRedaction } from '../redact/redaction.ts';
import type { ChunkDependencies } from './chunk/attempt.ts';
import { withRanges } from './chunk/ranges.ts';
import { unitsOfObjects } from './plan/units.ts';
import { stackExperiment } from './stack-experiment.ts';
import { withinLimits } from './within-limits.ts';

const text = z.string().min(1);
const fileSchema = z.strictObject({ bucket: text, key: text });
const recordSchema = z.object({ s3: z.object({ bucket: z.object({ name: text }), object: z.object({ key: text }) }) });
const notificationSchema = z.object({ Records: z.array(recordSchema).min(1) });

/** The key is raw, not URL-encoded. */
type CaptureFile = z.infer<typeof fileSchema>;

type Invocation = { kind: 'chunk'; request: ChunkRequest } | { kind: 'files'; files: CaptureFile[] };

/** S3’s own notifications URL-encode keys, with a `+` for a space. EventBridge does not. */
const decodeNotifiedKey = (key: string): string => decodeURIComponent(key.replaceAll('+', ' '));

/** @throws PermanentError `InvalidInput`, with the input and the allowed shapes */
export function parseInvocation(event: unknown): Invocation {
  const shape = typeof event === 'object' && event !== null ? event : {};
  if ('chunk' in shape) {
    // Before the form is checked, which may be what has changed.
    assertContract(Object(shape.chunk), 'chunk');
    const request = chunkRequestSchema.safeParse(event);
    if (request.success) return { kind: 'chunk', request: numbered(request.data) };
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
      throw invalid(event, 'a key is not URL-encoded: a "%" does not encode a character');
    }
  }
  const file = fileSchema.safeParse(event);
  if (file.success) return { kind: 'files', files: [file.data] };
  throw invalid(event, z.prettifyError(file.error));
}

/** A wait must not restart the numbering of attempts: the latest receipt of a part is the one that counts. */
const numbered = (request: ChunkRequest): ChunkRequest => ({
  ...request,
  attempt: request.attempt + (request.progress?.attempts ?? 0),
});

const invalid = (event: unknown, problem: string): PermanentError =>
  new PermanentError('InvalidInput', `The input of the function is invalid: ${problem.replaceAll('\n', ' ')}`, {
    got: event,
    expected: '{"bucket":…,"key":…}; an S3 notification event; or a chunk from the state machine',
  });

/** What a function that processes chunks connects once. */
interface ChunkFunction extends Pick<ChunkDependencies, 'storage' | 'table'> {
  redacted: ReturnType<typeof connectRedaction<ChunkDependencies['environment']>>;
  limits: Limits;
  mlflow: ReturnType<typeof connectMlflow>;
}

/**
 * Handles an event of a function that processes chunks: a chunk within the limits of the stack, or each chunk of whole files.
 *
 * @param sum adds up the results of the files
 * @param chunkOfFile what their chunks have besides
 */
export async function handleChunks<Result, Sum>(
  event: unknown,
  context: Context,
  { limits, mlflow, redacted, ...connected }: ChunkFunction,
  process: (request: ChunkRequest, deps: ChunkDependencies) => Promise<Result>,
  sum: (results: Result[]) => Sum,
  chunkOfFile: Pick<ManifestLine, 'traced'> = {},
): Promise<Sum | ChunkProgress> {
  const invocation = parseInvocation(event);
  const remainingMs = () => context.getRemainingTimeInMillis();
  const environment = await redacted(invocation.kind === 'chunk' ? invocation.request.options.redactKey : undefined);
  const deps = { ...connected, environment, store: await mlflow(), requestId: context.awsRequestId, remainingMs };
  const { storage } = deps;
  if (invocation.kind === 'files') {
    const { id } = await stackExperiment(deps.store, environment);
    const handle = (request: ChunkRequest): Promise<Result> =>
      process({ ...request, chunk: { ...request.chunk, ...chunkOfFile } }, deps);
    return sum(await forEachChunkOf(invocation.files, deps, id, handle));
  }
  // The ranges of a chunk whose line of the manifest only refers to them.
  const chunk = await withRanges({ storage, workBucket: environment.WORK_BUCKET }, invocation.request.chunk);
  const request = { ...invocation.request, chunk };
  return withinLimits(limits, request, () => process(request, deps));
}

/** Time reserved so that a chunk that was started can end. */
const CHUNK_RESERVE_MS = 60_000;

/**
 * Processes every chunk of the files, one after the other.
 *
 * @throws RetryableError `ChunkOutOfTime` when the Lambda’s time runs out. Finished chunks stay finished.
 */
export async function forEachChunkOf<Result>(
  files: readonly CaptureFile[],
  deps: Pick<ChunkDependencies, 'storage' | 'environment' | 'requestId' | 'remainingMs'>,
  experimentId: string,
  handle: (request: ChunkRequest) => Promise<Result>,
): Promise<Result[]> {
  const { storage, environment, requestId, remainingMs } = deps;
  const scope = captureScope(environment);
  const options: RunOptions = {
    evaluate: true,
    reevaluate: false,
    sampleRate: environment.EVALUATION_SAMPLE_RATE,
    dryRun: false,
    judge: 'converse',
  };
  const results: Result[] = [];
  for (const file of files) {
    const object = await capturedObject(storage, scope, file.bucket, file.key);
    const limits = { deadlineMs: () => remainingMs() - CHUNK_RESERVE_MS };
    for await (const unit of unitsOfObjects(storage, [object], limits)) {
      for (const range of unit.ranges) {
        if (remainingMs() < CHUNK_RESERVE_MS || unit.outOfTime) throw outOfTime(file);
        const chunk = { experimentId, chunk: results.length, lines: range.lines, ranges: [range] };
        results.push(await handle({ run: `invoke-${requestId}`, chunk, options, attempt: 0 }));
      }
      if (unit.outOfTime) throw outOfTime(file);
      if (unit.unavailable) throw unit.unavailable;
      if (unit.failed) throw recordedError(unit.failed.error);
    }
  }
  return results;
}

const outOfTime = (file: CaptureFile): RetryableError =>
  new RetryableError('ChunkOutOfTime', 'The file is too long for one invocation; start an execution for it instead', {
    where: `s3://${file.bucket}/${file.key}`,
  });

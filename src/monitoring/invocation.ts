/** Handles invocations of the processor and the evaluator: a chunk, or directly a whole capture file, without the state machine. */
import type { Context } from 'aws-lambda';
import * as z from 'zod';
import { capturedObject } from '../captures/files/capture-objects.ts';
import type { connectRedaction } from '../captures/redact/redaction.ts';
import { assertContract } from '../core/contract/contract.ts';
import type { RunOptions } from '../core/contract/input.ts';
import {
  type ChunkProgress,
  type ChunkRequest,
  chunkRequestSchema,
  type ManifestLine,
} from '../core/contract/payloads.ts';
import {
  isRetryable,
  isThrottled,
  PermanentError,
  RetryableError,
  recordedError,
  saidBy,
} from '../core/errors/errors.ts';
import { countThrottle } from '../core/process/throttles.ts';
import { captureScope } from '../judge/capture-scope.ts';
import { JudgePaused } from '../judge/errors.ts';
import type { Limits } from '../limits/limits.ts';
import type { connectMlflow } from '../mlflow/connect.ts';
import type { ChunkDependencies } from './chunk/attempt.ts';
import { withRanges } from './chunk/ranges.ts';
import { DrawChances } from './plan/draw-chances.ts';
import { scanObject } from './plan/units.ts';
import { stackExperiment } from './stack-experiment.ts';

const text = z.string().min(1);
const fileSchema = z.strictObject({ bucket: text, key: text });

/** The key is raw, not URL-encoded. */
type CaptureFile = z.infer<typeof fileSchema>;

type Invocation = { kind: 'chunk'; request: ChunkRequest } | { kind: 'file'; file: CaptureFile };

/**
 * Parses the event of a function that processes chunks.
 *
 * @throws PermanentError `InvalidInput`, with the input and the allowed shapes
 *
 * @example
 *     parseInvocation({ bucket: 'b', key: 'k' })   // { kind: 'file', file: { bucket: 'b', key: 'k' } }
 */
export function parseInvocation(event: unknown): Invocation {
  const shape = typeof event === 'object' && event !== null ? event : {};
  if ('chunk' in shape) {
    // Check the contract before the form, because a new contract may have changed the form.
    assertContract(Object(shape.chunk), 'chunk');
    const request = chunkRequestSchema.safeParse(event);
    if (!request.success) throw invalid(event, z.prettifyError(request.error));
    const { attempt, progress } = request.data;
    // A wait must not restart the numbering of attempts, because the latest receipt of a part counts.
    return { kind: 'chunk', request: { ...request.data, attempt: attempt + (progress?.attempts ?? 0) } };
  }
  const file = fileSchema.safeParse(event);
  if (file.success) return { kind: 'file', file: file.data };
  throw invalid(event, z.prettifyError(file.error));
}

const invalid = (event: unknown, problem: string): PermanentError =>
  new PermanentError('InvalidInput', `The input of the function is invalid: ${problem.replaceAll('\n', ' ')}`, {
    got: event,
    expected: '{"bucket":…,"key":…}, or a chunk from the state machine',
  });

/** Connections that a function for chunks opens once. */
interface ChunkFunction extends Pick<ChunkDependencies, 'storage' | 'table'> {
  redacted: ReturnType<typeof connectRedaction<ChunkDependencies['environment']>>;
  limits: Limits;
  mlflow: ReturnType<typeof connectMlflow>;
}

/**
 * Handles an event of a function that processes chunks: a chunk within the limits of the stack, or each chunk of a whole
 * file.
 *
 * @param sum adds up the results of the file's chunks
 * @param chunkOfFile further properties of the file's chunks
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
  if (invocation.kind === 'file') {
    const { id } = await stackExperiment(deps.store, environment);
    const handle = (request: ChunkRequest): Promise<Result> =>
      process({ ...request, chunk: { ...request.chunk, ...chunkOfFile } }, deps);
    return sum(await forEachChunkOf(invocation.file, deps, id, handle));
  }
  // Reads the ranges of a chunk if its line in the manifest only refers to them.
  const chunk = await withRanges({ storage, workBucket: environment.WORK_BUCKET }, invocation.request.chunk);
  const request = { ...invocation.request, chunk };
  return withinLimits(limits, request, () => process(request, deps));
}

/** Time reserved so that a chunk that was started can end. */
const CHUNK_RESERVE_MS = 60_000;

/**
 * Processes every chunk of the file, one after the other.
 *
 * @throws RetryableError `ChunkOutOfTime` when the Lambda’s time runs out. Finished chunks stay finished.
 */
export async function forEachChunkOf<Result>(
  file: CaptureFile,
  deps: Pick<ChunkDependencies, 'storage' | 'environment' | 'table' | 'requestId' | 'remainingMs'>,
  experimentId: string,
  handle: (request: ChunkRequest) => Promise<Result>,
): Promise<Result[]> {
  const { storage, environment, requestId, remainingMs } = deps;
  const options: RunOptions = {
    evaluate: true,
    reevaluate: false,
    sampleRate: environment.EVALUATION_SAMPLE_RATE,
    dryRun: false,
    judge: 'converse',
  };
  const object = await capturedObject(storage, captureScope(environment), file.bucket, file.key);
  const unit = await scanObject(storage, object, () => remainingMs() - CHUNK_RESERVE_MS);
  if (unit.outOfTime) throw outOfTime(file);
  if (unit.unavailable) throw unit.unavailable;
  if (unit.failed) throw recordedError(unit.failed.error);
  if (options.sampleRate === undefined) await new DrawChances(environment, deps.table).give(unit.ranges, 'decide');
  const results: Result[] = [];
  for (const range of unit.ranges) {
    if (remainingMs() < CHUNK_RESERVE_MS) throw outOfTime(file);
    const chunk = { experimentId, chunk: results.length, lines: range.lines, ranges: [range] };
    results.push(await handle({ run: `invoke-${requestId}`, chunk, options, attempt: 0 }));
  }
  return results;
}

const outOfTime = (file: CaptureFile): RetryableError =>
  new RetryableError('ChunkOutOfTime', 'The file is too long for one invocation; start an execution for it instead', {
    where: `s3://${file.bucket}/${file.key}`,
  });

// -------------------------------------------------------------------------------------------------------------- limits
// Processes a chunk when the stack has room for one more function. Waiting is done by the state machine. It is paid by
// the round, three state transitions and an invocation, and not by the second: three cents a day for a chunk that waits
// as long as it may.

/** A wait is up to this share longer, so that chunks that were sent away together do not return together. */
const JITTER = 0.25;
const LONGEST_WAIT_SECONDS = 900;
/** A server that is only slow needs fewer chunks at the same time. If it answers no call, its breaker opens for longer. */
const THROTTLED_WAIT_MS = 15_000;

/** The progress of a chunk that is processed. */
const DONE = { kills: 0, attempts: 0, waitSeconds: 0 } satisfies ChunkProgress;

/** Step Functions restarts its count of retries after each wait, so a chunk that fails between its waits would be tried forever. */
const MOST_ATTEMPTS = 1000;

/** Returns the progress of a chunk that was not processed now, and is to be processed after a while. */
function waiting({ progress }: ChunkRequest, attempts: number, waitSeconds: number): ChunkProgress {
  countThrottle('chunks', waitSeconds);
  return { kills: progress?.kills ?? 0, attempts, waitSeconds };
}

/** Returns for how long to wait for a provider that is to be left alone for this time. */
function secondsOf(ms = 0, random = Math.random): number {
  const seconds = Math.min(LONGEST_WAIT_SECONDS, Math.max(1, ms / 1000));
  return Math.ceil(seconds * (1 + JITTER * random()));
}

/**
 * Does the work, unless there is no permit or the breaker of MLflow is open; or until the judge is paused, or MLflow, the table or S3
 * keeps throttling, which the work reports by its error.
 */
export async function withinLimits(
  { permits, mlflow }: Limits,
  request: ChunkRequest,
  work: () => Promise<unknown>,
): Promise<ChunkProgress> {
  const waited = request.progress?.waitSeconds;
  const acquired = (await permits?.acquire(waited)) ?? 'acquired';
  // Without a permit, no attempt was made.
  if (acquired !== 'acquired') return waiting(request, request.attempt, acquired.waitSeconds);
  const breaker = mlflow?.breaker;
  try {
    const openUntil = await breaker?.check();
    if (openUntil !== undefined) {
      // The alarm stays on while no call is made.
      countThrottle('mlflow');
      return waiting(request, request.attempt, secondsOf(openUntil - Date.now()));
    }
    await work();
    return DONE;
  } catch (error) {
    const attempts = request.attempt + 1;
    if (attempts >= MOST_ATTEMPTS && isRetryable(error)) {
      throw new PermanentError('RetriesUsedUp', `After ${attempts} attempts the chunk failed again: ${saidBy(error)}`);
    }
    if (error instanceof JudgePaused) return waiting(request, attempts, secondsOf(error.retryAfterMs));
    if (isThrottled(error)) {
      const openMs = (breaker?.openUntilMs ?? 0) - Date.now();
      // The table and S3 have no breaker: each wait is twice as long.
      const longerMs = error.name === 'MlflowThrottled' ? 0 : 2000 * (waited ?? 0);
      const ms = Math.max(error.retryAfterMs ?? 0, openMs, longerMs, THROTTLED_WAIT_MS);
      return waiting(request, attempts, secondsOf(ms));
    }
    throw error;
  } finally {
    // If the chunk sent no request, or MLflow was not available, another chunk makes the trial.
    await breaker?.report('other');
    await permits?.release();
  }
}

/**
 * StopReplay: completes a replay whose execution was stopped or failed. It stops the shards, waits for them, and has their
 * results summarized and published. Idempotent.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Storage } from '../../../core/aws/storage.ts';
import type { Execution } from '../../../core/contract/execution.ts';
import {
  type EndedExecution,
  type EndReplayRunRequest,
  type PublishReplayRequest,
  type PublishReplayResult,
  REPLAYER_TIMEOUT_SECONDS,
  type StopReplayResult,
  type SummarizeReplayRequest,
  type SummarizeReplayResult,
} from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError, toNamedError } from '../../../core/errors/errors.ts';
import { listClaims, listShardFiles, readPlan, SHARD_FILES } from '../work-bucket/stored-plan.ts';
import { putStopMark, stopMark } from './order.ts';

interface StopDependencies {
  storage: Storage;
  workBucket: string;
  /** The functions at the end of a normal execution. */
  summarize(request: SummarizeReplayRequest): Promise<SummarizeReplayResult>;
  publish(request: PublishReplayRequest): Promise<PublishReplayResult>;
  endRun(request: EndReplayRunRequest): Promise<unknown>;
  remainingMs(): number;
  /** Epoch ms, and a wait; set by tests. */
  now?(): number;
  pause?(ms: number): Promise<unknown>;
}

/** A function has ended this long after its claim: its time limit, and a margin for clock differences. */
const CLAIM_LIMIT_MS = (REPLAYER_TIMEOUT_SECONDS + 30) * 1000;

/** Shards see the order within 3 s, and write their files within 75 s. */
const POLL_MS = 3_000;

/** Reserved for the summary and MLflow. If shards have not ended by then, because one crashed, the next attempt waits. */
const END_RESERVE_MS = 300_000;

/** @throws PermanentError `ShardsUnderWay`, `ContractChanged`, and errors of the storage and of the functions. Lambda retries twice */
export async function stopReplay({ detail }: EndedExecution, deps: StopDependencies): Promise<StopReplayResult> {
  const run = executionOf(detail);
  try {
    return await bringToEnd(run, detail, deps);
  } catch (error) {
    const { name, message } = toNamedError(error);
    // Shards that another version of the stack has planned still send, and understand the order.
    if (name === 'ContractChanged') await putStopMark(deps.storage, deps.workBucket, run.name, name);
    // No MLflow run stays open. An attempt that succeeds ends it again. The first failure matters more.
    await deps.endRun({ run, unfinished: { Error: name, Cause: message } }).catch(() => {});
    throw error;
  }
}

async function bringToEnd(
  run: Execution,
  { status, error, cause }: EndedExecution['detail'],
  deps: StopDependencies,
): Promise<StopReplayResult> {
  const { storage, workBucket: bucket } = deps;
  const failed = status === 'FAILED';
  let state = await replayState(storage, bucket, run.name, failed);
  // A stop order would prevent a later evaluation, so write it only if shards are still running.
  if (!failed || (state.end === 'open' && (await shardsOf(run.name, deps)).over < state.shards)) {
    await putStopMark(storage, bucket, run.name, `the execution is ${status}`);
    // Read again, because planning writes its plan before it checks for the order.
    state = await replayState(storage, bucket, run.name, failed);
  }
  if (state.end === 'empty') return { end: 'empty' };
  if (state.end === 'open') {
    await shardsEnd(run.name, deps);
    const raised = failed && error ? { error: { Error: error, Cause: cause ?? '' } } : {};
    await deps.summarize({ run, ...raised });
  }
  // Publish even if the results existed before: MLflow may not have been available then.
  if (state.mlflow) await deps.publish({ run });
  return { end: 'summarized' };
}

function executionOf({ executionArn, startDate }: EndedExecution['detail']): Execution {
  return {
    name: executionArn.slice(executionArn.lastIndexOf(':') + 1),
    arn: executionArn,
    startTime: startDate === undefined ? '' : new Date(startDate).toISOString(),
  };
}

/**
 * Returns the state of a replay whose execution has ended. `empty`: no request was planned. `summarized`: results
 * exist, and are newer than any stop order. `open`: neither.
 *
 * @param failed whether the execution failed, and so may have results without a stop order
 */
export async function replayState(
  storage: Storage,
  bucket: string,
  run: string,
  failed: boolean,
): Promise<{ end: 'empty' | 'summarized' | 'open'; shards: number; mlflow: boolean }> {
  const plan = await readPlan(storage, bucket, run);
  if (plan?.outcome !== 'planned') return { end: 'empty', shards: 0, mlflow: false };
  const mlflow = plan.mlflow !== null;
  // The summary writes this object last.
  const last = await storage.head(bucket, mlflow ? replayKeys.publication(run) : replayKeys.figures(run));
  const order = await stopMark(storage, bucket, run);
  const isSummarized = last !== undefined && (order === undefined ? failed : last.lastModifiedMs >= order);
  return { end: isSummarized ? 'summarized' : 'open', shards: plan.shards.length, mlflow };
}

/** Waits until no shard is running. */
async function shardsEnd(run: string, deps: StopDependencies): Promise<void> {
  const { remainingMs, pause = sleep } = deps;
  for (;;) {
    const { started, running } = await shardsOf(run, deps);
    if (running === 0) return;
    if (remainingMs() < END_RESERVE_MS) {
      throw new PermanentError('ShardsUnderWay', 'Some shards are still running', {
        got: `${running} of ${started} started shards`,
        expected: `each ends within ${REPLAYER_TIMEOUT_SECONDS} s of its claim`,
        where: replayKeys.claimPrefix(run),
      });
    }
    await pause(POLL_MS);
  }
}

/** Counts shards. A shard is over if it has a result or a failure, or if its function's time is over. */
async function shardsOf(
  run: string,
  { storage, workBucket: bucket, now = Date.now }: StopDependencies,
): Promise<{ started: number; over: number; running: number }> {
  const over = new Set<number>();
  for (const [shard, files] of await listShardFiles(storage, bucket, run)) {
    if (files.has(SHARD_FILES.result) || files.has(SHARD_FILES.failure)) over.add(shard);
  }
  const claims = await listClaims(storage, bucket, run);
  for (const [shard, { lastModifiedMs }] of claims) {
    if (now() >= lastModifiedMs + CLAIM_LIMIT_MS) over.add(shard);
  }
  const running = [...claims.keys()].filter((shard) => !over.has(shard)).length;
  return { started: claims.size, over: over.size, running };
}

/**
 * StopReplay: an execution has ended, and not by itself, or not with success → its shards are told to stop and waited for,
 * and what they measured is summarised and published. Doing it again changes nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Execution } from '../../../contract/execution.ts';
import {
  type EndedExecution,
  type EndReplayRunRequest,
  type PublishReplayRequest,
  type PublishReplayResult,
  REPLAYER_TIMEOUT_SECONDS,
  type StopReplayResult,
  type SummarizeReplayRequest,
  type SummarizeReplayResult,
} from '../../../contract/replay.ts';
import { replayKeys } from '../../../contract/work-keys.ts';
import { PermanentError, toNamedError } from '../../../shared/errors.ts';
import type { Storage } from '../../../shared/storage.ts';
import { SHARD_FILES } from '../work-bucket/keys.ts';
import { readPlan } from '../work-bucket/stored-plan.ts';
import { putStopMark, stopMark } from './order.ts';

interface StopDependencies {
  storage: Storage;
  workBucket: string;
  /** The functions that end a replay whose execution ends by itself. */
  summarize(request: SummarizeReplayRequest): Promise<SummarizeReplayResult>;
  publish(request: PublishReplayRequest): Promise<PublishReplayResult>;
  endRun(request: EndReplayRunRequest): Promise<unknown>;
  remainingMs(): number;
  /** Epoch ms, and a wait; for tests. */
  now?(): number;
  pause?(ms: number): Promise<unknown>;
}

/** A function has ended so long after its claim: its own limit, and some for clocks that differ. */
const CLAIM_LIMIT_MS = (REPLAYER_TIMEOUT_SECONDS + 30) * 1000;

/** Shards see the order within 3 s, and write their files within 75. */
const ASK_AGAIN_MS = 3_000;

/**
 * Of the function's time, for the summary and MLflow. Shards that have not ended by then, since one of them has died, are
 * waited for by the next attempt.
 */
const END_RESERVE_MS = 300_000;

/** @throws PermanentError `ShardsUnderWay`, and what the storage and the two functions throw: Lambda tries it twice again */
export async function stopReplay({ detail }: EndedExecution, deps: StopDependencies): Promise<StopReplayResult> {
  const run = executionOf(detail);
  try {
    return await bringToEnd(run, detail, deps);
  } catch (error) {
    const { name, message } = toNamedError(error);
    // No run in MLflow stays open; an attempt that succeeds ends it anew. What has failed first is what matters.
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
  // With an order, what the judge and MLflow still owe could not be had: none is put where nothing is left to be stopped.
  if (!failed || (state.end === 'open' && (await shardsOf(run.name, deps)).over < state.shards)) {
    await putStopMark(storage, bucket, run.name, `the execution is ${status}`);
    // Again: planning writes its plan before it looks for the order.
    state = await replayState(storage, bucket, run.name, failed);
  }
  if (state.end === 'empty') return { end: 'empty' };
  if (state.end === 'open') {
    await shardsEnd(run.name, deps);
    const raised = failed && error ? { error: { Error: error, Cause: cause ?? '' } } : {};
    await deps.summarize({ run, ...raised });
  }
  // Also where there were results: MLflow may have been away when they came.
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
 * What there is of a replay whose execution has ended. `empty`: nothing was to be sent; `summarized`: its results, those of
 * after the order where there is one; `open`: neither.
 *
 * @param failed it has failed, and may have made its results itself, without an order
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
  // What the summary writes last.
  const last = await storage.head(bucket, mlflow ? replayKeys.publication(run) : replayKeys.figures(run));
  const order = await stopMark(storage, bucket, run);
  const isSummarized = last !== undefined && (order ? last.lastModifiedMs >= order.atMs : failed);
  return { end: isSummarized ? 'summarized' : 'open', shards: plan.shards.length, mlflow };
}

/** Waits until no shard is under way. */
async function shardsEnd(run: string, deps: StopDependencies): Promise<void> {
  const { remainingMs, pause = sleep } = deps;
  for (;;) {
    const { begun, underWay } = await shardsOf(run, deps);
    if (underWay === 0) return;
    if (remainingMs() < END_RESERVE_MS) {
      throw new PermanentError('ShardsUnderWay', 'Shards have neither ended nor used up their time', {
        got: `${underWay} of the ${begun} that have begun`,
        expected: `each ends within ${REPLAYER_TIMEOUT_SECONDS} s of its claim`,
        where: replayKeys.claimPrefix(run),
      });
    }
    await pause(ASK_AGAIN_MS);
  }
}

/**
 * A shard that has a claim has ended when its result is there, or why there is none, or when its function's time is up.
 */
async function shardsOf(
  run: string,
  { storage, workBucket: bucket, now = Date.now }: StopDependencies,
): Promise<{ begun: number; over: number; underWay: number }> {
  const over = new Set<number>();
  const shards = replayKeys.shardsPrefix(run);
  for await (const { key } of storage.list(bucket, shards)) {
    const [shard = '', name = ''] = key.slice(shards.length).split('/');
    if (name === SHARD_FILES.result || name === SHARD_FILES.failure) over.add(Number(shard));
  }
  let begun = 0;
  let underWay = 0;
  const claims = replayKeys.claimPrefix(run);
  for await (const { key, lastModifiedMs } of storage.list(bucket, claims)) {
    begun++;
    const shard = Number.parseInt(key.slice(claims.length), 10);
    if (over.has(shard)) continue;
    if (now() < lastModifiedMs + CLAIM_LIMIT_MS) underWay++;
    else over.add(shard);
  }
  return { begun, over: over.size, underWay };
}

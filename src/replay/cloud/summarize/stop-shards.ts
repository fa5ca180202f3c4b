/** Stops the shards of a replay whose execution was stopped or has failed, and waits for them. Idempotent. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Storage, Work } from '../../../core/aws/storage.ts';
import { FUNCTION_TIMEOUT_SECONDS } from '../../../core/contract/execution.ts';
import type { EndedExecution } from '../../../core/contract/replay.ts';
import { areaOf, replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import { putStopMark, stopMark } from '../work-bucket/stop-order.ts';
import { listShardFiles, readPlan, SHARD_FILES, type StoredPlan } from '../work-bucket/stored-plan.ts';

export interface StopDependencies extends Work {
  remainingMs(): number;
  /** Epoch ms, and a wait; set by tests. */
  now?(): number;
  pause?(ms: number): Promise<unknown>;
}

/** A function has ended this long after its claim: its time limit, and a margin for clock differences. */
const CLAIM_LIMIT_MS = (FUNCTION_TIMEOUT_SECONDS + 30) * 1000;

/** Shards see the order within 3 s, and write their files within 75 s. */
const POLL_MS = 3_000;

/** Reserved for the summary and MLflow. If shards have not ended by then, because one crashed, the next attempt waits. */
const END_RESERVE_MS = 300_000;

/**
 * Returns the state of the replay when no shard is running.
 *
 * @throws PermanentError `ShardsUnderWay`, `ContractChanged`, and errors of the storage
 */
export async function stopShards(
  run: string,
  status: EndedExecution['detail']['status'],
  deps: StopDependencies,
): Promise<ReplayState> {
  const { storage, workBucket: bucket } = deps;
  const failed = status === 'FAILED';
  let state = await replayState(storage, bucket, run, failed);
  // A stop order would prevent a later evaluation, so write it only if shards are still running.
  if (!failed || (state.end === 'open' && (await shardsOf(run, deps)).over < state.plan.shards.length)) {
    await putStopMark(storage, bucket, run, `the execution is ${status}`);
    // Read again, because planning writes its plan before it checks for the order.
    state = await replayState(storage, bucket, run, failed);
  }
  if (state.end === 'open') await shardsEnd(run, deps);
  return state;
}

/**
 * The state of a replay whose execution has ended. `empty`: no request was planned. `summarized`: results exist, and are
 * newer than any stop order. `open`: neither.
 */
type ReplayState = { end: 'empty'; plan: undefined } | { end: 'summarized' | 'open'; plan: StoredPlan };

/** @param failed whether the execution failed, and so may have results without a stop order */
export async function replayState(
  storage: Storage,
  bucket: string,
  run: string,
  failed: boolean,
): Promise<ReplayState> {
  const plan = await readPlan(storage, bucket, run);
  if (plan?.outcome !== 'planned') return { end: 'empty', plan: undefined };
  // The summary writes this object last.
  const last = await storage.head(bucket, plan.mlflow ? replayKeys.publication(run) : replayKeys.figures(run));
  const order = await stopMark(storage, bucket, run);
  const isSummarized = last !== undefined && (order === undefined ? failed : last.lastModifiedMs >= order);
  return { end: isSummarized ? 'summarized' : 'open', plan };
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
        expected: `each ends within ${FUNCTION_TIMEOUT_SECONDS} s of its claim`,
        where: areaOf('replayShards', run),
      });
    }
    await pause(POLL_MS);
  }
}

/** Counts shards. A shard is over if it has a result or a failure, or if its function's time is over. */
async function shardsOf(run: string, { storage, workBucket: bucket, now = Date.now }: StopDependencies) {
  const counts = { started: 0, over: 0, running: 0 };
  for (const files of (await listShardFiles(storage, bucket, run)).values()) {
    const claim = files.get(SHARD_FILES.claim);
    const hasEnded = files.has(SHARD_FILES.result) || files.has(SHARD_FILES.failure);
    const isOver = hasEnded || (claim !== undefined && now() >= claim.lastModifiedMs + CLAIM_LIMIT_MS);
    if (claim) counts.started++;
    if (isOver) counts.over++;
    else if (claim) counts.running++;
  }
  return counts;
}

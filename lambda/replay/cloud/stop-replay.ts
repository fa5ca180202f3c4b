/**
 * StopReplay: an execution has ended out of order → its shards are told to stop, and waited for. The order to stop was put by
 * hand → the execution is stopped: its children wait for their time, and look for no order meanwhile.
 */
import type { Storage } from '../../common/storage.ts';
import {
  type EndedExecution,
  REPLAYER_TIMEOUT_SECONDS,
  replayKeys,
  type StopReplayRequest,
  type StopReplayResult,
} from '../../replay-contract.ts';
import { executionOf } from './ended-execution.ts';
import { SHARD_FILES } from './keys.ts';
import type { ReplayPlan } from './plan.ts';

export interface StopDependencies {
  storage: Storage;
  workBucket: string;
  /** Stops the execution of that name, if it goes on. @returns whether it did */
  stopExecution(name: string): Promise<boolean>;
  /** Epoch ms; for tests. */
  now?(): number;
}

/** A function has ended so long after its claim: its own limit, and some for clocks that differ. */
const CLAIM_LIMIT_MS = (REPLAYER_TIMEOUT_SECONDS + 30) * 1000;

/**
 * To be called again until it says what is next; each call does the same, whatever an earlier one has done.
 *
 * Executions that failed in order have their results, and are left alone. Those that failed without them, by an error that
 * Step Functions lets no state catch, may have shards under way like those that were aborted.
 */
export async function stopReplay({ detail }: StopReplayRequest, deps: StopDependencies): Promise<StopReplayResult> {
  if ('executionArn' in detail) return endReplay(detail, deps);
  const { key } = detail.object;
  // The order that a stopped execution gets comes here too, and finds that it has ended. Of one that was going on, EventBridge
  // tells next.
  await deps.stopExecution(key.split('/')[1] ?? '');
  return { next: 'nothing', shards: { begun: 0, underWay: 0 } };
}

async function endReplay(
  detail: EndedExecution['detail'],
  { storage, workBucket: bucket, now = Date.now }: StopDependencies,
): Promise<StopReplayResult> {
  const run = executionOf(detail);
  const failed = detail.status === 'FAILED';
  const planOf = () => storage.getJson<ReplayPlan>(bucket, replayKeys.plan(run.name));
  const error = failed && detail.error ? { Error: detail.error, Cause: detail.cause ?? '' } : undefined;
  const answer = (next: StopReplayResult['next'], begun = 0, underWay = 0): StopReplayResult => ({
    next,
    shards: { begun, underWay },
    summarize: { run, ...(error ? { error } : {}) },
  });
  if (failed) {
    if (await isSettled(storage, bucket, run.name)) return answer('nothing');
    const planned = (await planOf())?.shards.length;
    const { begun, over } = await shardsUnderWay(storage, bucket, run.name, now());
    // All was sent, and only the summary failed: with the order, what the judge and MLflow still owe could not be had.
    if (over === planned) return answer('summarize', begun);
  }
  // First of all: from here on, no shard begins.
  await putMark(storage, bucket, run.name, detail.status);
  if ((await planOf())?.outcome !== 'planned') return answer('nothing');
  const { begun, underWay } = await shardsUnderWay(storage, bucket, run.name, now());
  return answer(underWay > 0 ? 'wait' : 'summarize', begun, underWay);
}

/** Nothing was planned, or what was planned has its results. */
async function isSettled(storage: Storage, bucket: string, run: string): Promise<boolean> {
  if (!(await storage.head(bucket, replayKeys.plan(run)))) return true;
  return (await storage.head(bucket, replayKeys.figures(run))) !== undefined;
}

/** What was there first stays: its time is that of the order. */
async function putMark(storage: Storage, bucket: string, run: string, status: string): Promise<void> {
  await storage.putJsonIf(bucket, replayKeys.stop(run), { run, because: `the execution is ${status}` });
}

/**
 * A shard that has a claim has ended when its result is there, or why there is none, or when its function's time is up.
 */
async function shardsUnderWay(
  storage: Storage,
  bucket: string,
  run: string,
  nowMs: number,
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
    if (nowMs < lastModifiedMs + CLAIM_LIMIT_MS) underWay++;
    else over.add(shard);
  }
  return { begun, over: over.size, underWay };
}

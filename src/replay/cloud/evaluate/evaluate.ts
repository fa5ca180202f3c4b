/** EvaluateReplay: logs one shard's traces and verdicts, as far as one invocation has time. */

import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import type { EvaluateReplayRequest, EvaluateReplayResult } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { RetryableError, toNamedError } from '../../../core/errors/errors.ts';
import type { Judge } from '../../../judge/types.ts';
import type { SpendingLimit } from '../../../limits/spending-limit.ts';
import type { MlflowClient } from '../../../mlflow/client.ts';
import { REPLIES_FILE } from '../../compare/replies-file.ts';
import { SPOOL_FILE } from '../../publish/spool.ts';
import { stopMark } from '../stop/order.ts';
import { SHARD_FILES } from '../work-bucket/keys.ts';
import { readShardPlan } from '../work-bucket/stored-plan.ts';
import { judgePairs } from './judge-pairs.ts';
import { ProgressFile, type ShardWork, type StepEnd, shardFileMissing } from './progress.ts';
import { assessVerdicts, traceExchanges } from './write-mlflow.ts';

interface EvaluateReplayDependencies {
  storage: Storage;
  workBucket: string;
  /** Called only for a replay with traces. */
  mlflow(): Promise<MlflowClient>;
  /** Called only for a replay with a judge. */
  judge(): Promise<Judge>;
  /** The daily budget, and the replay's own if `runUsd` is given. `undefined`: there is no limit. */
  limit(run: string, runUsd?: number): SpendingLimit | undefined;
  remainingMs(): number;
}

/** The name of a replay in the budget's account. An execution of the monitoring may have the same name. */
export const budgetRun = (run: string): string => `replay/${run}`;

/**
 * Continues where the last call for the shard stopped. The reason of a failure is also saved next to the progress, for the
 * summary.
 *
 * @throws RetryableError `MlflowUnavailable`, `JudgeThrottled`, … after everything paid for is saved
 */
export async function evaluateReplay(
  request: EvaluateReplayRequest,
  deps: EvaluateReplayDependencies,
): Promise<EvaluateReplayResult> {
  const file = new ProgressFile(deps.storage, deps.workBucket, request);
  try {
    return await evaluate(request, file, deps);
  } catch (error) {
    // The failure itself matters more than this note: the summary also sees from the progress that work is missing.
    await file.fail(toNamedError(error)).catch(() => {});
    throw error;
  }
}

async function evaluate(
  { run, shard }: EvaluateReplayRequest,
  file: ProgressFile,
  deps: EvaluateReplayDependencies,
): Promise<EvaluateReplayResult> {
  const { storage, workBucket: bucket, remainingMs } = deps;
  const { plan } = await readShardPlan(storage, bucket, { run, shard });
  const prefix = replayKeys.shardPrefix(run, shard);
  // A shard without a result is lost, whatever else it wrote. The summary reports it.
  if (!(await storage.head(bucket, `${prefix}${SHARD_FILES.result}`)))
    return { done: true, shard, traces: 0, judged: 0 };
  const progress = await file.read();
  let end: StepEnd = 'done';
  if (!progress.done) {
    const before = JSON.stringify(progress);
    const isStopped = async (): Promise<boolean> => (await stopMark(storage, bucket, run)) !== undefined;
    end = await steps({ storage, plan, progress, file, remainingMs, isStopped }, prefix, deps);
    progress.done = end === 'done';
    if (progress.done) await file.save(progress, {});
    else if (end === 'outOfTime' && JSON.stringify(progress) === before) {
      const facts = { where: `shard ${shard} of ${run}` };
      throw new RetryableError('ChunkOutOfTime', 'One step of the shard takes longer than this Lambda may run', facts);
    }
  }
  const { better, same, worse, undecided, failed } = progress.pairs.judged;
  const judged = better + same + worse + undecided + failed;
  // A stopped replay needs no further call; the summary reports what is missing.
  return { done: end !== 'outOfTime', shard, traces: progress.traces.written, judged };
}

async function steps(work: ShardWork, prefix: string, deps: EvaluateReplayDependencies): Promise<StepEnd> {
  const { plan } = work;
  const object = (name: string): Promise<ObjectFacts> => shardFile(deps, `${prefix}${name}`);
  const ports = plan.mlflow && { client: await deps.mlflow(), ...plan.mlflow };
  if (ports) {
    const end = await traceExchanges(work, await object(SPOOL_FILE), ports);
    if (end !== 'done') return end;
  }
  if (!plan.judge) return 'done';
  let end: StepEnd;
  try {
    end = await judgeWithin(work, await object(REPLIES_FILE), plan.judge.budgetUsd, deps);
  } catch (error) {
    // The verdicts so far are written anyway. If that fails too, the next call writes them.
    if (ports) await assessVerdicts(work, ports).catch(() => {});
    throw error;
  }
  // Also for a stopped replay: these verdicts are paid for.
  const assessed = ports ? await assessVerdicts(work, ports) : 'done';
  return assessed === 'done' ? end : assessed;
}

/** @param budgetUsd limit of this replay; 0: only the daily budget applies */
async function judgeWithin(
  work: ShardWork,
  replies: ObjectFacts,
  budgetUsd: number,
  deps: EvaluateReplayDependencies,
): Promise<StepEnd> {
  const limit = deps.limit(budgetRun(work.plan.run), budgetUsd === 0 ? undefined : budgetUsd);
  let end: StepEnd;
  try {
    end = await judgePairs(work, replies, await deps.judge(), limit);
  } catch (error) {
    // The judge's failure matters more: a reservation that is not released expires.
    await limit?.close().catch(() => {});
    throw error;
  }
  await limit?.close();
  return end;
}

async function shardFile({ storage, workBucket }: EvaluateReplayDependencies, key: string): Promise<ObjectFacts> {
  const found = await storage.head(workBucket, key);
  if (found) return found;
  throw shardFileMissing(workBucket, key);
}

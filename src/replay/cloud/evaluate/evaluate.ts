/** EvaluateReplay: the traces and the verdicts of one shard's replies, as far as one function has time for. */

import { type EvaluateReplayRequest, type EvaluateReplayResult, replayKeys } from '../../../contract/replay.ts';
import type { SpendingLimit } from '../../../judge/budget/spending-limit.ts';
import type { Judge } from '../../../judge/types.ts';
import type { MlflowClient } from '../../../mlflow/client.ts';
import { PermanentError, RetryableError, toNamedError } from '../../../shared/errors.ts';
import type { ObjectFacts, Storage } from '../../../shared/storage.ts';
import { REPLIES_FILE } from '../../compare/replies-file.ts';
import { SPOOL_FILE } from '../../publish/spool.ts';
import { SHARD_FILES } from '../keys.ts';
import { stopMark } from '../stop/order.ts';
import type { ReplayPlan } from '../stored-plan.ts';
import { assessVerdicts } from './evaluate-assessments.ts';
import { judgePairs } from './evaluate-pairs.ts';
import { traceExchanges } from './evaluate-traces.ts';
import { type EvaluationProgress, ProgressFile } from './progress.ts';

interface EvaluateReplayDependencies {
  storage: Storage;
  workBucket: string;
  /** Called only for a replay that is to have traces. */
  mlflow(): Promise<MlflowClient>;
  /** Called only for a replay that is judged. */
  judge(): Promise<Judge>;
  /** Money for the judge: of the account, and of the replay where `runUsd` is given. `undefined`: there is no limit. */
  limit(run: string, runUsd?: number): SpendingLimit | undefined;
  remainingMs(): number;
}

/** What the budget's account of a replay is called: an execution of the monitoring may have the same name. */
export const budgetRun = (run: string): string => `replay/${run}`;

/** A shard at work. */
export interface ShardWork {
  storage: Storage;
  plan: ReplayPlan;
  progress: EvaluationProgress;
  file: ProgressFile;
  remainingMs(): number;
  isStopped(): Promise<boolean>;
}

/** Whether a step has come to its end, or the time has, or the replay was stopped: then no judge is paid any more. */
export type StepEnd = 'done' | 'outOfTime' | 'stopped';

/**
 * @throws RetryableError `MlflowUnavailable`, `JudgeThrottled`, … when nothing more can be done now, after what was paid for
 * is saved: the next call goes on from there. Why a call failed is also left beside its progress, for the summary.
 */
export async function evaluateReplay(
  request: EvaluateReplayRequest,
  deps: EvaluateReplayDependencies,
): Promise<EvaluateReplayResult> {
  const file = new ProgressFile(deps.storage, deps.workBucket, request);
  try {
    return await evaluate(request, file, deps);
  } catch (error) {
    // The failure itself is what matters; the summary knows without this note too that the evaluation is not done.
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
  const plan = await storage.getJson<ReplayPlan>(bucket, replayKeys.plan(run));
  if (!plan?.shards[shard]) {
    throw new PermanentError('ReplayNotPlanned', 'The replay has no plan for that shard', {
      got: `shard ${shard} of ${run}`,
      where: `s3://${bucket}/${replayKeys.plan(run)}`,
    });
  }
  const prefix = replayKeys.shardPrefix(run, shard);
  // Nothing is known of a lost shard, whatever it has left: the summary says so.
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
      throw new RetryableError('ChunkOutOfTime', 'The shard needs longer for one step than this Lambda has', facts);
    }
  }
  const { better, same, worse, undecided, failed } = progress.pairs.judged;
  const judged = better + same + worse + undecided + failed;
  // Of a replay that was stopped there is nothing left to be done, and the summary says that it is not done.
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
    // What the judge had said by then is shown all the same; what fails of that too, the next call does.
    if (ports) await assessVerdicts(work, ports).catch(() => {});
    throw error;
  }
  // Also of a replay that was stopped: these verdicts are paid.
  const assessed = ports ? await assessVerdicts(work, ports) : 'done';
  return assessed === 'done' ? end : assessed;
}

/** @param budgetUsd of this replay; 0: the account's alone */
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
    // A reservation that is not given back expires by itself; the judge's own failure is what matters.
    await limit?.close().catch(() => {});
    throw error;
  }
  await limit?.close();
  return end;
}

async function shardFile({ storage, workBucket }: EvaluateReplayDependencies, key: string): Promise<ObjectFacts> {
  const found = await storage.head(workBucket, key);
  if (found) return found;
  throw new PermanentError('ShardFileMissing', 'The shard has measured, but a file that it wrote is gone', {
    where: `s3://${workBucket}/${key}`,
  });
}

/**
 * SummarizeReplay: brings a replay to its end. It is the last step of an execution. If the execution was stopped or has
 * failed, EventBridge calls it too. Idempotent.
 */
import type { EndedExecution, SummarizeReplayRequest, SummarizeReplayResult } from '../../../core/contract/replay.ts';
import { toNamedError } from '../../../core/errors/errors.ts';
import { putStopMark } from '../work-bucket/stop-order.ts';
import { readPlan } from '../work-bucket/stored-plan.ts';
import { endUnfinished, type PublishDependencies, publishReplay } from './publish-replay.ts';
import { type StopDependencies, stopShards } from './stop-shards.ts';
import { type SummaryDependencies, writeSummary } from './write-summary.ts';

type SummarizeDependencies = StopDependencies & SummaryDependencies & PublishDependencies;

/**
 * Writes the results and publishes them in MLflow. For an execution that has ended, it first stops the shards and waits for
 * them, and it repeats no summary that is complete.
 *
 * @returns the steps that this call has completed
 * @throws PermanentError `ShardsUnderWay`, `ContractChanged`, and errors of the storage and of MLflow's client
 *
 * @example
 *     const { results } = await summarizeReplay({ run: { name: 'nightly' } }, deps);
 */
export async function summarizeReplay(
  request: SummarizeReplayRequest | EndedExecution,
  deps: SummarizeDependencies,
): Promise<Partial<SummarizeReplayResult>> {
  const { run, error, status } = 'detail' in request ? asRequest(request) : { ...request, status: undefined };
  const { storage, workBucket } = deps;
  let result: SummarizeReplayResult | undefined;
  try {
    const state = status && (await stopShards(run.name, status, deps));
    if (state?.end === 'empty') return {};
    const plan = state ? state.plan : await readPlan(storage, workBucket, run.name);
    if (state?.end !== 'summarized') result = await writeSummary(run.name, plan, error, deps);
    return plan?.mlflow ? { ...result, mlflow: await publishReplay(run.name, deps) } : { ...result };
  } catch (failure) {
    const { name, message } = toNamedError(failure);
    // Shards that another version of the stack has planned still send, and understand the order.
    if (status && name === 'ContractChanged') await putStopMark(storage, workBucket, run.name, name);
    // No MLflow run stays open. A later call that succeeds ends it again. The first failure matters more.
    const stopped = result ? result.error === 'ReplayCancelled' : status !== undefined && status !== 'FAILED';
    await endUnfinished(run.name, stopped ? 'KILLED' : 'FAILED', `${name}: ${message}`, deps).catch(() => {});
    // Missing requests matter more than their MLflow run. After the execution has ended, Lambda tries again.
    if (!status && result?.ok === false) return result;
    throw failure;
  }
}

function asRequest({ detail: { executionArn, status, error, cause } }: EndedExecution) {
  const name = executionArn.slice(executionArn.lastIndexOf(':') + 1);
  return {
    run: { name },
    status,
    error: status === 'FAILED' && error ? { Error: error, Cause: cause ?? '' } : undefined,
  };
}

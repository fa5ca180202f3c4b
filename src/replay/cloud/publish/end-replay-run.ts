/**
 * Ends the MLflow run of a replay whose summary or publication failed, and records the reason. If the steps are called
 * again and succeed, the run ends as successful.
 */

import { type EndReplayRunRequest, type EndReplayRunResult, replayInputSchema } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { logger } from '../../../core/process/logging.ts';
import { findExperiment } from '../../../mlflow/experiments.ts';
import { endRun, findRun, getRun, type MlflowRun, tellFailure } from '../../../mlflow/runs.ts';
import { stopMark } from '../stop/order.ts';
import { readPlan } from '../work-bucket/stored-plan.ts';
import type { PublishDependencies, ReplayPublication } from './publish-replay.ts';
import { isLogged, raisedText, replaysExperiment, runTags } from './replay-run.ts';

interface EndReplayRunDependencies extends PublishDependencies {
  /** The experiment with the captures' traces. */
  capturesExperiment: string;
}

/** Ends the run unless it has already ended. @throws the errors of MLflow's client */
export async function endReplayRun(
  request: EndReplayRunRequest,
  deps: EndReplayRunDependencies,
): Promise<EndReplayRunResult> {
  const { name, arn } = request.run;
  const run = await runOf(name, arn, request.input, deps);
  if (!run) return { runId: null, status: null };
  const { runId } = run;
  if (run.status !== 'RUNNING') return { runId, status: run.status };
  const status = (await wasStopped(name, deps)) ? 'KILLED' : 'FAILED';
  const { rest } = await deps.mlflow();
  // First, so that a run that has ended has its reason.
  await tellFailure(rest, run, `The replay could not be completed. ${raisedText(request.unfinished)}`);
  await endRun(rest, run, { status, endMs: Date.now() });
  return { runId, status };
}

/** Finds the run that the plan names. Without a plan, since planning crashed, finds the run with the execution's tags. */
async function runOf(
  name: string,
  arn: string,
  input: unknown,
  { storage, workBucket, capturesExperiment, mlflow }: EndReplayRunDependencies,
): Promise<MlflowRun | undefined> {
  const plan = await attempt(() => readPlan(storage, workBucket, name));
  if (plan) return plan.mlflow ? getRun((await mlflow()).rest, plan.mlflow.runId) : undefined;
  const asked = replayInputSchema.safeParse(input);
  if (!asked.success || !isLogged(asked.data) || asked.data.dryRun === true) return undefined;
  const { rest } = await mlflow();
  const experiment = await findExperiment(rest, replaysExperiment(asked.data.experiment, capturesExperiment));
  return experiment && findRun(rest, experiment.id, runTags({ name, arn }));
}

/** Whether the replay was stopped. Reads the summary if it exists, else the stop order. */
async function wasStopped(name: string, { storage, workBucket }: EndReplayRunDependencies): Promise<boolean> {
  const publication = await attempt(() => storage.getJson<ReplayPublication>(workBucket, replayKeys.publication(name)));
  if (publication) return publication.content.status === 'KILLED';
  return (await attempt(() => stopMark(storage, workBucket, name))) !== undefined;
}

/** Returns `undefined` on an error, which may be the error that failed the step. The run must end anyway. */
async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    logger.warn('could not read an object for the end of the MLflow run', { error: error as Error });
    return undefined;
  }
}

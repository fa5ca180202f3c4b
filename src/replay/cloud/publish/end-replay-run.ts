/**
 * A step failed for good that the end of the replay's run in MLflow comes after, such as the summary: the run ends all the
 * same, and says why. Nothing is given up by that: the steps can be called again, and then end it as they would have.
 */

import { type EndReplayRunRequest, type EndReplayRunResult, replayInputSchema } from '../../../contract/replay.ts';
import { replayKeys } from '../../../contract/work-keys.ts';
import type { MlflowClient } from '../../../mlflow/client.ts';
import { findExperiment } from '../../../mlflow/experiments.ts';
import { endRun, findRun, getRun, type MlflowRun, tellFailure } from '../../../mlflow/runs.ts';
import { logger } from '../../../shared/logging.ts';
import type { Storage } from '../../../shared/storage.ts';
import { stopMark } from '../stop/order.ts';
import { readPlan } from '../work-bucket/stored-plan.ts';
import type { ReplayPublication } from './publish-replay.ts';
import { raisedText, replaysExperiment, runTags } from './replay-run.ts';

interface EndReplayRunDependencies {
  storage: Storage;
  workBucket: string;
  /** Name of the experiment with the captures' traces. */
  capturesExperiment: string;
  /** Called only for a replay that has a run. */
  mlflow(): Promise<MlflowClient>;
}

/** A run that has ended already is left as it is. @throws what MLflow's client throws */
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
  // First: a run that is over says why.
  await tellFailure(rest, run, `The replay was not brought to its end. ${raisedText(request.unfinished)}`);
  await endRun(rest, run, { status, endMs: Date.now() });
  return { runId, status };
}

/**
 * The run that the plan names. Where planning died before it had written its plan, or somebody has taken that away, the one
 * that carries the execution's tags.
 */
async function runOf(
  name: string,
  arn: string,
  input: unknown,
  { storage, workBucket, capturesExperiment, mlflow }: EndReplayRunDependencies,
): Promise<MlflowRun | undefined> {
  const plan = await attempt(() => readPlan(storage, workBucket, name));
  if (plan) return plan.mlflow ? getRun((await mlflow()).rest, plan.mlflow.runId) : undefined;
  const asked = replayInputSchema.safeParse(input);
  if (!asked.success || asked.data.mlflow !== true || asked.data.dryRun === true) return undefined;
  const { rest } = await mlflow();
  const experiment = await findExperiment(rest, replaysExperiment(asked.data.experiment, capturesExperiment));
  return experiment && findRun(rest, experiment.id, runTags({ name, arn }));
}

/** What the summary has said, where there is one; else whether there is an order to stop. */
async function wasStopped(name: string, { storage, workBucket }: EndReplayRunDependencies): Promise<boolean> {
  const publication = await attempt(() => storage.getJson<ReplayPublication>(workBucket, replayKeys.publication(name)));
  if (publication) return publication.content.status === 'KILLED';
  return (await attempt(() => stopMark(storage, workBucket, name))) !== undefined;
}

/** What stands in the way here may be what has failed before: the run is ended without it. */
async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    logger.warn('not read for the end of the run', { error: error as Error });
    return undefined;
  }
}

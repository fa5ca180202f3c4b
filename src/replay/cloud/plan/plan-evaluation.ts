/** Checks that the judge and MLflow are available before any capture is read, and opens the MLflow run. */

import { fitted } from '../../../captures/trace/text.ts';
import type { Storage } from '../../../core/aws/storage.ts';
import type { Execution } from '../../../core/contract/execution.ts';
import { areaOf } from '../../../core/contract/work-keys.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../../core/settings/environment.ts';
import { judgeName } from '../../../judge/judge-id.ts';
import { assertModelLives, type ModelCheck } from '../../../judge/model-check.ts';
import { priceOptions, requireKnownPrice } from '../../../judge/pricing/prices.ts';
import type { MlflowClient } from '../../../mlflow/client.ts';
import { findExperiment } from '../../../mlflow/experiments.ts';
import { endRun, findOrCreateRun, tellFailure } from '../../../mlflow/runs.ts';
import { webPageOf } from '../../../mlflow/tracking-uri.ts';
import type { PlannedJudge, PlannedMlflow } from '../work-bucket/stored-plan.ts';
import type { ReplayJob } from './input.ts';

export interface EvaluationPorts {
  environment: Pick<
    LambdaEnvironment,
    'BEDROCK_MODEL_ID' | 'EVALUATION_BUDGET_USD' | 'JUDGE_PRICES' | 'MLFLOW_EXPERIMENT_NAME'
  >;
  /** Called only for a replay with MLflow. */
  mlflow(): Promise<MlflowClient>;
  /** Called only for a replay with a judge. */
  checkJudgeModel(): Promise<ModelCheck | undefined>;
}

/** Checks the judge's model and price. @throws PermanentError `JudgePriceUnknown`, `JudgeModelGone` */
export async function planJudge(
  { judge }: ReplayJob,
  { environment, checkJudgeModel }: EvaluationPorts,
): Promise<PlannedJudge | null> {
  if (!judge) return null;
  const { BEDROCK_MODEL_ID: model, EVALUATION_BUDGET_USD: dailyUsd } = environment;
  requireKnownPrice(model, Math.max(dailyUsd, judge.budgetUsd), priceOptions(environment));
  const check = await checkJudgeModel();
  assertModelLives(check);
  return { model: judgeName(model), ...judge, ...(check === undefined ? {} : { warning: check.message }) };
}

/** Step Functions' limit. */
const MAX_NAME_CHARS = 80;

/** Finds the experiments. @throws PermanentError `RunNameTaken`, and the errors of MLflow's client */
export async function findMlflowPlace(
  { mlflow: wanted }: ReplayJob,
  { environment, mlflow }: EvaluationPorts,
  { storage, workBucket, run }: { storage: Storage; workBucket: string; run: string },
) {
  if (!wanted) return undefined;
  // Cuts the end of a longer name, and adds a digest that keeps different names different.
  const monitoringRun = fitted(`replay-${run}`, MAX_NAME_CHARS, '-');
  await assertNameFree(storage, workBucket, monitoringRun);
  const { MLFLOW_EXPERIMENT_NAME: captures } = environment;
  const client = await mlflow();
  const { rest } = client;
  // Detects a server that is too old for traces before the first request, rather than after the last.
  const experiment = await client.resolveExperiment(wanted.experiment ?? `${captures}-replays`);
  const capturesExperimentId = (await findExperiment(rest, captures))?.id;
  return {
    /** Finds or creates the run, so that a retry of planning does not create a second one. */
    openRun: async (execution: Execution, startMs: number): Promise<PlannedMlflow> => {
      const { name, arn } = execution;
      // Executions of another stack may have the same name.
      const identity = { replay_run: name, replay_execution: arn };
      const tags = { ...identity, 'mlflow.source.name': arn, 'mlflow.source.type': 'JOB' };
      const { runId } = await findOrCreateRun(rest, experiment.id, { name, startMs, tags });
      const url = webPageOf(client.target);
      return { experiment, runId, url, capturesExperimentId, monitoringRun };
    },
    /** Ends the run if planning fails. */
    giveUp: async ({ runId }: PlannedMlflow, status: 'FAILED' | 'KILLED', why: string, endMs: number) => {
      await tellFailure(rest, runId, why);
      await endRun(rest, runId, { status, endMs });
    },
  };
}

/** Names are free again after 90 days, while quarantined lines of an earlier replay are still there. */
async function assertNameFree(storage: Storage, bucket: string, run: string): Promise<void> {
  for await (const { key } of storage.list(bucket, areaOf('quarantine', run))) {
    throw new PermanentError('RunNameTaken', 'There are quarantined lines of an earlier replay of that name', {
      got: run,
      expected: 'a name that no replay of the last year had',
      where: `s3://${bucket}/${key}`,
    });
  }
}

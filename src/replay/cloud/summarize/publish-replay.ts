/** Logs the results of a cloud replay to its MLflow run, and ends it. */

import { buffer } from 'node:stream/consumers';
import type { Work } from '../../../core/aws/storage.ts';
import type { SummarizeReplayResult } from '../../../core/contract/replay.ts';
import { areaOf, replayKeys } from '../../../core/contract/work-keys.ts';
import type { MlflowClient } from '../../../mlflow/client.ts';
import { putRunFiles } from '../../../mlflow/run-files.ts';
import { endRun, getRun, logRun, type RunContent, tellFailure } from '../../../mlflow/runs.ts';
import type { PlannedMlflow, StoredPlan } from '../work-bucket/stored-plan.ts';

/** `publication.json`, the last object of a summary. */
export interface ReplayPublication {
  mlflow: PlannedMlflow;
  content: RunContent;
  /** Reason why the execution fails. Absent if it succeeds. */
  failure?: string | undefined;
}

export interface PublishDependencies extends Work {
  /** Called only for a replay with an MLflow run. */
  mlflow(): Promise<MlflowClient>;
}

/** Publishes a replay with a summary. Idempotent. @throws the errors of MLflow's client */
export async function publishReplay(
  run: string,
  { storage, workBucket: bucket, mlflow }: PublishDependencies,
): Promise<SummarizeReplayResult['mlflow']> {
  const publication = (await storage.getJson(bucket, replayKeys.publication(run))) as ReplayPublication;
  const { experiment, runId } = publication.mlflow;
  const { rest } = await mlflow();
  const made = await getRun(rest, runId);
  await logRun(rest, runId, publication.content);
  const prefix = areaOf('replayResults', run);
  const files = (await Array.fromAsync(storage.list(bucket, prefix))).map((object) => ({
    name: object.key.slice(prefix.length),
    size: object.size,
    read: async () => buffer(await storage.read(object)),
  }));
  const leftOut = await putRunFiles(rest, made, files, async () => storage.s3);
  await tellFailure(rest, runId, publication.failure);
  // Last, so that a run that has ended is complete.
  await endRun(rest, runId, publication.content);
  return { experiment: { id: experiment.id, name: experiment.name }, runId, leftOut };
}

/**
 * Ends the run of a replay that could not be completed, unless it has already ended.
 *
 * @throws the errors of the storage and of MLflow's client
 */
export async function endUnfinished(
  run: string,
  status: 'KILLED' | 'FAILED',
  why: string,
  { storage, workBucket, mlflow }: PublishDependencies,
): Promise<void> {
  // Also a plan that this version of the stack cannot continue names its run.
  const plan = await storage.getJson<Partial<StoredPlan>>(workBucket, replayKeys.plan(run));
  if (!plan?.mlflow) return;
  const { rest } = await mlflow();
  const made = await getRun(rest, plan.mlflow.runId);
  if (made.status !== 'RUNNING') return;
  // First, so that a run that has ended has its reason.
  await tellFailure(rest, made.runId, `The replay could not be completed. ${why}`);
  await endRun(rest, made.runId, { status, endMs: Date.now() });
}

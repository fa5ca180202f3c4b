/** PublishReplay: logs the results of a cloud replay to its MLflow run. Idempotent. */

import { buffer } from 'node:stream/consumers';
import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import type { PublishReplayRequest, PublishReplayResult } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import type { MlflowClient } from '../../../mlflow/client.ts';
import { putRunFiles, type ResultFile } from '../../../mlflow/run-files.ts';
import { endRun, getRun, logRun, tellFailure } from '../../../mlflow/runs.ts';
import type { ReplayRunContent } from '../../publish/run-content.ts';
import { RESULT_FILES } from '../../results/result-set.ts';
import type { PlannedMlflow } from '../work-bucket/stored-plan.ts';

/** `publication.json`, written by SummarizeReplay. */
export interface ReplayPublication {
  mlflow: PlannedMlflow;
  content: ReplayRunContent;
  /** Reason why the execution fails. Absent if it succeeds. */
  failure?: string;
}

export interface PublishDependencies {
  storage: Storage;
  workBucket: string;
  /** Called only for a replay with an MLflow run. */
  mlflow(): Promise<MlflowClient>;
}

/** @throws PermanentError `ReplayNotSummarized`, and the errors of MLflow's client */
export async function publishReplay(
  { run }: PublishReplayRequest,
  { storage, workBucket: bucket, mlflow }: PublishDependencies,
): Promise<PublishReplayResult> {
  const key = replayKeys.publication(run.name);
  const publication = await storage.getJson<ReplayPublication>(bucket, key);
  if (!publication) {
    throw new PermanentError('ReplayNotSummarized', 'The replay has no summary to publish', {
      got: run.name,
      where: `s3://${bucket}/${key}`,
    });
  }
  const { experiment, runId } = publication.mlflow;
  const { rest } = await mlflow();
  const made = await getRun(rest, runId);
  await logRun(rest, made, publication.content);
  const files: ResultFile[] = [];
  const prefix = replayKeys.resultPrefix(run.name);
  for await (const object of storage.list(bucket, prefix)) {
    if (RESULT_FILES.has(object.key.slice(prefix.length))) files.push(resultFile(storage, object, prefix));
  }
  const leftOut = await putRunFiles(rest, made, files, async () => storage.s3);
  await tellFailure(rest, made, publication.failure);
  // Last, so that a run that has ended is complete.
  await endRun(rest, made, publication.content);
  return { experiment: { id: experiment.id, name: experiment.name }, runId, leftOut };
}

const resultFile = (storage: Storage, object: ObjectFacts, prefix: string): ResultFile => ({
  name: object.key.slice(prefix.length),
  size: object.size,
  read: async () => buffer(await storage.read(object)),
});

/**
 * PublishReplay: figures, parameters and files of a finished replay → its MLflow run. If the request reports that a step failed
 * permanently, it only ends that run.
 */

import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import {
  type EndReplayRunRequest,
  type EndReplayRunResult,
  endReplayRunRequestSchema,
  type PublishReplayRequest,
  type PublishReplayResult,
} from '../../src/core/contract/replay.ts';
import { countingThrottles, logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { endReplayRun } from '../../src/replay/cloud/publish/end-replay-run.ts';
import { publishReplay } from '../../src/replay/cloud/publish/publish-replay.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);

const dependencies = {
  storage,
  workBucket: environment.WORK_BUCKET,
  capturesExperiment: environment.MLFLOW_EXPERIMENT_NAME,
  mlflow,
};

export const handler = logged<PublishReplayRequest | EndReplayRunRequest, PublishReplayResult | EndReplayRunResult>(
  countingThrottles(environment.STACK_PREFIX, async (request) =>
    'unfinished' in request
      ? endReplayRun(endReplayRunRequestSchema.parse(request), dependencies)
      : publishReplay(request, dependencies),
  ),
);

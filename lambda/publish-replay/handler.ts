/**
 * PublishReplay: figures, parameters and files of a replay that is over → its run in MLflow. With what has failed for good it
 * only ends that run.
 */
import { readEnvironment } from '../common/environment.ts';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { connectMlflow } from '../mlflow/connect.ts';
import { endReplayRun } from '../replay/cloud/end-replay-run.ts';
import { publishReplay } from '../replay/cloud/publish-replay.ts';
import {
  type EndReplayRunRequest,
  type EndReplayRunResult,
  endReplayRunRequestSchema,
  type PublishReplayRequest,
  type PublishReplayResult,
} from '../replay-contract.ts';

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
  async (request) =>
    'unfinished' in request
      ? endReplayRun(endReplayRunRequestSchema.parse(request), dependencies)
      : publishReplay(request, dependencies),
);

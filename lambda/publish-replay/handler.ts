/** PublishReplay: figures, parameters and files of a replay that is over → its run in MLflow. */
import { readEnvironment } from '../common/environment.ts';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { connectMlflow } from '../mlflow/connect.ts';
import { publishReplay } from '../replay/cloud/publish-replay.ts';
import type { PublishReplayRequest, PublishReplayResult } from '../replay-contract.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);

export const handler = logged<PublishReplayRequest, PublishReplayResult>((request) =>
  publishReplay(request, { storage, workBucket: environment.WORK_BUCKET, mlflow }),
);

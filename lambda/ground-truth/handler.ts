/** GroundTruth: label files → labels joined to predictions, quality, and expectations in MLflow. It is called until it is done. */
import type { Context } from 'aws-lambda';
import { connectRedaction } from '../../src/captures/redact/redaction.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { TruthRequest, TruthResult } from '../../src/core/contract/ground-truth.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { joinLabels } from '../../src/ground-truth/join/join-labels.ts';
import { readLabelFiles } from '../../src/ground-truth/labels/read-files.ts';
import { measureLabels } from '../../src/ground-truth/measure/publish.ts';
import { publishLabels } from '../../src/ground-truth/publish/publish-labels.ts';
import { runGroundTruth } from '../../src/ground-truth/run.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { Lock } from '../../src/limits/lock.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const limits = connectLimits(environment);
const mlflow = connectMlflow(environment, storage.s3, limits.mlflow);
const table = limitsTable(environment);
const redacted = connectRedaction(environment, true);
const steps = { read: readLabelFiles, join: joinLabels, measure: measureLabels, note: publishLabels };

const handle = async (request: TruthRequest, context: Context): Promise<TruthResult> =>
  runGroundTruth(request, {
    storage,
    workBucket: environment.WORK_BUCKET,
    environment: await redacted(),
    run: request.run,
    scorers: request.scorers,
    remainingMs: () => context.getRemainingTimeInMillis(),
    mlflow,
    steps,
    lock: new Lock({ table, owner: request.run.name }),
  });

export const handler = logged(environment.STACK_PREFIX, handle);

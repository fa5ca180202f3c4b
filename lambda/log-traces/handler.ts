/** LogTraces: one chunk of capture lines → traces in MLflow. A direct invocation processes a whole capture file. */

import { connectRedaction } from '../../src/captures/redact/redaction.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { sumLogCounts } from '../../src/monitoring/counts.ts';
import { logChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { handleChunks } from '../../src/monitoring/invocation.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const limits = connectLimits(environment);
const mlflow = connectMlflow(environment, storage.s3, limits.mlflow);
const redacted = connectRedaction(environment);
const connected = { storage, redacted, limits, mlflow, table: limitsTable(environment) };

export const handler = logged<unknown, unknown>(environment.STACK_PREFIX, (event, context) =>
  handleChunks(event, context, connected, logChunk, sumLogCounts),
);

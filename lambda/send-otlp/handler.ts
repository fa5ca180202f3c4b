/** SendOtlp: the queued events of new parts of the ledger → spans and verdicts at an OpenTelemetry receiver. */
import { connectRedaction as redaction } from '../../src/captures/redact/redaction.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { OtlpMetric } from '../../src/core/contract/metric-names.ts';
import { readOtlpEnvironment } from '../../src/core/settings/environment.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { connectOtlp } from '../../src/monitoring/otlp/receiver.ts';
import { sendParts } from '../../src/monitoring/otlp/send-parts.ts';
import { queueHandler } from '../../src/monitoring/queued.ts';

const environment = readOtlpEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3, connectLimits(environment).mlflow);
const connected = { environment, storage, redaction, mlflow, table: limitsTable(environment) };

export const handler = queueHandler<OtlpMetric>(environment, storage, (event, queue) =>
  sendParts(event, { ...connected, ...queue, connect: () => connectOtlp(environment, queue.count) }),
);

/** SendOtlp: the queued events of new parts of the ledger → spans and verdicts at an OpenTelemetry receiver. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { connectRedaction as redaction } from '../../src/captures/redact/redaction.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { OtlpMetric } from '../../src/core/contract/metric-names.ts';
import { countingThrottles, createMetrics, logged } from '../../src/core/process/logging.ts';
import { readOtlpEnvironment } from '../../src/core/settings/environment.ts';
import { connectLimits } from '../../src/limits/limits.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { connectOtlp } from '../../src/monitoring/otlp/receiver.ts';
import { sendParts } from '../../src/monitoring/otlp/send-parts.ts';
import type { QueueDependencies } from '../../src/monitoring/queued.ts';

const environment = readOtlpEnvironment();
const storage = new Storage(createS3Client());
const metrics = createMetrics(environment.STACK_PREFIX);
const mlflow = connectMlflow(environment, storage.s3, connectLimits(environment).mlflow);
const connected = { environment, storage, redaction, mlflow, table: limitsTable(environment) };
const count = (metric: OtlpMetric, value: number) => metrics.addMetric(metric, MetricUnit.Count, value);
const connect = () => connectOtlp(environment, count);

const sqs: QueueDependencies['sqs'] = (operation, input) => callAws(storage.s3, 'sqs', operation, input);

export const handler = logged<SQSEvent, SQSBatchResponse>(
  countingThrottles(environment.STACK_PREFIX, (event) =>
    sendParts(event, { ...connected, connect, count, sqs }).finally(() => metrics.publishStoredMetrics()),
  ),
);

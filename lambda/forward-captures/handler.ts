/** ForwardCaptures: the queued events of new capture files → each file to Arthur, once. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { createMetrics, logged } from '../../src/core/process/logging.ts';
import { readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectArthur } from '../../src/monitoring/arthur/arthur.ts';
import { forwardFiles } from '../../src/monitoring/arthur/forward-files.ts';

const environment = readForwardEnvironment();
const storage = new Storage(createS3Client());
const metrics = createMetrics(environment.STACK_PREFIX);
const table = limitsTable(environment);
const post = connectArthur(environment);

export const handler = logged<SQSEvent, SQSBatchResponse>(async (event, context) => {
  try {
    return await forwardFiles(event, {
      ...{ environment, storage, table, post },
      remainingMs: () => context.getRemainingTimeInMillis(),
      sqs: (operation, input) => callAws(storage.s3, 'sqs', operation, input),
      count: (metric, value) => metrics.addMetric(metric, MetricUnit.Count, value),
    });
  } finally {
    metrics.publishStoredMetrics();
  }
});

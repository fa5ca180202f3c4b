/** ForwardCaptures: the queued events of new capture files → each file to Arthur, once. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import type { SQSBatchResponse } from 'aws-lambda';
import { hideMessage, sendToQueue } from '../../src/core/aws/queue.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { createMetrics, logged } from '../../src/core/process/logging.ts';
import { readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { captureScope } from '../../src/judge/capture-scope.ts';
import { createHttpTransport } from '../../src/mlflow/transport.ts';
import { postToArthur } from '../../src/monitoring/arthur/arthur.ts';
import { type ForwardMessage, forwardFiles } from '../../src/monitoring/arthur/forward-files.ts';
import { loadToken, withToken } from '../../src/monitoring/arthur/token.ts';

const environment = readForwardEnvironment();
const { FORWARD_QUEUE: queue, FORWARD_DEAD_LETTERS: deadLetters } = environment;
const arthur = { host: environment.ARTHUR_HOST, model: environment.ARTHUR_MODEL_ID };
const storage = new Storage(createS3Client());
const metrics = createMetrics(environment.STACK_PREFIX);
const authorized = withToken(() => loadToken(environment.ARTHUR_SECRET_ARN));

export const handler = logged<{ Records: ForwardMessage[] }, SQSBatchResponse>(async ({ Records }, context) => {
  // A connection that outlives the invocation breaks while the function is frozen: then it is unknown whether the upload arrived.
  const transport = createHttpTransport();
  try {
    return await forwardFiles(Records, {
      storage,
      workBucket: environment.WORK_BUCKET,
      scope: { ...captureScope(environment), prefix: environment.ARTHUR_S3_PREFIX },
      post: ({ key, size, open }, timeoutMs) =>
        authorized(async (token) =>
          postToArthur(transport, arthur, token, { key, size, content: await open() }, timeoutMs),
        ),
      remainingMs: () => context.getRemainingTimeInMillis(),
      bury: (body, attributes) => sendToQueue(storage.s3, deadLetters, body, attributes),
      later: (receipt, seconds) => hideMessage(storage.s3, queue, receipt, seconds),
      count: (metric, value) => metrics.addMetric(metric, MetricUnit.Count, value),
      firstWaitSeconds: environment.FORWARD_RETRY_SECONDS,
    });
  } finally {
    transport.close();
    metrics.publishStoredMetrics();
  }
});

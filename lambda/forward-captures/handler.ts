/** ForwardCaptures: the queued events of new capture files → each file to Arthur, once. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { postToArthur } from '../../src/forward/arthur.ts';
import { type ForwardMessage, forwardMessages } from '../../src/forward/forward-messages.ts';
import { loadToken, withToken } from '../../src/forward/token.ts';
import { createHttpTransport } from '../../src/mlflow/transport.ts';
import { captureScope } from '../../src/monitoring/capture-scope.ts';
import type { FailedEvents } from '../../src/monitoring/start-run.ts';
import { readForwardEnvironment } from '../../src/settings/environment.ts';
import { logged } from '../../src/shared/logging.ts';
import { createMetrics } from '../../src/shared/metrics.ts';
import { hideMessage, sendToQueue } from '../../src/shared/queue.ts';
import { createS3Client, Storage } from '../../src/shared/storage.ts';

const environment = readForwardEnvironment();
const { FORWARD_QUEUE: queue, FORWARD_DEAD_LETTERS: deadLetters } = environment;
const arthur = { host: environment.ARTHUR_HOST, model: environment.ARTHUR_MODEL_ID };
const storage = new Storage(createS3Client());
const metrics = createMetrics(environment.STACK_PREFIX);
const authorized = withToken(() => loadToken(environment.ARTHUR_SECRET_ARN));

export const handler = logged<{ Records: ForwardMessage[] }, FailedEvents>(async ({ Records }, context) => {
  // A connection that outlives the invocation breaks while the function is frozen: then nobody knows whether an upload was heard.
  const transport = createHttpTransport();
  try {
    return await forwardMessages(Records, {
      storage,
      workBucket: environment.WORK_BUCKET,
      scope: { ...captureScope(environment), prefix: environment.ARTHUR_S3_PREFIX },
      post: ({ key, size, open }, timeoutMs) =>
        authorized(async (token) =>
          postToArthur(transport, arthur, token, { key, size, content: await open() }, timeoutMs),
        ),
      remainingMs: () => context.getRemainingTimeInMillis(),
      bury: (body, attributes) => sendToQueue(deadLetters, body, attributes),
      later: (receipt, seconds) => hideMessage(queue, receipt, seconds),
      count: (metric, value) => metrics.addMetric(metric, MetricUnit.Count, value),
      firstWaitSeconds: environment.FORWARD_RETRY_SECONDS,
    });
  } finally {
    transport.close();
    metrics.publishStoredMetrics();
  }
});

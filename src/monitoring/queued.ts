/** Works on the messages of a queue. After a failure, SQS delivers a message again for a day, with growing waits. */
import { BatchProcessor, EventType, processPartialResponse } from '@aws-lambda-powertools/batch';
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { callAws } from '../core/aws/aws-json.ts';
import type { Storage } from '../core/aws/storage.ts';
import { PermanentError, RetryableError } from '../core/errors/errors.ts';
import { createMetrics, logged, logger } from '../core/process/logging.ts';
import type { ForwardEnvironment } from '../core/settings/environment.ts';
import { fileIn } from './start-run.ts';

export interface QueueDependencies {
  environment: Pick<ForwardEnvironment, 'QUEUE_URL' | 'DEAD_LETTERS_URL' | 'RETRY_SECONDS'>;
  /** Calls an operation of SQS. */
  sqs(operation: 'SendMessage' | 'ChangeMessageVisibility', input: object): Promise<unknown>;
  /** Counts an attempt at a message that has waited for long. */
  late(): void;
  /** The verb for the log, such as `forwarded`. */
  done: string;
}

/** What the handler of a queue gives to its work. */
type Queue<Metric> = Pick<QueueDependencies, 'sqs'> & {
  /** Until Lambda ends the function. */
  remainingMs(): number;
  count(metric: Metric, value: number): void;
};

/** Makes the handler of a function that reads a queue. Its counts are published with each invocation. */
export function queueHandler<Metric extends string>(
  { STACK_PREFIX }: Pick<ForwardEnvironment, 'STACK_PREFIX'>,
  { s3 }: Storage,
  handle: (event: SQSEvent, queue: Queue<Metric>) => Promise<SQSBatchResponse>,
) {
  const metrics = createMetrics(STACK_PREFIX);
  const sqs: QueueDependencies['sqs'] = (operation, input) => callAws(s3, 'sqs', operation, input);
  const count = (metric: Metric, value: number) => metrics.addMetric(metric, MetricUnit.Count, value);
  return logged<SQSEvent, SQSBatchResponse>(STACK_PREFIX, (event, context) =>
    handle(event, { sqs, count, remainingMs: () => context.getRemainingTimeInMillis() }).finally(() =>
      metrics.publishStoredMetrics(),
    ),
  );
}

const LONGEST_WAIT_SECONDS = 3600;
/**
 * Maximum of `Retry-After`. All deliveries then take a week, and the dead letter has another week, because SQS counts
 * its two weeks from the event on.
 */
const LONGEST_ASKED_SECONDS = 6 * 3600;
/**
 * A message that has waited for two hours is late. SQS's own age of the oldest message excludes messages that were
 * received three times.
 */
const LATE_MS = 7_200_000;

/**
 * Does the work on each message of an event. A permanent error makes a message a dead letter at once.
 *
 * @returns the messages that the queue delivers again
 *
 * @example
 *     return eachMessage(event, deps, ({ body }) => upload(JSON.parse(body)));
 */
export function eachMessage(
  event: SQSEvent,
  deps: QueueDependencies,
  work: (message: SQSRecord) => Promise<void>,
): Promise<SQSBatchResponse> {
  const handle = async (message: SQSRecord): Promise<void> => {
    const key = fileIn(message.body)?.key;
    try {
      await work(message).catch((error: Error) => {
        if (!(error instanceof PermanentError)) throw error;
        logger.error(`A file cannot be ${deps.done}`, { key, error });
        return bury(message, error, deps);
      });
    } catch (error) {
      logger.error(`A file was not ${deps.done} yet`, { key, error: error as Error });
      await postpone(message, error, deps);
      throw error;
    }
  };
  return processPartialResponse(event, handle, new BatchProcessor(EventType.SQS), { throwOnFullBatchFailure: false });
}

export function notAnEvent(): PermanentError {
  const expected = 'an event "Object Created" of S3, as JSON';
  return new PermanentError('NotAnEvent', 'The message is not the event of a file of this function', { expected });
}

/**
 * Makes a message a dead letter immediately. SQS itself would wait for thirty deliveries, which would be thirty
 * attempts.
 */
async function bury({ body }: SQSRecord, error: Error, { environment, sqs }: QueueDependencies): Promise<void> {
  const attribute = (text: string) => ({ DataType: 'String', StringValue: text.toWellFormed() });
  const cause = { ErrorName: attribute(error.name), ErrorMessage: attribute(error.message) };
  await sqs('SendMessage', { QueueUrl: environment.DEAD_LETTERS_URL, MessageBody: body, MessageAttributes: cause });
}

/**
 * Hides a message in the queue, longer each time, and at least for the `Retry-After` of the error. If that fails, the
 * message returns after the queue's own time-out.
 */
async function postpone(message: SQSRecord, error: unknown, deps: QueueDependencies): Promise<void> {
  const { QUEUE_URL: QueueUrl, RETRY_SECONDS: first } = deps.environment;
  const { SentTimestamp: sent, ApproximateReceiveCount: receives } = message.attributes;
  if (Date.now() - Number(sent) > LATE_MS) deps.late();
  const asked = error instanceof RetryableError ? (error.retryAfterMs ?? 0) / 1000 : 0;
  const own = Math.min(LONGEST_WAIT_SECONDS, first * 2 ** (Number(receives) - 1));
  const VisibilityTimeout = Math.ceil(Math.max(own, Math.min(LONGEST_ASKED_SECONDS, asked)));
  const { receiptHandle: ReceiptHandle } = message;
  await deps.sqs('ChangeMessageVisibility', { QueueUrl, ReceiptHandle, VisibilityTimeout });
}

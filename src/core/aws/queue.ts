/** The requests to SQS of a function that reads a queue. */
import { RetryableError, saidBy } from '../errors/errors.ts';
import { callAws } from './aws-json.ts';
import type { AwsClient } from './aws-post.ts';

/** The longest that SQS hides a message, without the time that it has been hidden for. */
const MOST_HIDDEN_SECONDS = 11 * 3600;

/**
 * Sends a message.
 *
 * @param attributes texts that come with it
 * @throws RetryableError `QueueUnavailable`
 */
export function sendToQueue(
  client: AwsClient,
  queueUrl: string,
  body: string,
  attributes: Record<string, string>,
): Promise<void> {
  const texts = Object.entries(attributes).map(([name, text]) => [name, { DataType: 'String', StringValue: text }]);
  return call(client, queueUrl, 'SendMessage', { MessageBody: body, MessageAttributes: Object.fromEntries(texts) });
}

/** Hides a received message for these seconds from now on. @throws RetryableError `QueueUnavailable` */
export const hideMessage = (
  client: AwsClient,
  queueUrl: string,
  receiptHandle: string,
  seconds: number,
): Promise<void> =>
  call(client, queueUrl, 'ChangeMessageVisibility', {
    ReceiptHandle: receiptHandle,
    VisibilityTimeout: Math.min(MOST_HIDDEN_SECONDS, Math.ceil(seconds)),
  });

async function call(client: AwsClient, queueUrl: string, operation: string, input: object): Promise<void> {
  await callAws(client, 'sqs', operation, { QueueUrl: queueUrl, ...input }).catch((error: unknown) => {
    const facts = { got: saidBy(error), where: queueUrl };
    throw new RetryableError('QueueUnavailable', `SQS did not take ${operation}`, facts, error);
  });
}

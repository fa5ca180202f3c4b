/** The requests to SQS of a function that reads a queue. */

import { RetryableError } from '../errors/errors.ts';
import { signedPost } from './signed-post.ts';

/** The longest that SQS hides a message, without the time that it has been hidden for. */
const MOST_HIDDEN_SECONDS = 11 * 3600;

/**
 * Sends a message.
 *
 * @param attributes texts that come with it
 * @throws RetryableError `QueueUnavailable`
 */
export function sendToQueue(queueUrl: string, body: string, attributes: Record<string, string>): Promise<void> {
  const texts = Object.entries(attributes).map(([name, text]) => [name, { DataType: 'String', StringValue: text }]);
  return call(queueUrl, 'SendMessage', { MessageBody: body, MessageAttributes: Object.fromEntries(texts) });
}

/** Hides a received message for these seconds from now on. @throws RetryableError `QueueUnavailable` */
export const hideMessage = (queueUrl: string, receiptHandle: string, seconds: number): Promise<void> =>
  call(queueUrl, 'ChangeMessageVisibility', {
    ReceiptHandle: receiptHandle,
    VisibilityTimeout: Math.min(MOST_HIDDEN_SECONDS, Math.ceil(seconds)),
  });

async function call(queueUrl: string, operation: string, input: object): Promise<void> {
  const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${operation}` };
  const place = { service: 'sqs', region: process.env.AWS_REGION ?? '', url: queueUrl } as const;
  const post = { headers, body: JSON.stringify({ QueueUrl: queueUrl, ...input }) };
  await signedPost(place, post, /"__type":"(?:[\w.]+#)?(\w{1,80})"/, (got, cause) => {
    return new RetryableError('QueueUnavailable', `SQS did not take ${operation}`, { got, where: queueUrl }, cause);
  });
}

/** The requests to SQS of a function that reads a queue. */

import { RetryableError, saidBy, shownOf, Words } from '../errors/errors.ts';
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
  const failed = (got: string, cause?: unknown): RetryableError =>
    new RetryableError('QueueUnavailable', `SQS did not take ${operation}`, { got, where: queueUrl }, cause);
  const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${operation}` };
  const { ok, status, text } = await signedPost(
    { service: 'sqs', region: process.env.AWS_REGION ?? '', url: queueUrl },
    { headers, body: JSON.stringify({ QueueUrl: queueUrl, ...input }) },
  ).catch((error: Error) => {
    throw failed(saidBy(error), error);
  });
  const code = /"__type":"(?:[\w.]+#)?(\w{1,80})"/.exec(text)?.[1];
  if (!ok) throw failed(shownOf({ status, code, text }), new Words(text));
}

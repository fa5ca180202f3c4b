/** Publishes to an SNS topic. */

import { PermanentError, saidBy, shownOf, Words } from '../errors/errors.ts';
import { awsUrl } from './aws-url.ts';
import { signedPost } from './signed-post.ts';

/**
 * Publishes a message. See https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
 *
 * @param subject less than 100 characters of ASCII
 * @param body a text for each protocol, and `default`
 * @throws PermanentError `MessageNotSent`
 */
export async function publishToTopic(
  topicArn: string,
  { subject, body }: { subject: string; body: Readonly<Record<string, string>> },
): Promise<void> {
  const [, , , region = ''] = topicArn.split(':');
  const form = new URLSearchParams({
    Action: 'Publish',
    Version: '2010-03-31',
    TopicArn: topicArn,
    Subject: subject,
    MessageStructure: 'json',
    Message: JSON.stringify(body),
  }).toString();
  const failed = (got: string, cause?: unknown): PermanentError =>
    new PermanentError('MessageNotSent', 'A message to the topic was not accepted', { got, where: topicArn }, cause);
  const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };
  const { ok, status, text } = await signedPost(
    { service: 'sns', region, url: awsUrl('sns', region) },
    { headers, body: form },
  ).catch((error: Error) => {
    throw failed(saidBy(error), error);
  });
  const code = /<Code>(\w{1,60})<\/Code>/.exec(text)?.[1];
  if (!ok) throw failed(shownOf({ status, code, text }), new Words(text));
}

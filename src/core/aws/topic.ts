/** Publishes to an SNS topic. */
import { PermanentError, saidBy } from '../errors/errors.ts';
import type { AwsClient } from './aws-post.ts';
import { queryAws } from './aws-query.ts';

/**
 * Publishes a message. See https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
 *
 * @param subject less than 100 characters of ASCII
 * @param body a text for each protocol, and `default`
 * @throws PermanentError `MessageNotSent`
 */
export async function publishToTopic(
  client: AwsClient,
  TopicArn: string,
  { subject: Subject, body }: { subject: string; body: Readonly<Record<string, string>> },
): Promise<void> {
  const input = { TopicArn, Subject, MessageStructure: 'json', Message: JSON.stringify(body) };
  await queryAws(client, 'sns', 'Publish', input).catch((error: unknown) => {
    const facts = { got: saidBy(error), where: TopicArn };
    throw new PermanentError('MessageNotSent', 'A message to the topic was not accepted', facts, error);
  });
}

/**
 * Signed POSTs to AWS services whose clients would be in a bundle for a single request, such as one that publishes to
 * an SNS topic.
 */

import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { PermanentError, type RetryableError, saidBy, shownOf, Words } from '../errors/errors.ts';
import { awsUrl } from './aws-url.ts';
import { signPost } from './signing.ts';

const TIMEOUT_MS = 10_000;

/**
 * Posts to the root of a service with the credentials of the environment.
 *
 * @param url of the service; `AWS_ENDPOINT_URL` takes its place
 * @param errorCode finds the name of an error in a reply
 * @param failed the error to throw if there is no whole reply in 10 s, or one that the service refuses
 */
export async function signedPost(
  { service, region, url }: { service: 'sns' | 'sqs'; region: string; url: string },
  { headers: given, body }: { headers: Record<string, string>; body: string },
  errorCode: RegExp,
  failed: (got: string, cause: unknown) => PermanentError | RetryableError,
): Promise<void> {
  const send = async (): Promise<{ ok: boolean; status: number; text: string }> => {
    const { AWS_ENDPOINT_URL, [`AWS_ENDPOINT_URL_${service.toUpperCase()}`]: own } = process.env;
    const root = new URL('/', own || AWS_ENDPOINT_URL || url);
    const { headers } = await signPost({ credentials: defaultProvider(), region, service }, root, given, body);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const reply = await fetch(root, { method: 'POST', headers, body, signal });
    return { ok: reply.ok, status: reply.status, text: await reply.text() };
  };
  const { ok, status, text } = await send().catch((error: Error) => {
    throw failed(saidBy(error), error);
  });
  if (!ok) throw failed(shownOf({ status, code: errorCode.exec(text)?.[1], text }), new Words(text));
}

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
  const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };
  const place = { service: 'sns', region, url: awsUrl('sns', region) } as const;
  await signedPost(place, { headers, body: form }, /<Code>(\w{1,60})<\/Code>/, (got, cause) => {
    const message = 'A message to the topic was not accepted';
    return new PermanentError('MessageNotSent', message, { got, where: topicArn }, cause);
  });
}

/**
 * A signed POST to an AWS service whose client would be in a bundle for a single request.
 * Publishes to an SNS topic.
 */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { SignatureV4 } from '@smithy/signature-v4';
import { PermanentError, saidBy, shownOf, Words } from '../errors/errors.ts';
import { NodeSha256 } from '../values/sha256.ts';
import { awsUrl } from './aws-url.ts';

const TIMEOUT_MS = 10_000;

/**
 * Posts to the root of a service with the credentials of the environment.
 *
 * @param url of the service; `AWS_ENDPOINT_URL` takes its place
 * @throws Error of `fetch` if there is no whole reply in 10 s
 */
export async function signedPost(
  { service, region, url }: { service: 'sns' | 'sqs'; region: string; url: string },
  { headers: given, body }: { headers: Record<string, string>; body: string },
): Promise<{ ok: boolean; status: number; text: string }> {
  const { AWS_ENDPOINT_URL, [`AWS_ENDPOINT_URL_${service.toUpperCase()}`]: own } = process.env;
  const root = new URL('/', own || AWS_ENDPOINT_URL || url);
  const signer = new SignatureV4({ credentials: defaultProvider(), region, service, sha256: NodeSha256 });
  const { headers } = await signer.sign({
    method: 'POST',
    protocol: root.protocol,
    hostname: root.hostname,
    path: '/',
    query: {},
    headers: { host: root.host, ...given },
    body,
  });
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const reply = await fetch(root, { method: 'POST', headers, body, signal });
  return { ok: reply.ok, status: reply.status, text: await reply.text() };
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

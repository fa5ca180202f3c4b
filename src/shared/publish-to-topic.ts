/** Publishes to an SNS topic, by one signed request: a client of SNS would be in the bundle for nothing else. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { SignatureV4 } from '@smithy/signature-v4';
import { PermanentError } from './errors.ts';
import { NodeSha256 } from './sha256.ts';

const TIMEOUT_MS = 10_000;

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
  const [, partition = 'aws', , region = ''] = topicArn.split(':');
  const suffix = partition === 'aws-cn' ? 'amazonaws.com.cn' : 'amazonaws.com';
  const { AWS_ENDPOINT_URL_SNS, AWS_ENDPOINT_URL } = process.env;
  const url = new URL(AWS_ENDPOINT_URL_SNS || AWS_ENDPOINT_URL || `https://sns.${region}.${suffix}`);
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
  try {
    const signer = new SignatureV4({ credentials: defaultProvider(), region, service: 'sns', sha256: NodeSha256 });
    const { headers } = await signer.sign({
      method: 'POST',
      protocol: url.protocol,
      hostname: url.hostname,
      path: '/',
      query: {},
      headers: { host: url.host, 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      body: form,
    });
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const reply = await fetch(new URL('/', url), { method: 'POST', headers, body: form, signal });
    const text = await reply.text();
    if (!reply.ok) throw failed(`${reply.status} ${/<Code>(\w{1,60})<\/Code>/.exec(text)?.[1] ?? ''}`.trim());
  } catch (error) {
    if (error instanceof PermanentError) throw error;
    throw failed((error as Error).name, error);
  }
}

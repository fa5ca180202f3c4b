/** A signed POST to an AWS service whose client would be in a bundle for a single request. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { SignatureV4 } from '@smithy/signature-v4';
import { NodeSha256 } from '../values/sha256.ts';

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

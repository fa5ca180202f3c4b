/** Posts a signed request to an AWS service for which the project has no client, as a client of another service would. */
import { text } from 'node:stream/consumers';
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { SignatureV4 } from '@smithy/signature-v4';
import { NodeSha256 } from '../shared/sha256.ts';

interface Post {
  headers: Record<string, string>;
  body: string;
}

/**
 * Posts with the region, the credentials and the endpoint of a client of another service.
 *
 * @param service the first part of the service's host name
 */
export async function postToAws(
  { config }: LambdaClient,
  service: string,
  { headers, body }: Post,
): Promise<{ status: number; body: string }> {
  const region = await config.region();
  const suffix = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  const { AWS_ENDPOINT_URL } = process.env;
  const custom = config.isCustomEndpoint ? await config.endpoint?.() : undefined;
  const { protocol, hostname, port } = custom ?? new URL(AWS_ENDPOINT_URL || `https://${service}.${region}.${suffix}`);
  const signingName = service.replace('api.', '');
  const signer = new SignatureV4({ credentials: config.credentials, region, service: signingName, sha256: NodeSha256 });
  const signed = await signer.sign({
    method: 'POST',
    protocol,
    hostname,
    port: port ? Number(port) : undefined,
    path: '/',
    query: {},
    headers: { host: port ? `${hostname}:${port}` : hostname, ...headers },
    body,
  });
  const { response } = await config.requestHandler.handle(signed as Parameters<typeof config.requestHandler.handle>[0]);
  return { status: response.statusCode, body: await text(response.body) };
}

/** Calls AWS services that speak JSON over POST and for which the project has no client: logs, metrics, parameters, queues, quotas,
 * endpoints. */
import { text } from 'node:stream/consumers';
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { SignatureV4 } from '@smithy/signature-v4';
import { NodeSha256 } from '../shared/sha256.ts';

/** Names and versions as in botocore's models. */
const SERVICES = {
  logs: { target: 'Logs_20140328', json: '1.1' },
  monitoring: { target: 'GraniteServiceVersion20100801', json: '1.0' },
  servicequotas: { target: 'ServiceQuotasV20190624', json: '1.1' },
  'api.sagemaker': { target: 'SageMaker', json: '1.1' },
  ssm: { target: 'AmazonSSM', json: '1.1' },
  sqs: { target: 'AmazonSQS', json: '1.0' },
} as const;

/**
 * Calls an operation with the region, the credentials and the endpoint of a client of another service.
 *
 * @throws Error with the service's error type as its name
 */
export async function callAws<T>(
  { config }: LambdaClient,
  service: keyof typeof SERVICES,
  operation: string,
  input: object,
): Promise<T> {
  const { target, json } = SERVICES[service];
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
    headers: {
      host: port ? `${hostname}:${port}` : hostname,
      'content-type': `application/x-amz-json-${json}`,
      'x-amz-target': `${target}.${operation}`,
    },
    body: JSON.stringify(input),
  });
  const { response } = await config.requestHandler.handle(signed as Parameters<typeof config.requestHandler.handle>[0]);
  const reply = JSON.parse((await text(response.body)) || '{}') as T & { __type?: string; message?: string };
  if (response.statusCode < 300) return reply;
  const error = new Error(`${service} ${operation}: ${response.statusCode} ${reply.message ?? ''}`);
  error.name = reply.__type?.split('#').at(-1) ?? `Http${response.statusCode}`;
  throw error;
}

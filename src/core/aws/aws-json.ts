/** Calls AWS services that speak JSON over POST, such as CloudWatch, SQS and SageMaker, and for which the project has no client. */

import { jsonIn } from '../values/json-in.ts';
import { type AwsClient, awsError, postToAws, strangeReply } from './aws-post.ts';
// Names and versions as in botocore's models.
import SERVICES from './aws-services.json' with { type: 'json' };

/**
 * Calls an operation with the region, the credentials and the endpoint of a client of another service.
 *
 * @throws Error with the service's error type as its name
 */
export async function callAws<T>(
  client: AwsClient,
  service: keyof typeof SERVICES,
  operation: string,
  input: object,
): Promise<T> {
  const { target, json } = SERVICES[service];
  const { status, body } = await postToAws(client, service, operation, {
    headers: { 'content-type': `application/x-amz-json-${json}`, 'x-amz-target': `${target}.${operation}` },
    body: JSON.stringify(input),
  });
  const reply = objectOf<T & Record<'__type' | 'message' | 'Message' | 'error', string | undefined>>(body || '{}');
  if (reply === undefined) throw strangeReply(`${service} ${operation}`, status, body);
  if (status < 300) return reply;
  // Services differ in the case of this member, and an emulator that lacks the service returns `error`.
  const said = reply.message ?? reply.Message ?? reply.error ?? '';
  throw awsError(reply.__type?.split('#').at(-1) ?? `Http${status}`, `${service} ${operation}: ${status} ${said}`);
}

/** Returns the object that a text contains as JSON, or `undefined`. */
function objectOf<T>(text: string): T | undefined {
  const value = jsonIn(text);
  return typeof value === 'object' && value !== null ? (value as T) : undefined;
}

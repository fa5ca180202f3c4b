/**
 * The Data Capture whose files an endpoint's stack reads, and the requirements of its location for applications and
 * roles.
 */

import type { Endpoint } from '../../src/core/aws/endpoint.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { parseS3Location } from '../../src/replay/source/open-source.ts';

export type WatchedCapture = ReturnType<typeof watchedCapture>;

/**
 * Returns the endpoint's Data Capture among those that the stack reads.
 *
 * @param key encrypts the captures; `undefined` without a key of the account
 * @param sampling in percent
 * @throws PermanentError `EndpointNotSwitchable` if the stack reads the Data Capture of another endpoint
 */
export function watchedCapture(outputs: StackOutputs, endpoint: string, key: string | undefined, sampling = 100) {
  const { captureBucket: bucket, capturePrefix, endpoint: own } = outputs;
  const folders = capturePrefix.split('/').filter(Boolean);
  const at = folders.lastIndexOf(endpoint);
  const facts = { got: endpoint, expected: `${own}, or --stack for the stack of ${endpoint}` };
  if (at === -1 && folders.includes(own))
    throw new PermanentError('EndpointNotSwitchable', `The stack reads s3://${bucket}/${capturePrefix}`, facts);
  return {
    EnableCapture: true,
    InitialSamplingPercentage: sampling,
    // SageMaker adds the folder of the endpoint.
    DestinationS3Uri: ['s3:/', bucket, ...folders.slice(0, at === -1 ? undefined : at)].join('/'),
    ...(key && { KmsKeyId: key }),
    CaptureOptions: [{ CaptureMode: 'Input' as const }, { CaptureMode: 'Output' as const }],
    CaptureContentTypeHeader: { CsvContentTypes: ['text/csv'], JsonContentTypes: ['application/json'] },
  };
}

/**
 * Returns the policy for roles that write captures of the endpoint there: the application's role, and the models'
 * roles.
 */
export function policyFor({ DestinationS3Uri: to, KmsKeyId: key }: WatchedCapture, endpoint: Endpoint) {
  const allow = (Action: string, Resource: string) => ({ Effect: 'Allow', Action, Resource });
  const folder = to.replace('s3://', `arn:${endpoint.EndpointArn.split(':')[1]}:s3:::`);
  const objects = allow('s3:PutObject', `${folder}/${endpoint.EndpointName}/*`);
  return { Version: '2012-10-17', Statement: [objects, ...(key ? [allow('kms:GenerateDataKey', key)] : [])] };
}

/**
 * Returns the lines of code for an application that calls the endpoint. @param all whether SageMaker captures nothing
 */
export function clientLines({ DestinationS3Uri }: WatchedCapture, all: boolean) {
  const { bucket, key: prefix } = parseS3Location(DestinationS3Uri) ?? {};
  const [b, p] = [bucket, prefix].map((text) => JSON.stringify(text));
  return {
    node: `captureInvocations(client, { bucket: ${b}, prefix: ${p}${all ? ", calls: 'all'" : ''} });`,
    python: `capture_invocations(client, bucket=${b}, prefix=${p}${all ? ', calls="all"' : ''})`,
  };
}

/** Where the captures of an endpoint go so that a stack reads them, and what applications and roles need for that place. */
import type { StackOutputs } from '../../src/core/contract/names.ts';
import type { CaptureConfig, Endpoint } from '../operate/aws-calls.ts';
import { notSwitchable } from './switch.ts';

export interface CapturePlace {
  bucket: string;
  /** Above the folder of the endpoint, without `/` at its end; empty at the top of the bucket. */
  prefix: string;
  /** `undefined`: the captures are not encrypted with a key of the account. */
  key: string | undefined;
}

/**
 * Returns the place where captures of an endpoint are among those that the stack reads.
 *
 * @throws PermanentError `EndpointNotSwitchable` if the stack reads those of another endpoint
 */
export function watchedPlace(outputs: StackOutputs, endpoint: string, key: string | undefined): CapturePlace {
  const { captureBucket: bucket, capturePrefix, endpoint: own } = outputs;
  const folders = capturePrefix.split('/').filter(Boolean);
  const at = folders.lastIndexOf(endpoint);
  if (at === -1 && folders.includes(own)) {
    const expected = `${own}, or --stack for the stack of ${endpoint}`;
    throw notSwitchable(`The stack reads s3://${bucket}/${capturePrefix}`, endpoint, expected);
  }
  return { bucket, prefix: folders.slice(0, at === -1 ? undefined : at).join('/'), key };
}

export const placeUri = ({ bucket, prefix }: CapturePlace): string =>
  ['s3:/', bucket, prefix].join('/').replace(/\/$/, '');

/** @param sampling in percent */
export const captureConfig = (place: CapturePlace, sampling: number): CaptureConfig => ({
  EnableCapture: true,
  InitialSamplingPercentage: sampling,
  DestinationS3Uri: placeUri(place),
  ...(place.key && { KmsKeyId: place.key }),
  CaptureOptions: [{ CaptureMode: 'Input' }, { CaptureMode: 'Output' }],
  CaptureContentTypeHeader: { CsvContentTypes: ['text/csv'], JsonContentTypes: ['application/json'] },
});

/** The policy of a role that writes captures of the endpoint there: the application's, and those of the models. */
export function policyFor(place: CapturePlace, { EndpointArn, EndpointName }: Endpoint) {
  const allow = (Action: string, Resource: string) => ({ Effect: 'Allow', Action, Resource });
  const objects = `${placeUri(place).replace('s3://', `arn:${EndpointArn.split(':')[1]}:s3:::`)}/${EndpointName}/*`;
  const Statement = [allow('s3:PutObject', objects), ...(place.key ? [allow('kms:GenerateDataKey', place.key)] : [])];
  return { Version: '2012-10-17', Statement };
}

/** The lines of an application that calls the endpoint. @param all whether SageMaker captures nothing */
export function clientLines({ bucket, prefix }: CapturePlace, all: boolean) {
  const [b, p] = [bucket, prefix].map((text) => JSON.stringify(text));
  const node = `captureInvocations(client, { bucket: ${b}, prefix: ${p}${all ? ", calls: 'all'" : ''} });`;
  const python = `capture_invocations(client, bucket=${b}, prefix=${p}${all ? ', calls="all"' : ''})`;
  return {
    node: `import { captureInvocations } from 'sagemaker-inference-monitor/capture-client';\n${node}`,
    python: `from sagemaker_inference_monitor_capture import capture_invocations\n${python}`,
  };
}

/** What a CloudFormation template needs, in YAML. @param capture `undefined`: none */
export const templateLines = (capture: CaptureConfig | undefined): string[] => [
  `In the properties of AWS::SageMaker::EndpointConfig${capture ? ':' : ', remove DataCaptureConfig.'}`,
  ...(capture ? ['  DataCaptureConfig:'] : []),
  ...Object.entries(capture ?? {}).map(([name, value]) => `    ${name}: ${JSON.stringify(value)}`),
];

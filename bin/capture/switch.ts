/**
 * Switches the Data Capture of a running endpoint: copies its configuration, updates the endpoint, and reads it again. And the
 * requirements of the captures' location for applications and roles.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { Endpoint, Variant, Variants } from '../../src/core/aws/endpoint.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { parseS3Location } from '../../src/replay/source/open-source.ts';
import * as aws from '../operate/aws-calls.ts';
import MEMBERS from './endpoint-config-members.json' with { type: 'json' };

/** An endpoint and its current configuration. */
export type Found = Awaited<ReturnType<typeof findEndpoint>>;

/** @throws PermanentError `NoSuchEndpoint` */
export async function findEndpoint(lambda: LambdaClient, name: string) {
  const endpoint = await aws.describeEndpoint(lambda, name);
  if (endpoint !== undefined) return { endpoint, config: await aws.describeEndpointConfig(lambda, endpoint) };
  const facts = { got: name, expected: `an endpoint of this account in ${await lambda.config.region()}` };
  throw new PermanentError('NoSuchEndpoint', 'There is no such endpoint', facts);
}

/** Returns all variants, shadow variants last. */
const variantsOf = (of: Variants): Variant[] =>
  [of.ProductionVariants, of.ShadowProductionVariants].flatMap((some = []) => some);

export const isServerless = ({ config }: Found): boolean => variantsOf(config).some((one) => one.ServerlessConfig);

/** The execution roles of the models, which write the captures. */
export async function rolesOf(lambda: LambdaClient, config: aws.EndpointConfig): Promise<unknown[]> {
  const names = new Set(variantsOf(config).flatMap(({ ModelName }) => ModelName ?? []));
  const model = (ModelName: unknown) =>
    callAws<aws.EndpointConfig>(lambda, aws.SERVICE, 'DescribeModel', { ModelName });
  const models = await Promise.all([...names].map(model));
  return [...new Set([config, ...models].flatMap(({ ExecutionRoleArn }) => ExecutionRoleArn ?? []))];
}

const namesIn = (value: unknown): string[] =>
  typeof value === 'object' && value !== null
    ? [...(Array.isArray(value) ? [] : Object.keys(value)), ...Object.values(value).flatMap(namesIn)]
    : [];

/** Returns the properties for a copy of a configuration, without those that identify the original. */
const copyOf = ({ EndpointConfigArn: _arn, CreationTime: _time, ...copied }: aws.EndpointConfig) => copied;

/**
 * @param stack the CloudFormation stack that made the endpoint
 * @param wanted `undefined`: no capture
 * @param force also if others manage the endpoint
 * @throws PermanentError `EndpointNotSwitchable` with the first reason not to update the endpoint
 */
export function refuseSwitch(found: Found, stack: string | undefined, wanted?: WatchedCapture, force = false): void {
  const { EndpointName: name, EndpointStatus: status, FailureReason: reason = 'no reason given' } = found.endpoint;
  const client = wanted && isServerless(found) && clientLines(wanted, true).node;
  const unknown = namesIn(copyOf(found.config)).filter((member) => !MEMBERS.includes(member));
  const shadow = (found.config.ShadowProductionVariants ?? []).map(({ VariantName }) => VariantName).join(', ');
  const template = `its template with DataCaptureConfig: ${JSON.stringify(wanted) ?? 'none'}, or --force`;
  const faults: [message: string, got: string | false | undefined, expected: string][] = [
    ['SageMaker captures nothing of serverless variants', client && name, `in the application: ${client}`],
    ['It cannot be updated now', status !== 'InService' && `${status} (${reason})`, 'InService, or another endpoint'],
    ['This version does not know all of its configuration', unknown.join(', '), 'a version of the command that does'],
    ['It has shadow variants', !force && shadow, 'the end of their test, or --force to copy them too'],
    ['CloudFormation made the endpoint', !force && stack, template],
  ];
  for (const [message, got, expected] of faults)
    if (got) throw new PermanentError('EndpointNotSwitchable', message, { got, expected });
}

/** The inputs of the operations that switch, by their names and in their order. */
type SwitchRequests = ReturnType<typeof switchRequests>;

/** @param tags of the configuration. @param wanted `undefined`: no capture */
export function switchRequests({ endpoint, config }: Found, tags: readonly aws.Tag[], wanted?: WatchedCapture) {
  const { EndpointName, EndpointArn: ResourceArn, EndpointConfigName: former = '' } = endpoint;
  const asRunning = (variant: Variant): Variant => {
    const { VariantName: name, InitialInstanceCount: initial, InitialVariantWeight: weight } = variant;
    const now = variantsOf(endpoint).find(({ VariantName }) => VariantName === name);
    // An endpoint that has scaled to zero starts with one instance: AWS takes no less.
    const count = initial === undefined ? undefined : Math.max(1, Number(now?.CurrentInstanceCount ?? initial));
    return { ...variant, InitialInstanceCount: count, InitialVariantWeight: now?.CurrentWeight ?? weight };
  };
  const end = `-capture-${wanted ? 'on' : 'off'}-${new Date().toISOString().replaceAll(/\D/g, '')}`;
  // A name has at most 63 characters.
  const EndpointConfigName = `${EndpointName.slice(0, 63 - end.length)}${end}`;
  return {
    CreateEndpointConfig: {
      ...copyOf(config),
      EndpointConfigName,
      ProductionVariants: config.ProductionVariants?.map(asRunning),
      ShadowProductionVariants: config.ShadowProductionVariants?.map(asRunning),
      DataCaptureConfig: wanted,
      // AWS keeps names that begin with aws: to itself.
      Tags: tags.filter(({ Key }) => !/^aws:/i.test(Key)),
    },
    AddTags: { ResourceArn, Tags: [{ Key: 'inference-monitor:former-endpoint-config', Value: former }] },
    UpdateEndpoint: { EndpointName, EndpointConfigName, ...RETAINED },
  };
}

/** Keep scaling and the method of deployment. */
const RETAINED = { RetainAllVariantProperties: true, RetainDeploymentConfig: true };

/** The variants of a configuration or of an endpoint, such as `AllTraffic 2 × ml.g5.xlarge, weight 1`. */
export const fleetOf = (of: Variants): string => variantsOf(of).map(variantText).join(', ');

function variantText(variant: Variant): string {
  const { CurrentInstanceCount, InitialInstanceCount: count = CurrentInstanceCount ?? 'some' } = variant;
  const { CurrentWeight, InitialVariantWeight: weight = CurrentWeight } = variant;
  const { InstancePools: pools, InstanceType: type = pools ? JSON.stringify(pools) : 'instances' } = variant;
  return `${variant.VariantName} ${count} × ${type}, weight ${weight}`;
}

/** Sends the requests. The last one changes the endpoint. @throws PermanentError `CaptureRefused` */
export async function startUpdate(lambda: LambdaClient, requests: SwitchRequests): Promise<void> {
  for (const [operation, input] of Object.entries(requests))
    await callAws(lambda, aws.SERVICE, operation, input).catch((error: Error) => {
      const facts = { got: awsFailure(error)?.message ?? error.message, expected: 'a request that it accepts' };
      throw new PermanentError('CaptureRefused', `SageMaker refused ${operation}`, facts, error);
    });
}

/** Describes a requested or running Data Capture. */
const captureText = (of: Partial<WatchedCapture & Endpoint['DataCaptureConfig']> = {}): string => {
  const { CaptureStatus = 'Started', CurrentSamplingPercentage: share = of.InitialSamplingPercentage } = of;
  return of.EnableCapture ? `${CaptureStatus}, ${share}% to ${of.DestinationS3Uri?.replace(/\/+$/, '')}` : 'off';
};

/** Whether no change is needed. An update in progress may still end differently. */
export const isAsWanted = ({ endpoint, config: { DataCaptureConfig: has = {} } }: Found, wanted?: WatchedCapture) =>
  endpoint.EndpointStatus === 'InService' &&
  captureText(endpoint.DataCaptureConfig) === captureText(wanted) &&
  // The location is compared above, which ignores a slash at its end.
  isDeepStrictEqual({ ...has, ...(wanted && { ...wanted, DestinationS3Uri: has.DestinationS3Uri }) }, has);

/** The command that gives an endpoint the configuration that it had. */
export const wayBack = ({ EndpointName: name, EndpointConfigName: config }: Endpoint): string =>
  `aws sagemaker update-endpoint --endpoint-name ${name} --endpoint-config-name ${config} --retain-all-variant-properties --retain-deployment-config`;

const POLL_MS = 2_000;

/**
 * Waits until the update is over, and reads the endpoint again.
 *
 * @returns counts and weights that differ from those before the update
 * @throws PermanentError `CaptureNotSwitched` if it does not capture as requested
 */
export async function updated(lambda: LambdaClient, before: Endpoint, asked: SwitchRequests): Promise<string[]> {
  const { EndpointConfigName, DataCaptureConfig } = asked.CreateEndpointConfig;
  const expected = `InService with ${EndpointConfigName}, Data Capture ${captureText(DataCaptureConfig)}`;
  let now: Endpoint;
  do {
    await sleep(POLL_MS);
    now = (await aws.describeEndpoint(lambda, before.EndpointName)) ?? { ...before, EndpointStatus: 'gone' };
  } while (/Updating|RollingBack$/.test(now.EndpointStatus));
  const is = `${now.EndpointStatus} with ${now.EndpointConfigName}, Data Capture ${captureText(now.DataCaptureConfig)}`;
  const [had, has] = [before, now].map(fleetOf);
  const differences = had === has ? [] : [`${has}, not ${had}`];
  if (is === expected) return differences;
  const got = [is, ...differences, `FailureReason: ${now.FailureReason ?? 'none'}`].join('; ');
  const facts = { got, expected: `${expected}. The way back: ${wayBack(before)}` };
  throw new PermanentError('CaptureNotSwitched', 'The endpoint does not capture as asked for', facts);
}

// --------------------------------------------------------------------------------- the location that a stack reads

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

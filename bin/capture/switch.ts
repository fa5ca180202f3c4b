/** Switches the Data Capture of a running endpoint: copies its configuration, updates the endpoint, and reads it again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import {
  type CaptureConfig,
  callSagemaker,
  describeEndpoint,
  describeEndpointConfig,
  type Endpoint,
  type EndpointConfig,
  tagsOf,
  type Variant,
} from '../operate/aws-calls.ts';
import MEMBERS from './endpoint-config-members.json' with { type: 'json' };

/** An endpoint and its configuration, as they are. */
export interface Found {
  endpoint: Endpoint;
  config: EndpointConfig;
}

/** The error for an endpoint that must not be switched, or not from here. */
export const notSwitchable = (message: string, got: string, expected: string): PermanentError =>
  new PermanentError('EndpointNotSwitchable', message, { got, expected });

/** @throws PermanentError `NoSuchEndpoint` */
export async function findEndpoint(lambda: LambdaClient, name: string): Promise<Found> {
  const endpoint = await describeEndpoint(lambda, name);
  if (endpoint !== undefined) return { endpoint, config: await describeEndpointConfig(lambda, endpoint) };
  const facts = { got: name, expected: `an endpoint of this account in ${await lambda.config.region()}` };
  throw new PermanentError('NoSuchEndpoint', 'There is no such endpoint', facts);
}

/** All variants, the shadow ones last. */
export const variantsOf = (of: Partial<Endpoint> | EndpointConfig): Variant[] => [
  ...(of.ProductionVariants ?? []),
  ...(of.ShadowProductionVariants ?? []),
];

const namedAs = (name: string, variants: Variant[]) => variants.find(({ VariantName }) => VariantName === name);

/** The instances of an endpoint, such as `2 × ml.g5.xlarge (AllTraffic)`. */
export const fleetOf = ({ endpoint, config }: Found): string =>
  variantsOf(config)
    .map(({ VariantName: name, InstanceType: type = 'of its instance pools', InitialInstanceCount: initial = 1 }) => {
      const count = namedAs(name, variantsOf(endpoint))?.CurrentInstanceCount ?? initial;
      return `${count} × ${type} (${name})`;
    })
    .join(', ');

/** The execution roles of the models, which write the captures. */
export async function rolesOf(lambda: LambdaClient, config: EndpointConfig): Promise<string[]> {
  const names = new Set(variantsOf(config).flatMap(({ ModelName = [] }) => ModelName));
  const models = [...names].map((ModelName) => callSagemaker<EndpointConfig>(lambda, 'DescribeModel', { ModelName }));
  return [
    ...new Set([config, ...(await Promise.all(models))].flatMap(({ ExecutionRoleArn = [] }) => ExecutionRoleArn)),
  ];
}

// ---------------------------------------------------------------------------------------------------- the requests

const namesIn = (value: unknown): string[] => {
  if (typeof value !== 'object' || value === null) return [];
  const own = Array.isArray(value) ? [] : Object.keys(value);
  return [...own, ...Object.values(value).flatMap(namesIn)];
};

/** The longest name of a configuration. */
const MAX_NAME = 63;

/**
 * Returns the input of CreateEndpointConfig for a copy with the present counts and weights.
 *
 * @param tags of the configuration
 * @param wanted `undefined`: without Data Capture
 * @throws PermanentError `EndpointNotSwitchable` for a member that CreateEndpointConfig does not have in AWS's model
 */
function copiedConfig({ endpoint, config }: Found, tags: Awaited<ReturnType<typeof tagsOf>>, wanted?: CaptureConfig) {
  const { EndpointConfigArn: _arn, CreationTime: _time, DataCaptureConfig: _capture, ...copied } = config;
  const unknown = namesIn(copied).filter((name) => !MEMBERS.includes(name));
  if (unknown.length > 0) {
    const expected = 'a version of this command that knows it';
    throw notSwitchable('The configuration has what this version does not know', unknown.join(', '), expected);
  }
  const asRunning = (variant: Variant) => {
    const now = namedAs(variant.VariantName, variantsOf(endpoint));
    const { CurrentInstanceCount: count = variant.InitialInstanceCount, CurrentWeight: weight } = now ?? {};
    // An endpoint that has scaled to zero starts with one instance: AWS takes no less.
    const counted = variant.InitialInstanceCount !== undefined && { InitialInstanceCount: Math.max(1, count ?? 1) };
    return { ...variant, ...counted, ...(weight !== undefined && { InitialVariantWeight: weight }) };
  };
  const { ProductionVariants = [], ShadowProductionVariants: shadow } = config;
  const end = `-capture-${wanted ? 'on' : 'off'}-${new Date().toISOString().replaceAll(/\D/g, '')}`;
  // AWS keeps names that begin with aws: to itself.
  const Tags = tags.filter(({ Key }) => !/^aws:/i.test(Key));
  return {
    ...copied,
    EndpointConfigName: `${endpoint.EndpointName.slice(0, MAX_NAME - end.length)}${end}`,
    ProductionVariants: ProductionVariants.map(asRunning),
    ...(shadow?.length && { ShadowProductionVariants: shadow.map(asRunning) }),
    ...(wanted && { DataCaptureConfig: wanted }),
    ...(Tags.length > 0 && { Tags }),
  };
}

/** The tag of an endpoint that names its configuration before the last switch. */
const FORMER_TAG = 'inference-monitor:former-endpoint-config';

/** The inputs of the operations that switch, by their names and in their order. */
export type SwitchRequests = Awaited<ReturnType<typeof switchRequests>>;

/** @param wanted `undefined`: no capture. @throws PermanentError `EndpointNotSwitchable` */
export async function switchRequests(lambda: LambdaClient, found: Found, wanted?: CaptureConfig) {
  const { EndpointName, EndpointArn: ResourceArn, EndpointConfigName: former = '' } = found.endpoint;
  const copy = copiedConfig(found, await tagsOf(lambda, found.config.EndpointConfigArn), wanted);
  const retained = { RetainAllVariantProperties: true, RetainDeploymentConfig: true };
  return {
    CreateEndpointConfig: copy,
    AddTags: { ResourceArn, Tags: [{ Key: FORMER_TAG, Value: former }] },
    UpdateEndpoint: { EndpointName, EndpointConfigName: copy.EndpointConfigName, ...retained },
  };
}

/** Makes the requests. @throws PermanentError `CaptureRefused` */
export async function startUpdate(lambda: LambdaClient, requests: SwitchRequests): Promise<void> {
  let left = '';
  for (const [operation, input] of Object.entries(requests)) {
    await callSagemaker(lambda, operation, input).catch((error: Error) => {
      const got = awsFailure(error)?.message ?? error.message;
      const facts = { got, expected: `a request that SageMaker takes. The endpoint is as it was${left}` };
      throw new PermanentError('CaptureRefused', `SageMaker refused ${operation}`, facts, error);
    });
    left = `; to clean up: aws sagemaker delete-endpoint-config --endpoint-config-name ${requests.UpdateEndpoint.EndpointConfigName}`;
  }
}

// ---------------------------------------------------------------------------------------------------- what came out

/** How an endpoint captures otherwise than is wanted. @param wanted `undefined`: not at all */
function captureFaults({ DataCaptureConfig: now }: Endpoint, wanted: CaptureConfig | undefined): string[] {
  const isOn = now?.EnableCapture === true;
  if (!wanted || !isOn) return isOn === Boolean(wanted) ? [] : [`Data Capture is ${isOn ? 'on' : 'off'}`];
  const { CaptureStatus: status, CurrentSamplingPercentage: share, DestinationS3Uri: to } = now;
  return [
    status !== 'Started' && `Data Capture is ${status}`,
    to.replace(/\/+$/, '') !== wanted.DestinationS3Uri && `it captures to ${to}`,
    share !== wanted.InitialSamplingPercentage && `it samples ${share}%`,
  ].filter((fault) => fault !== false);
}

/** Whether there is nothing to do. */
export function isAsWanted({ endpoint, config }: Found, wanted: CaptureConfig | undefined): boolean {
  const has: object = config.DataCaptureConfig ?? {};
  return captureFaults(endpoint, wanted).length === 0 && isDeepStrictEqual({ ...has, ...wanted }, has);
}

/** The command that gives an endpoint the configuration that it had. */
export const wayBack = ({ EndpointName: name, EndpointConfigName: config }: Endpoint): string =>
  `aws sagemaker update-endpoint --endpoint-name ${name} --endpoint-config-name ${config} --retain-all-variant-properties --retain-deployment-config`;

const POLL_MS = 2_000;

/**
 * Waits until the update is over, and reads the endpoint again.
 *
 * @param signal ends the wait with an error
 * @returns counts and weights that differ from those before
 * @throws PermanentError `CaptureNotSwitched` if it does not capture as wanted
 */
export async function updated(
  lambda: LambdaClient,
  before: Endpoint,
  { CreateEndpointConfig: asked }: SwitchRequests,
  signal: AbortSignal,
): Promise<string[]> {
  let now: Endpoint | undefined;
  do {
    await sleep(POLL_MS, undefined, { signal });
    now = await describeEndpoint(lambda, before.EndpointName);
  } while (/Updating|RollingBack$/.test(now?.EndpointStatus ?? ''));
  const { EndpointStatus: status = 'gone', EndpointConfigName: config, FailureReason: reason } = now ?? {};
  const differences = variantsOf(before).flatMap((was) => {
    const is = namedAs(was.VariantName, variantsOf(now ?? {}));
    const fields = (['CurrentInstanceCount', 'CurrentWeight'] as const).filter((one) => was[one] !== is?.[one]);
    return fields.map((one) => `${one} of ${was.VariantName} was ${was[one]} and is ${is?.[one]}`);
  });
  const faults = [
    status !== 'InService' && `it is ${status}`,
    config !== asked.EndpointConfigName && `its configuration is ${config}`,
    ...(now ? captureFaults(now, asked.DataCaptureConfig) : []),
    reason !== undefined && `SageMaker says: ${reason}`,
  ].filter((fault) => fault !== false);
  if (faults.length === 0) return differences;
  const facts = { got: [...faults, ...differences].join('; '), expected: `the way back: ${wayBack(before)}` };
  throw new PermanentError('CaptureNotSwitched', 'The endpoint does not capture as asked for', facts);
}

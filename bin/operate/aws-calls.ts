/**
 * Calls AWS services without a client in the project, and reads SageMaker's resources: endpoints, their Data Capture,
 * and MLflow apps.
 */

import { GetFunctionConfigurationCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { callAws } from '../../src/core/aws/aws-json.ts';
import type { Endpoint, Variants } from '../../src/core/aws/endpoint.ts';
import { unpacked } from '../../src/core/settings/packed.ts';
import { parseS3Location } from '../../src/replay/source/open-source.ts';

/** Reads how many messages a queue of SQS has, and its ARN. */
export async function queueAttributes(client: LambdaClient, QueueUrl: string) {
  const input = { QueueUrl, AttributeNames: ['QueueArn', 'ApproximateNumberOfMessages'] };
  type Reply = { Attributes?: { QueueArn?: string; ApproximateNumberOfMessages?: string } };
  return (await callAws<Reply>(client, 'sqs', 'GetQueueAttributes', input)).Attributes ?? {};
}

/** Reads the environment variables of a deployed function: the settings in effect, whatever the local `.env` says. */
export async function functionVariables(lambda: LambdaClient, FunctionName: string): Promise<Record<string, string>> {
  const { Environment } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  return unpacked(Environment?.Variables ?? {});
}

/** Reads the ARN and the state of a key of KMS. @param KeyId an id or an ARN, also of an alias */
export async function describeKey(client: LambdaClient, KeyId: string) {
  type Reply = { KeyMetadata?: { Arn?: string; KeyState?: string } };
  return (await callAws<Reply>(client, 'kms', 'DescribeKey', { KeyId })).KeyMetadata ?? {};
}

/**
 * Returns `undefined` if the resource does not exist. Some services report this as an invalid request. @throws any
 * other error
 */
export function orMissing(error: Error): undefined {
  if (!/NotFound/.test(error.name) && !/could not find|does not exist/i.test(error.message)) throw error;
}

/** Returns the items of all pages of a list. @param member of a page, which has them */
export async function listAll<Item>(
  member: string,
  ...[client, service, operation, input]: Parameters<typeof callAws>
): Promise<Item[]> {
  const items: Item[] = [];
  let NextToken: unknown;
  do {
    const page = await callAws<Record<string, unknown>>(client, service, operation, { ...input, NextToken });
    items.push(...((page[member] ?? []) as Item[]));
    ({ NextToken } = page);
  } while (NextToken);
  return items;
}

// ------------------------------------------------------------------------------------------------------- SageMaker

export interface CaptureConfig {
  DestinationS3Uri?: string;
  CaptureOptions?: { CaptureMode: 'Input' | 'Output' | 'InputAndOutput' }[];
  CaptureContentTypeHeader?: { CsvContentTypes?: string[]; JsonContentTypes?: string[] };
}

/** SageMaker, as `callAws` names it. */
export const SERVICE = 'api.sagemaker';

/** @returns `undefined` if there is no such endpoint */
export const describeEndpoint = (client: LambdaClient, EndpointName: string): Promise<Endpoint | undefined> =>
  callAws<Endpoint>(client, SERVICE, 'DescribeEndpoint', { EndpointName }).catch(orMissing);

/** A configuration as returned by DescribeEndpointConfig. Without a data capture configuration, nothing is captured. */
export interface EndpointConfig extends Variants {
  DataCaptureConfig?: CaptureConfig;
  [member: string]: unknown;
}

export const describeEndpointConfig = async (
  client: LambdaClient,
  { EndpointConfigName }: Endpoint,
): Promise<EndpointConfig> =>
  EndpointConfigName === undefined ? {} : callAws(client, SERVICE, 'DescribeEndpointConfig', { EndpointConfigName });

/** Returns the names of an endpoint's shadow variants. */
export async function shadowVariantsOf(client: LambdaClient, endpoint: Endpoint): Promise<string[]> {
  const source = endpoint.ShadowProductionVariants?.length ? endpoint : await describeEndpointConfig(client, endpoint);
  return (source.ShadowProductionVariants ?? []).map(({ VariantName }) => VariantName);
}

interface EndpointSummary {
  EndpointName: string;
  EndpointStatus: string;
}

const NEWEST_FIRST = { SortBy: 'CreationTime', SortOrder: 'Descending', MaxResults: 100 };

/** The newest hundred endpoints of the region. */
export const listEndpoints = async (client: LambdaClient): Promise<EndpointSummary[]> =>
  (await callAws<{ Endpoints?: EndpointSummary[] }>(client, SERVICE, 'ListEndpoints', NEWEST_FIRST)).Endpoints ?? [];

interface MlflowApp {
  Arn: string;
  Name?: string;
  Status?: string;
  MlflowVersion?: string;
  /** Such as `s3://bucket/prefix`. It is missing in lists. */
  ArtifactStoreUri?: string;
}

/** The newest hundred MLflow apps of the region. */
export const listMlflowApps = async (client: LambdaClient): Promise<MlflowApp[]> =>
  (await callAws<{ Summaries?: MlflowApp[] }>(client, SERVICE, 'ListMlflowApps', NEWEST_FIRST)).Summaries ?? [];

/** @param Arn of an `mlflow-app`. @returns `undefined` if it does not exist */
export const describeMlflow = (client: LambdaClient, Arn: string): Promise<MlflowApp | undefined> =>
  callAws<MlflowApp>(client, SERVICE, 'DescribeMlflowApp', { Arn }).catch(orMissing);

/** How long the address of a managed MLflow's page is valid, in seconds: AWS's maximum. */
export const LOGIN_SECONDS = 300;

/**
 * Returns the address of the page of a managed MLflow, which contains a login: it works once, within `LOGIN_SECONDS`.
 *
 * @param client in the region of the ARN
 * @param Arn of an `mlflow-app`
 */
export async function presignedMlflowUrl(client: LambdaClient, Arn: string): Promise<string> {
  const input = { Arn, ExpiresInSeconds: LOGIN_SECONDS };
  const reply = await callAws<{ AuthorizedUrl: string }>(client, SERVICE, 'CreatePresignedMlflowAppUrl', input);
  return reply.AuthorizedUrl;
}

/**
 * Returns the location of an endpoint's captures, from the destination of its Data Capture. @returns `undefined` if it
 * is not an S3 URI
 */
export function captureLocation(destination: string, endpoint: string) {
  const place = parseS3Location(destination);
  const folders = place?.key.split('/').filter(Boolean) ?? [];
  return place && { bucket: place.bucket, /** Ends with `/`. */ prefix: [...folders, endpoint, ''].join('/') };
}

export type Tag = { Key: string; Value: string };

/** The tags of an endpoint or of a configuration. */
export const tagsOf = (client: LambdaClient, ResourceArn: unknown): Promise<Tag[]> =>
  listAll('Tags', client, SERVICE, 'ListTags', { ResourceArn });

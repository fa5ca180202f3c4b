/** Deletes everything that the canary has made, and looks for what is left. */
import { paginateListStacks } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient, paginateListTables } from '@aws-sdk/client-dynamodb';
import { IAMClient, paginateListRoles } from '@aws-sdk/client-iam';
import { paginateListFunctions } from '@aws-sdk/client-lambda';
import {
  DeleteBucketCommand,
  DeleteObjectsCommand,
  ListBucketsCommand,
  ListObjectVersionsCommand,
} from '@aws-sdk/client-s3';
import { paginateListStateMachines } from '@aws-sdk/client-sfn';
import { callAws } from '../../../src/core/aws/aws-json.ts';
import { resourceNames } from '../../../src/core/contract/names.ts';
import { batches } from '../../../src/core/values/batches.ts';
import { artifactFolder } from '../../../src/mlflow/artifact-store.ts';
import { mlflowOf } from '../../../src/mlflow/connect.ts';
import { findExperiment } from '../../../src/mlflow/experiments.ts';
import { anyReply } from '../../../src/mlflow/replies.ts';
import type { Canary } from '../canary.ts';
import { deleteStack, groundName } from '../ground.ts';
import { stackResources } from '../stack.ts';

/** What the stack's own decisions keep. */
const KEPT = ['AWS::S3::Bucket', 'AWS::S3::BucketPolicy'];
/** S3 takes as many keys in one request. */
const KEYS = 1000;
/** State machines are deleted once their executions have ended. */
const GONE_LIMIT_MS = 180_000;
/** Log groups of functions that were running while the stack was deleted. */
const LOG_PREFIXES = ['/aws/lambda/', '/aws/vendedlogs/states/'];

export async function destroyStep(canary: Canary): Promise<void> {
  const { prefix } = canary.state;
  const outputs = await canary.outputs().catch(() => undefined);
  if (outputs) canary.fact('workBucket', outputs.workBucket);
  const stackName = resourceNames(prefix).stack;
  if (outputs) {
    const resources = await stackResources(canary);
    // A custom resource has the id of what it changes, here of the captures' bucket.
    const types = new Map(
      resources.filter(({ type }) => !type.startsWith('Custom::')).map(({ id, type }) => [id, type]),
    );
    await deleteStack(canary, stackName);
    const left = await existing(canary, [...types.keys()]);
    const wrong = left.filter((id) => !KEPT.includes(types.get(id) ?? ''));
    const kept = left.includes(outputs.workBucket);
    canary.note(
      'destroy-complete',
      kept && wrong.length === 0,
      `${resources.length} resources; left: ${left.join(', ') || 'nothing'}`,
    );
  } else {
    await deleteStack(canary, stackName);
    canary.skip('destroy-complete', 'there was no stack');
  }
  for (const name of ['captureBucket', 'workBucket']) await emptyBucket(canary, canary.fact(name));
  await deleteBucket(canary, canary.fact('workBucket'));
  await deleteStack(canary, groundName(prefix));
  await deleteExperiment(canary);
  for (const logGroupName of await logGroups(canary)) {
    await callAws(canary.clients.lambda, 'logs', 'DeleteLogGroup', { logGroupName });
  }
  let left: string[] = [];
  const gone = async () => {
    left = await leftovers(canary);
    return left.length === 0 ? true : undefined;
  };
  await canary.until('everything to be gone', GONE_LIMIT_MS, gone).catch(() => {});
  canary.note('nothing-left', left.length === 0, left.join(', ') || 'nothing');
}

/** Returns which of these names exist, among the kinds of resources that can be listed. */
async function existing(canary: Canary, ids: readonly string[]): Promise<string[]> {
  const all = new Set(await listed(canary));
  return ids.filter((id) => all.has(id));
}

/** Returns what has the canary's prefix in its name, and its buckets. */
async function leftovers(canary: Canary): Promise<string[]> {
  const { prefix, facts } = canary.state;
  const own = [facts.captureBucket, facts.workBucket];
  return (await listed(canary)).filter((name) => isNamed(name, prefix) || own.includes(name));
}

/** Whether a name has the prefix in it, and not only the beginning of a longer one. */
export const isNamed = (name: string, prefix: string): boolean =>
  ['-', '/'].some((before) => `/${name}-`.includes(`${before}${prefix}-`));

/** Names of functions, state machines, roles, buckets, tables, log groups, alarms, queues and stacks of the account. */
async function listed(canary: Canary): Promise<string[]> {
  const { lambda, sfn, s3, cloudFormation } = canary.clients;
  const names: (string | undefined)[] = [];
  for await (const page of paginateListFunctions({ client: lambda }, {})) {
    names.push(...(page.Functions ?? []).map(({ FunctionName }) => FunctionName));
  }
  for await (const page of paginateListStateMachines({ client: sfn }, {})) {
    // A machine whose executions are ending is being deleted.
    names.push(...(page.stateMachines ?? []).map(({ stateMachineArn }) => stateMachineArn));
  }
  const iam = new IAMClient({});
  for await (const page of paginateListRoles({ client: iam }, {})) {
    names.push(...(page.Roles ?? []).map(({ RoleName }) => RoleName));
  }
  iam.destroy();
  const { Buckets = [] } = await s3.send(new ListBucketsCommand({}));
  names.push(...Buckets.map(({ Name }) => Name));
  const dynamo = new DynamoDBClient({});
  for await (const page of paginateListTables({ client: dynamo }, {})) names.push(...(page.TableNames ?? []));
  dynamo.destroy();
  names.push(...(await logGroups(canary)));
  for await (const page of paginateListStacks({ client: cloudFormation }, {})) {
    const there = (page.StackSummaries ?? []).filter(({ StackStatus }) => StackStatus !== 'DELETE_COMPLETE');
    names.push(...there.map(({ StackName }) => StackName));
  }
  names.push(...(await queuesAndAlarms(canary)));
  return names.filter((name) => name !== undefined);
}

/** Their names begin like the stack's. */
async function queuesAndAlarms({ clients: { lambda }, state }: Canary): Promise<string[]> {
  const { stack } = resourceNames(state.prefix);
  const queues = await callAws<{ QueueUrls?: string[] }>(lambda, 'sqs', 'ListQueues', { QueueNamePrefix: stack });
  const alarms = await callAws<{ MetricAlarms?: { AlarmName: string }[] }>(lambda, 'monitoring', 'DescribeAlarms', {
    AlarmNamePrefix: `sagemaker-monitoring-${state.prefix}-`,
  });
  return [...(queues.QueueUrls ?? []), ...(alarms.MetricAlarms ?? []).map(({ AlarmName }) => AlarmName)];
}

async function logGroups(canary: Canary): Promise<string[]> {
  type Page = { logGroups?: { logGroupName: string }[]; nextToken?: string };
  const found: string[] = [];
  for (const logGroupNamePrefix of LOG_PREFIXES) {
    let nextToken: string | undefined;
    do {
      const input = { logGroupNamePrefix, nextToken };
      const page = await callAws<Page>(canary.clients.lambda, 'logs', 'DescribeLogGroups', input);
      found.push(...(page.logGroups ?? []).map(({ logGroupName }) => logGroupName));
      nextToken = page.nextToken;
    } while (nextToken);
  }
  return found.filter((name) => isNamed(name, canary.state.prefix));
}

async function emptyBucket(canary: Canary, Bucket: string): Promise<void> {
  if (!Bucket) return;
  const { s3 } = canary.clients;
  for (;;) {
    const page = await s3.send(new ListObjectVersionsCommand({ Bucket, MaxKeys: KEYS })).catch((error: Error) => {
      if (error.name === 'NoSuchBucket') return undefined;
      throw error;
    });
    const versions = [...(page?.Versions ?? []), ...(page?.DeleteMarkers ?? [])];
    const Objects = versions.map(({ Key, VersionId }) => ({ Key, VersionId }));
    if (Objects.length === 0) return;
    await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }));
  }
}

async function deleteBucket(canary: Canary, Bucket: string): Promise<void> {
  if (!Bucket) return;
  await canary.clients.s3.send(new DeleteBucketCommand({ Bucket })).catch((error: Error) => {
    if (error.name !== 'NoSuchBucket') throw error;
  });
}

/** Deletes the experiment in MLflow, and the files of its traces where they are objects of the artifact bucket. */
async function deleteExperiment(canary: Canary): Promise<void> {
  const mlflow = mlflowOf(canary.state.settings, canary.clients.s3);
  try {
    for (const name of [canary.state.prefix, `${canary.state.prefix}-replays`]) {
      const experiment = await findExperiment(mlflow.rest, name);
      if (!experiment) continue;
      const folder = artifactFolder(experiment.artifactLocation);
      if (folder && 'bucket' in folder && folder.prefix) await deleteObjects(canary, folder.bucket, folder.prefix);
      const json = { experiment_id: experiment.id };
      await mlflow.rest.once({ method: 'POST', path: '/api/2.0/mlflow/experiments/delete', json }, anyReply);
    }
  } finally {
    mlflow.close();
  }
}

async function deleteObjects(canary: Canary, Bucket: string, prefix: string): Promise<void> {
  const found = await Array.fromAsync(canary.storage.list(Bucket, prefix), ({ key: Key }) => ({ Key }));
  for (const Objects of batches(found, KEYS)) {
    await canary.clients.s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }));
  }
}

/**
 * Checks the buckets that exist before the stack, of the captures and of MLflow's artifacts, and that captures arrive
 * there and their events reach the stack.
 */

import {
  GetBucketNotificationConfigurationCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  type S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { httpStatusOf } from '../../src/core/aws/storage-errors.ts';
import { invocations } from '../../src/health/gather.ts';
import {
  broken,
  type CheckContext,
  checked,
  type Finding,
  type Found,
  hasError,
  ok,
  under,
  unknown,
  warning,
} from './finding.ts';

/** The region of a bucket, and whether it may be listed. S3 tells the region even to those who may not. */
async function look(s3: S3Client, Bucket: string): Promise<{ region?: string; state: 'there' | 'missing' | 'denied' }> {
  try {
    const { BucketRegion: region } = await s3.send(new HeadBucketCommand({ Bucket }));
    return { region, state: 'there' };
  } catch (error) {
    const status = httpStatusOf(error);
    if (status === 404) return { state: 'missing' };
    if (status !== 301 && status !== 400 && status !== 403) throw error;
    const region = (error as S3ServiceException).$response?.headers?.['x-amz-bucket-region'];
    return { region, state: status === 403 ? 'denied' : 'there' };
  }
}

interface Place {
  check: string;
  setting: string;
  /** The consequence of another region, and what to do about it. */
  why: string;
  remedy: string;
  /** What to do about a bucket of another account; absent: it may be one. */
  owner?: string | undefined;
}

/** Existence, region and owner of a bucket. @returns what is wrong, and whether more can be asked of the bucket */
async function checkPlace({ s3, region: ours }: CheckContext, bucket: string, place: Place) {
  const { check, setting, why, remedy, owner } = place;
  const { region, state } = await look(s3, bucket);
  const found = (said: Found): Finding[] => under(check, said);
  if (state === 'missing') {
    return { found: found(broken(`The bucket ${bucket} does not exist.`, `create it, or correct ${setting}`)) };
  }
  if (region !== undefined && region !== ours) {
    const message = `The bucket ${bucket} is in ${region}, and the stack in ${ours}: ${why}.`;
    return { found: found(broken(message, remedy)) };
  }
  const repair = `needs s3:ListBucket; or correct ${setting} if the bucket belongs to another account`;
  const denied = state === 'denied' && unknown(`S3 denies you the bucket ${bucket}.`, repair);
  const foreign = owner === undefined ? [] : await checkOwner(s3, bucket, check, owner);
  if (hasError(foreign)) return { found: foreign };
  return { found: [...foreign, ...found(denied)], isOpen: !denied };
}

const checkOwner = (s3: S3Client, bucket: string, check: string, remedy: string): Promise<Finding[]> =>
  checked(check, 's3:ListAllMyBuckets', async () => {
    // Only the account's own buckets are listed, in any region.
    const { Buckets = [] } = await s3.send(new ListBucketsCommand({ Prefix: bucket }));
    const isOwn = Buckets.some(({ Name }) => Name === bucket);
    return !isOwn && broken(`The bucket ${bucket} belongs to another account.`, remedy);
  });

/** Checks what a deployment with a wrong capture bucket would only find out while it is rolled back, and what arrives. */
export async function checkCaptures(context: CheckContext): Promise<Found> {
  const { DATA_CAPTURE_S3_BUCKET: bucket } = context.settings;
  if (bucket === undefined || context.capturePrefix === undefined) return undefined;
  const { found, isOpen } = await checkPlace(context, bucket, {
    check: 'captures',
    setting: 'DATA_CAPTURE_S3_BUCKET',
    why: 'S3 sends the events of a bucket in its own region',
    remedy: 'deploy the stack in the region of the bucket',
    owner: 'deploy the stack in that account, which also receives the events of the bucket',
  });
  if (hasError(found)) return found;
  const more = [
    isOpen && checked('captures', 's3:ListBucket', () => checkArrivals(context, bucket)),
    checked('events', 's3:GetBucketNotification', async () => checkEvents(context, bucket, await context.isDeployed)),
  ];
  return [found, await Promise.all(more)];
}

/** The bucket of a setting that may have a prefix, such as `s3://bucket/prefix`. */
export const bucketOf = (location: string): string => location.replace(/^s3:\/\//, '').split('/')[0] ?? '';

export async function checkArtifacts(context: CheckContext): Promise<Found> {
  const { MLFLOW_ARTIFACT_BUCKET: location, MLFLOW_ARTIFACT_ACCOUNT_ID: account } = context.settings;
  if (location === undefined) return undefined;
  const bucket = bucketOf(location);
  const { found } = await checkPlace(context, bucket, {
    check: 'artifacts',
    setting: 'MLFLOW_ARTIFACT_BUCKET',
    why: 'the functions write to buckets of their own region only, so no trace would be stored',
    remedy: 'use an MLflow in the region of the stack',
    owner:
      account === undefined
        ? 'name that account in MLFLOW_ARTIFACT_ACCOUNT_ID, or correct MLFLOW_ARTIFACT_BUCKET'
        : undefined,
  });
  return found.length > 0 ? found : ok(`The bucket ${bucket} exists, in the region of the stack.`);
}

// -------------------------------------------------------------------------------------------------------- arrivals

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

interface Newest {
  key: string;
  time: Date;
}

/** An endpoint has at most this many variants. */
const MAX_VARIANTS = 10;
/** Variant, year, month, day, hour. */
const MAX_DEPTH = 5;

const DATED = /\/\d+\/$/;

/** Finds the newest capture by the last folder of each level: a listing for each, however many captures there are. */
async function newestCapture(s3: S3Client, Bucket: string, Prefix: string, depth = 0): Promise<Newest | undefined> {
  const page = await s3.send(new ListObjectsV2Command({ Bucket, Prefix, Delimiter: '/' }));
  const files = (page.Contents ?? []).flatMap(({ Key, Size, LastModified }) =>
    Key?.endsWith('.jsonl') && Size ? [{ key: Key, time: LastModified ?? new Date(0) }] : [],
  );
  const folders = depth < MAX_DEPTH ? (page.CommonPrefixes ?? []).map((folder) => folder.Prefix ?? '') : [];
  const dated = folders.filter((folder) => DATED.test(folder));
  const next = dated.length > 0 ? dated.slice(-1) : folders.slice(0, MAX_VARIANTS);
  const below = await Promise.all(next.map((folder) => newestCapture(s3, Bucket, folder, depth + 1)));
  const all = [...files, ...below.filter((one) => one !== undefined)];
  return all.toSorted((a, b) => b.time.getTime() - a.time.getTime())[0];
}

const ago = (ms: number): string => {
  const hours = Math.floor(ms / HOUR_MS);
  if (hours < 1) return `${Math.max(0, Math.floor(ms / 60_000))} minutes`;
  return hours < 48 ? `${hours} hours` : `${Math.floor(hours / 24)} days`;
};

/** Checks that captures arrive, and that they can be read. */
async function checkArrivals(context: CheckContext, bucket: string): Promise<Found> {
  const { s3, capturePrefix: prefix = '' } = context;
  const where = `s3://${bucket}/${prefix}`;
  const newest = await newestCapture(s3, bucket, prefix);
  if (newest === undefined) {
    const repair = 'check DATA_CAPTURE_S3_PREFIX, and call the endpoint: its first captures come within minutes';
    return warning(`There are no captures under ${where}.`, repair);
  }
  const unread = await readFault(s3, bucket, newest.key);
  if (unread !== undefined) return unread;
  const age = Date.now() - newest.time.getTime();
  const message = `The newest capture under ${where} came ${ago(age)} ago.`;
  if (age <= DAY_MS) return ok(message);
  const { SAGEMAKER_ENDPOINT_NAME: name = '' } = context.settings;
  const calls = await invocations(context.lambda, name, Date.now() - DAY_MS, Date.now()).catch(() => undefined);
  if (calls === 0) return warning(`${message} Nobody called the endpoint in the last 24 hours.`, 'call it');
  const used =
    calls === undefined ? '' : ` The endpoint had ${calls.toLocaleString('en-US')} invocations in the last 24 hours.`;
  const repair =
    'check that Data Capture is on, and that the disk of its instances is less than 75% full (CapturesMissing in docs/runbook.md)';
  return warning(`${message}${used}`, repair);
}

async function readFault(s3: S3Client, Bucket: string, Key: string): Promise<Found> {
  try {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key, Range: 'bytes=0-0' }));
    await Body?.transformToByteArray();
    return undefined;
  } catch (error) {
    if (!(error instanceof S3ServiceException)) throw error;
    const repair =
      error.name === 'InvalidObjectState'
        ? 'it is archived: a backfill reports it as CaptureArchived'
        : 'needs s3:GetObject; set DATA_CAPTURE_KMS_KEY_ARN if a KMS key of yours encrypts it';
    return warning(`s3://${Bucket}/${Key} could not be read (${error.name}).`, repair);
  }
}

/** Checks that the bucket sends events to EventBridge. The deployment switches it on. @param isDeployed `undefined` if unknown */
async function checkEvents({ s3 }: CheckContext, Bucket: string, isDeployed: boolean | undefined): Promise<Found> {
  const reply = await s3.send(new GetBucketNotificationConfigurationCommand({ Bucket }));
  const { TopicConfigurations = [], QueueConfigurations = [], LambdaFunctionConfigurations = [] } = reply;
  const others = TopicConfigurations.length + QueueConfigurations.length + LambdaFunctionConfigurations.length;
  const kept = others === 0 ? '' : ` Its other notifications (${others}) stay.`;
  if (reply.EventBridgeConfiguration) return ok(`The bucket ${Bucket} sends its events to EventBridge.${kept}`);
  if (isDeployed === false) {
    return ok(`The deployment lets the bucket ${Bucket} send its events to EventBridge.${kept}`);
  }
  if (isDeployed === undefined) {
    const message = `The bucket ${Bucket} does not send its events to EventBridge, which a deployment switches on.`;
    return warning(message, 'deploy the stack, or switch it on if it is deployed');
  }
  const message = `The bucket ${Bucket} does not send its events to EventBridge: new captures are not processed.`;
  const repair = `switch it on: S3 console, ${Bucket}, Properties, Amazon EventBridge. Then process what came since then`;
  return broken(message, repair);
}

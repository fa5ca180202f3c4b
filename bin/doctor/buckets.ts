/** Checks the buckets that exist before the stack: that of the captures and that of MLflow's artifacts. */
import { HeadBucketCommand, ListBucketsCommand, type S3Client, type S3ServiceException } from '@aws-sdk/client-s3';
import { httpStatusOf } from '../../src/core/aws/storage-errors.ts';
import { checkArrivals, checkEvents } from './arrivals.ts';
import { checked, type Finding, type Found, findingsOf } from './finding.ts';
import type { Ground } from './ground.ts';

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
  /** The consequence of another region. */
  why: string;
  remedy: string;
}

/** Region and existence of a bucket. */
async function checkPlace({ s3, region: ours }: Ground, bucket: string, place: Place): Promise<Finding | undefined> {
  const { check, setting, why, remedy } = place;
  const { error, unknown } = findingsOf(check);
  const { region, state } = await look(s3, bucket);
  if (state === 'missing') return error(`The bucket ${bucket} does not exist.`, `create it, or correct ${setting}`);
  if (region !== undefined && region !== ours) {
    return error(`The bucket ${bucket} is in ${region}, and the stack in ${ours}: ${why}.`, remedy);
  }
  if (state === 'there') return undefined;
  const repair = `allow yourself s3:ListBucket, or correct ${setting} if the bucket is somebody else's`;
  return unknown(`S3 denies you the bucket ${bucket}.`, repair);
}

/** Checks what a deployment with a wrong capture bucket would only find out while it is rolled back, and what arrives. */
export async function checkCaptures(ground: Ground): Promise<Found> {
  const { DATA_CAPTURE_S3_BUCKET: bucket } = ground.settings;
  if (bucket === undefined || ground.capturePrefix === undefined) return undefined;
  const check = 'captures';
  const wrong = await checkPlace(ground, bucket, {
    check,
    setting: 'DATA_CAPTURE_S3_BUCKET',
    why: 'S3 sends the events of a bucket in its own region',
    remedy: 'deploy the stack in the region of the bucket',
  });
  if (wrong?.level === 'error') return wrong;
  const remedy = 'deploy the stack in that account, which also receives the events of the bucket';
  const owner = await checkOwner(ground.s3, bucket, check, remedy);
  if (owner.some(({ level }) => level === 'error')) return owner;
  const more = [
    wrong ?? checked(check, 's3:ListBucket', () => checkArrivals(ground, bucket)),
    checked('events', 's3:GetBucketNotification', async () => checkEvents(ground, bucket, await ground.isDeployed)),
  ];
  return [owner, await Promise.all(more)];
}

const checkOwner = (s3: S3Client, bucket: string, check: string, remedy: string): Promise<Finding[]> =>
  checked(check, 's3:ListAllMyBuckets', async () => {
    // Only the account's own buckets are listed, in any region.
    const { Buckets = [] } = await s3.send(new ListBucketsCommand({ Prefix: bucket }));
    const isOwn = Buckets.some(({ Name }) => Name === bucket);
    return !isOwn && findingsOf(check).error(`The bucket ${bucket} belongs to another account.`, remedy);
  });

/** The bucket of a setting that may have a prefix, such as `s3://bucket/prefix`. */
export const bucketOf = (location: string): string => location.replace(/^s3:\/\//, '').split('/')[0] ?? '';

export async function checkArtifacts(ground: Ground): Promise<Found> {
  const { MLFLOW_ARTIFACT_BUCKET: location, MLFLOW_ARTIFACT_ACCOUNT_ID: account } = ground.settings;
  if (location === undefined) return undefined;
  const bucket = bucketOf(location);
  const check = 'artifacts';
  const wrong = await checkPlace(ground, bucket, {
    check,
    setting: 'MLFLOW_ARTIFACT_BUCKET',
    why: 'the functions write to buckets of their own region only, so no trace would be stored',
    remedy: 'use an MLflow in the region of the stack',
  });
  if (wrong?.level === 'error') return wrong;
  const remedy = 'name that account in MLFLOW_ARTIFACT_ACCOUNT_ID, or correct MLFLOW_ARTIFACT_BUCKET';
  const owner = account === undefined ? await checkOwner(ground.s3, bucket, check, remedy) : [];
  if (owner.length > 0) return owner;
  return wrong ?? findingsOf(check).ok(`The bucket ${bucket} exists, in the region of the stack.`);
}

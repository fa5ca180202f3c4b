/** Checks the buckets that exist before the stack: that of the captures and that of MLflow's artifacts. */
import {
  GetObjectCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  type S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import type { CheckedSettings } from '../../src/settings/schema.ts';
import { httpStatusOf } from '../../src/shared/storage-errors.ts';
import { checked, type Finding, finding } from './finding.ts';

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

/** Region and existence of a bucket. @param why the consequence of another region */
async function checkPlace(
  s3: S3Client,
  bucket: string,
  place: { subject: string; setting: string; region: string; why: string },
): Promise<Finding | undefined> {
  const { subject, setting, region: ours, why } = place;
  const { region, state } = await look(s3, bucket);
  if (state === 'missing') {
    return finding('error', subject, `The bucket ${bucket} does not exist: create it, or correct ${setting}.`);
  }
  if (region !== undefined && region !== ours) {
    return finding('error', subject, `The bucket ${bucket} is in ${region}, and the stack in ${ours}: ${why}.`);
  }
  if (state === 'denied') {
    const message = `S3 denies you the bucket ${bucket}: allow yourself s3:ListBucket, or correct ${setting} if the bucket is somebody else's.`;
    return finding('warning', subject, message);
  }
  return undefined;
}

/** Checks what a deployment with a wrong capture bucket would only find out while it is rolled back. */
export async function checkCaptures(
  s3: S3Client,
  settings: Partial<CheckedSettings>,
  region: string,
): Promise<Finding[]> {
  const { DATA_CAPTURE_S3_BUCKET: bucket, SAGEMAKER_ENDPOINT_NAME: endpoint } = settings;
  const prefix = settings.DATA_CAPTURE_S3_PREFIX ?? (endpoint && `${endpoint}/`);
  if (bucket === undefined || prefix === undefined) return [];
  const subject = 'captures';
  const wrong = await checkPlace(s3, bucket, {
    subject,
    setting: 'DATA_CAPTURE_S3_BUCKET',
    region,
    why: `S3 sends the events of a bucket in its own region, so deploy the stack there`,
  });
  if (wrong?.level === 'error') return [wrong];
  const owner = await checked(subject, 's3:ListAllMyBuckets', () => checkOwner(s3, bucket));
  if (owner.some(({ level }) => level === 'error')) return owner;
  if (wrong !== undefined) return [wrong, ...owner];
  return [
    ...owner,
    ...(await checked(subject, 's3:ListBucket and s3:GetObject', () => checkPrefix(s3, bucket, prefix))),
  ];
}

async function checkOwner(s3: S3Client, bucket: string): Promise<Finding[]> {
  // Only the account's own buckets are listed, in any region.
  const { Buckets = [] } = await s3.send(new ListBucketsCommand({ Prefix: bucket }));
  if (Buckets.some(({ Name }) => Name === bucket)) return [];
  const message = `The bucket ${bucket} belongs to another account, which also receives its events: deploy the stack in that account.`;
  return [finding('error', 'captures', message)];
}

/** Captures of an endpoint begin with its first hour: so many keys hold one, unless the prefix is wrong. */
const LISTED_KEYS = 1_000;

async function checkPrefix(s3: S3Client, bucket: string, prefix: string): Promise<Finding[]> {
  const where = `s3://${bucket}/${prefix}`;
  const list = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, MaxKeys: LISTED_KEYS });
  const { Contents = [] } = await s3.send(list);
  const capture = Contents.find(({ Key, Size }) => Key?.endsWith('.jsonl') && Size);
  if (capture === undefined) {
    const message = `There are no captures under ${where}: check DATA_CAPTURE_S3_PREFIX, and that Data Capture is on. The stack processes those that come.`;
    return [finding('warning', 'captures', message)];
  }
  try {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: capture.Key, Range: 'bytes=0-0' }));
    await Body?.transformToByteArray();
  } catch (error) {
    if (!(error instanceof S3ServiceException)) throw error;
    const remedy =
      error.name === 'InvalidObjectState'
        ? 'it is archived, which a backfill reports as CaptureArchived'
        : 'allow yourself s3:GetObject, and set DATA_CAPTURE_KMS_KEY_ARN if a KMS key of yours encrypts it';
    return [
      finding('warning', 'captures', `s3://${bucket}/${capture.Key} could not be read (${error.name}): ${remedy}.`),
    ];
  }
  return [finding('ok', 'captures', `There are captures under ${where}, in the region of the stack.`)];
}

export async function checkArtifacts(
  s3: S3Client,
  settings: Partial<CheckedSettings>,
  region: string,
): Promise<Finding[]> {
  const bucket = settings.MLFLOW_ARTIFACT_BUCKET?.replace(/^s3:\/\//, '').split('/')[0];
  if (bucket === undefined) return [];
  const wrong = await checkPlace(s3, bucket, {
    subject: 'artifacts',
    setting: 'MLFLOW_ARTIFACT_BUCKET',
    region,
    why: 'the functions write to buckets of their own region only, so no trace would be stored',
  });
  return [wrong ?? finding('ok', 'artifacts', `The bucket ${bucket} exists, in the region of the stack.`)];
}

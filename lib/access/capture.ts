/** Permission to read captures and labels: the prefix of the bucket, and the KMS key if the bucket has one. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../../src/core/settings/schema.ts';
import { allow, escapeIamPattern, grantKey, inAccount } from './allow.ts';

/** @param prefix of the keys */
export const grantCaptureRead = (role: Role, settings: Settings, prefix = settings.DATA_CAPTURE_S3_PREFIX): void =>
  grantObjectRead(role, {
    bucket: settings.DATA_CAPTURE_S3_BUCKET,
    prefix,
    key: settings.DATA_CAPTURE_KMS_KEY_ARN,
    why: 'The capture files of this endpoint: SageMaker names them by variant, hour and a random id.',
  });

interface ReadPlace {
  bucket: string;
  /** Of the keys; empty for the whole bucket. */
  prefix: string;
  /** The ARN of the bucket's key, if it is one of the person's. */
  key: string | undefined;
  /** Why the names of the objects are not known. */
  why: string;
}

/** Grants reading a place in a bucket of the stack's account: a name alone may be that of anybody's bucket. */
export function grantObjectRead(role: Role, { bucket, prefix, key, why }: ReadPlace): void {
  const { partition, account } = Stack.of(role);
  const bucketArn = `arn:${partition}:s3:::${bucket}`;
  const ofAccount = inAccount(account);
  const keys = `${escapeIamPattern(prefix)}*`;
  const actions = ['s3:GetObject', 's3:GetObjectVersion'];
  allow(role, { actions, resources: [`${bucketArn}/${keys}`], conditions: ofAccount, why });
  // Without this permission S3 answers 403 for a missing file, which looks like another fault. The condition is met
  // there too, since S3 uses the requested key as the prefix.
  allow(role, {
    actions: ['s3:ListBucket'],
    resources: [bucketArn],
    conditions: { ...ofAccount, StringLike: { 's3:prefix': [keys] } },
  });
  grantKey(role, key, 's3', 'read');
}

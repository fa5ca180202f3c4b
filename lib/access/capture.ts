/** Permission to read captures and labels: the prefix of the bucket, and the bucket's KMS key, if any. */
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

/**
 * `prefix`: of the keys; empty for the whole bucket. `why`: the reason why the names of the objects are unknown. `key`: the ARN of the
 * bucket's key, if it is a customer key.
 */
type ReadPlace = Record<'bucket' | 'prefix' | 'why', string> & { key: string | undefined };

/**
 * Grants reading a location in a bucket of the stack's account. The name alone may belong to a bucket of any account.
 */
export function grantObjectRead(role: Role, { bucket, prefix, key, why }: ReadPlace): void {
  const { partition, account } = Stack.of(role);
  const bucketArn = `arn:${partition}:s3:::${bucket}`;
  const ofAccount = inAccount(account);
  const keys = `${escapeIamPattern(prefix)}*`;
  const actions = ['s3:GetObject', 's3:GetObjectVersion'];
  allow(role, { actions, resources: [`${bucketArn}/${keys}`], conditions: ofAccount, why });
  // Without this permission S3 answers 403 for a missing file, which looks like another fault. The condition is met in
  // that case too, because S3 uses the requested key as the prefix.
  allow(role, {
    actions: ['s3:ListBucket'],
    resources: [bucketArn],
    conditions: { ...ofAccount, StringLike: { 's3:prefix': [keys] } },
  });
  grantKey(role, key, 's3', 'read');
}

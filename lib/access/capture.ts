/** Permission to read captures: the endpoint's prefix of the bucket, and the KMS key if the bucket has one. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../../src/settings/schema.ts';
import { allow } from './allow.ts';
import { escapeIamPattern } from './iam-pattern.ts';
import { grantKey } from './key.ts';

export function grantCaptureRead(role: Role, settings: Settings): void {
  const { DATA_CAPTURE_S3_BUCKET: bucket, DATA_CAPTURE_KMS_KEY_ARN: key } = settings;
  const { partition } = Stack.of(role);
  const bucketArn = `arn:${partition}:s3:::${bucket}`;
  const keys = `${escapeIamPattern(settings.DATA_CAPTURE_S3_PREFIX)}*`;
  allow(role, {
    actions: ['s3:GetObject', 's3:GetObjectVersion'],
    resources: [`${bucketArn}/${keys}`],
    why: 'The capture files of this endpoint: SageMaker names them by variant, hour and a random id.',
  });
  // Without this permission S3 answers 403 for a missing file, which looks like another fault. The condition is met
  // there too, since S3 uses the requested key as the prefix.
  allow(role, {
    actions: ['s3:ListBucket'],
    resources: [bucketArn],
    conditions: { StringLike: { 's3:prefix': [keys] } },
  });
  grantKey(role, key, 's3', 'read');
}

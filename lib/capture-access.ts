/** Permission to read captures: the endpoint's prefix of the bucket, and its key where it is encrypted with one. */
import type { Stack } from 'aws-cdk-lib';
import { type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Settings } from './settings.ts';

export function grantCaptureRead(stack: Stack, grantee: IGrantable, settings: Settings): void {
  const { DATA_CAPTURE_S3_BUCKET: bucket, DATA_CAPTURE_S3_PREFIX: prefix, DATA_CAPTURE_KMS_KEY_ARN: key } = settings;
  const bucketArn = `arn:${stack.partition}:s3:::${bucket}`;
  const principal = grantee.grantPrincipal;
  principal.addToPrincipalPolicy(
    new PolicyStatement({ actions: ['s3:GetObject', 's3:GetObjectVersion'], resources: [`${bucketArn}/${prefix}*`] }),
  );
  // Without it S3 answers 403 where a file is missing, and a person looks for the wrong fault.
  principal.addToPrincipalPolicy(
    new PolicyStatement({
      actions: ['s3:ListBucket'],
      resources: [bucketArn],
      conditions: { StringLike: { 's3:prefix': [`${prefix}*`] } },
    }),
  );
  if (key !== undefined) {
    principal.addToPrincipalPolicy(new PolicyStatement({ actions: ['kms:Decrypt'], resources: [key] }));
  }
}

/** Permission for the parts of the work bucket that a function uses. */
import { type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';

/** @param read, write key patterns under the bucket, e.g. `runs/*`. */
export function grantWork(bucket: IBucket, grantee: IGrantable, access: { read?: string[]; write?: string[] }): void {
  const principal = grantee.grantPrincipal;
  const add = (actions: string[], resources: string[]): void => {
    if (resources.length > 0) principal.addToPrincipalPolicy(new PolicyStatement({ actions, resources }));
  };
  const arns = (keys: string[] = []): string[] => keys.map((key) => bucket.arnForObjects(key));
  add(['s3:GetObject'], arns(access.read));
  add(['s3:PutObject', 's3:AbortMultipartUpload'], arns(access.write));
  if (access.read !== undefined) add(['s3:ListBucket'], [bucket.bucketArn]);
}

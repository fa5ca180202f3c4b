/** Permission to use areas of the work bucket. */
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { areaPattern, type WorkArea } from '../../src/core/contract/work-keys.ts';
import { allow, grantKey } from './allow.ts';

/** The reason for the wildcards in the patterns of areas. */
export const WHY_WORK_AREA =
  "Objects of the stack's own work bucket are named by run, chunk and attempt; this is one kind of object.";

/**
 * Areas that are read and listed, that are written, that are written by multipart upload, since the length is unknown in advance, and
 * whose objects are deleted.
 */
export type WorkAccess = Partial<Record<'read' | 'write' | 'upload' | 'remove', WorkArea[]>>;

/** Grants a role access to areas of the work bucket. */
export function grantWork(bucket: IBucket, role: Role, access: WorkAccess): void {
  const add = (actions: string[], areas: WorkArea[] = []): void => {
    const resources = areas.map((area) => bucket.arnForObjects(areaPattern(area)));
    if (resources.length > 0) allow(role, { actions, resources, why: WHY_WORK_AREA });
  };
  add(['s3:GetObject'], access.read);
  add(['s3:PutObject'], [...(access.write ?? []), ...(access.upload ?? [])]);
  add(['s3:AbortMultipartUpload'], access.upload);
  add(['s3:DeleteObject'], access.remove);
  // Without this permission S3 answers 403 for a missing object.
  if (access.read !== undefined) allow(role, { actions: ['s3:ListBucket'], resources: [bucket.bucketArn] });
  const isRead = access.read !== undefined;
  const isBoth = access.upload !== undefined || (isRead && access.write !== undefined);
  grantKey(role, bucket.encryptionKey?.keyArn, 's3', isBoth ? 'both' : isRead ? 'read' : 'write');
}

/** Permission to use areas of the work bucket. */
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { ledgerKeys, markKeys, replayKeys, truthKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { allow, grantKey } from './allow.ts';

const ANY_RUN = '*';

/** The areas of the work bucket by their content, as key patterns of a policy. */
export const workPatterns = {
  starts: `${workKeys.startsPrefix}*`,
  manifest: `${workKeys.manifestPrefix(ANY_RUN)}*`,
  ranges: `${workKeys.rangesPrefix(ANY_RUN)}*`,
  plan: `${workKeys.planPrefix(ANY_RUN)}*`,
  receipts: `${workKeys.receiptPrefix(ANY_RUN)}*`,
  words: `${workKeys.wordsPrefix(ANY_RUN)}*`,
  mapResult: `${workKeys.mapResultPrefix(ANY_RUN)}/*`,
  batchMapResult: `${workKeys.batchMapResultPrefix(ANY_RUN)}/*`,
  summary: workKeys.summary(ANY_RUN),
  summaryState: `${workKeys.summaryStatePrefix(ANY_RUN)}*`,
  lineAtWork: `${workKeys.lineAtWorkPrefix(ANY_RUN)}*`,
  answers: `${workKeys.answersOf(ANY_RUN)}*`,
  quarantine: `${workKeys.quarantinePrefix(ANY_RUN)}*`,
  claims: workKeys.claim('*'),
  counts: `${workKeys.countsPrefix}*`,
  measured: `${workKeys.measuredPrefix}*`,
  ledger: `${ledgerKeys.prefix}*`,
  capturesLedger: `${ledgerKeys.table('captures')}*`,
  verdictsLedger: `${ledgerKeys.table('verdicts')}*`,
  forgotten: ledgerKeys.forgotten,
  excluded: ledgerKeys.excluded,
  reports: `${workKeys.reportsPrefix}*`,
  forwards: `${workKeys.forwardsPrefix}*`,
  batchState: `${workKeys.batchStatePrefix(ANY_RUN)}*`,
  batchManifest: workKeys.batchManifest(ANY_RUN),
  batchInput: `${workKeys.batchInputsPrefix(ANY_RUN)}*`,
  batchOutput: `${workKeys.batchOutputPrefix(ANY_RUN)}*`,
  inferences: `${ledgerKeys.table('inferences')}*`,
  inferenceIds: `${ledgerKeys.table('ids/inferences')}*`,
  truthUploads: `${truthKeys.uploadsPrefix}*`,
  truthWaiting: `${truthKeys.waitingPrefix}*`,
  truthFiles: `${truthKeys.filesPrefix}*`,
  truthLabeled: `${truthKeys.labeledPrefix}*`,
  truthOpen: `${truthKeys.toPublishPrefix}*`,
  truthRuns: `${truthKeys.runsPrefix}*`,
  truthReports: `${truthKeys.reportsPrefix}*`,
  replayMarks: `${markKeys.prefix}*`,
  replayPlan: replayKeys.plan(ANY_RUN),
  replayManifest: replayKeys.manifest(ANY_RUN),
  replaySchedule: `${replayKeys.schedulePrefix(ANY_RUN)}*`,
  replayStop: replayKeys.stop(ANY_RUN),
  replayShards: `${replayKeys.shardsPrefix(ANY_RUN)}*`,
  replayMapResult: `${replayKeys.mapResultPrefix(ANY_RUN)}/*`,
  replayExchanges: `${replayKeys.exchangesPrefix(ANY_RUN)}*`,
  replayVerdicts: `${replayKeys.verdictsPrefix(ANY_RUN)}*`,
  replayPublication: replayKeys.publication(ANY_RUN),
  replayResults: `${replayKeys.resultPrefix(ANY_RUN)}*`,
};

export type WorkArea = keyof typeof workPatterns;

/** The reason for the wildcards in these patterns. */
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
    const resources = areas.map((area) => bucket.arnForObjects(workPatterns[area]));
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

/** The bucket for the pipeline's own objects. No rule for captures matches its events, so its objects cannot start the pipeline. */
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { KEPT_DAYS } from '../src/core/contract/kept.ts';
import { areaOf, ledgerKeys } from '../src/core/contract/work-keys.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { workKey } from './access/allow.ts';
import { acknowledge } from './acknowledge.ts';

/** With 0 days no ids are written, and earlier ids are deleted. */
const idDays = ({ GROUND_TRUTH: { days } }: Settings): number => Math.max(1, days);

export function workBucketOf(parent: Construct, id: string, settings: Settings): Bucket {
  const scope = new Construct(parent, id);
  const encryptionKey = workKey(scope, settings);
  const bucket = new Bucket(scope, 'Bucket', {
    ...(encryptionKey
      ? // A bucket key spares a request to KMS for each object.
        { encryption: BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }
      : { encryption: BucketEncryption.S3_MANAGED }),
    enforceSSL: true,
    minimumTLSVersion: 1.2,
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    // Once the capture bucket expires them, quarantined lines exist only here: deleting the stack must not delete them. A
    // deployment that fails deletes the empty bucket that it has created.
    removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    lifecycleRules: [
      { id: 'starts', prefix: 'starts/', expiration: Duration.days(KEPT_DAYS.runs) },
      { id: 'runs', prefix: 'runs/', expiration: Duration.days(KEPT_DAYS.runs) },
      // Kept as long as a run can be retried, because a retry reuses the judge's answers.
      { id: 'answers', prefix: 'answers/', expiration: Duration.days(KEPT_DAYS.runs) },
      { id: 'replays', prefix: 'replays/', expiration: Duration.days(KEPT_DAYS.replays) },
      { id: 'replay-marks', prefix: areaOf('replayMarks'), expiration: Duration.days(KEPT_DAYS.marks) },
      { id: 'batch', prefix: 'batch/', expiration: Duration.days(KEPT_DAYS.batch) },
      { id: 'claims', prefix: 'claims/', expiration: Duration.days(KEPT_DAYS.claims) },
      { id: 'counts', prefix: areaOf('counts'), expiration: Duration.days(KEPT_DAYS.counts) },
      // If two rules match, S3 follows the rule with fewer days.
      { id: 'people', prefix: ledgerKeys.table('ids/people'), expiration: Duration.days(KEPT_DAYS.people) },
      { id: 'ids', prefix: ledgerKeys.table('ids/inferences'), expiration: Duration.days(idDays(settings)) },
      { id: 'ledger', prefix: areaOf('ledger'), expiration: Duration.days(KEPT_DAYS.counts) },
      { id: 'athena', prefix: ledgerKeys.resultsPrefix, expiration: Duration.days(KEPT_DAYS.athena) },
      { id: 'reports', prefix: areaOf('reports'), expiration: Duration.days(KEPT_DAYS.runs) },
      { id: 'label-runs', prefix: areaOf('truthRuns'), expiration: Duration.days(KEPT_DAYS.runs) },
      { id: 'label-uploads', prefix: areaOf('truthUploads'), expiration: Duration.days(KEPT_DAYS.runs) },
      // Labeled predictions and their outcomes, for comparison with the same season.
      { id: 'label-files', prefix: areaOf('truthFiles'), expiration: Duration.days(KEPT_DAYS.counts) },
      { id: 'labeled', prefix: areaOf('truthLabeled'), expiration: Duration.days(KEPT_DAYS.counts) },
      { id: 'labels-to-note', prefix: areaOf('truthOpen'), expiration: Duration.days(KEPT_DAYS.counts) },
      { id: 'label-reports', prefix: areaOf('truthReports'), expiration: Duration.days(KEPT_DAYS.counts) },
      // Runs remove labels that have waited for longer than GROUND_TRUTH allows, and count them. Without captures, no
      // runs do.
      { id: 'labels-waiting', prefix: areaOf('truthWaiting'), expiration: Duration.days(KEPT_DAYS.counts) },
      { id: 'quarantine', prefix: 'quarantine/', expiration: Duration.days(KEPT_DAYS.quarantine) },
      // Needed even without ARTHUR_HOST: an earlier deployment may have had it, and receipts may quote captures.
      { id: 'forwards', prefix: areaOf('forwards'), expiration: Duration.days(KEPT_DAYS.forwards) },
      { id: 'unfinished-uploads', abortIncompleteMultipartUploadAfter: Duration.days(1) },
    ],
  });
  acknowledge(bucket, {
    'AwsSolutions-S1':
      'Access logs of a work bucket would be a second bucket to secure; CloudTrail data events can be enabled if needed.',
  });
  return bucket;
}

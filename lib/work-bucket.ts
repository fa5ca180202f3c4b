/** The bucket for the pipeline's own objects. It sends no events, so nothing in it can start the pipeline. */
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { markKeys, truthKeys, workKeys } from '../src/core/contract/work-keys.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { workKey } from './access/allow.ts';
import { acknowledge } from './acknowledge.ts';

/** Receipts and summaries: three months, so that last month's run can be retried. */
const RUNS_DAYS = 90;
/** A claim matters only while its execution runs. Step Functions allows a year, but runs take hours or days. */
const CLAIMS_DAYS = 14;
/** Results of replays, with the requests that were sent: as long as runs, to compare a release with the previous one. */
const REPLAYS_DAYS = 90;
/** Requests and answers of batch inference contain captured text. A job waits for a day at most, and ends within another. */
const BATCH_DAYS = 7;
/** Counts by hour outlive the runs: two years, to compare with the same season. A day takes some 100 kB. */
const COUNTS_DAYS = 731;
/** Receipts of forwarded files: without one, a file would be forwarded again. */
const FORWARDS_DAYS = 400;
/** Registrations of replays: as long as captures of that time can be processed again. */
const MARKS_DAYS = 400;
/** Lines that could not become traces: a year to fix the cause and retry them. */
const QUARANTINE_DAYS = 365;

/** At 0 days nothing is written, and what was written before goes. */
const indexDays = ({ GROUND_TRUTH: { days } }: Settings): number => Math.max(1, days);

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
      { id: 'starts', prefix: 'starts/', expiration: Duration.days(RUNS_DAYS) },
      { id: 'runs', prefix: 'runs/', expiration: Duration.days(RUNS_DAYS) },
      // As long as a run can be retried, since a retry reuses the judge's answers.
      { id: 'answers', prefix: 'answers/', expiration: Duration.days(RUNS_DAYS) },
      { id: 'replays', prefix: 'replays/', expiration: Duration.days(REPLAYS_DAYS) },
      { id: 'replay-marks', prefix: markKeys.prefix, expiration: Duration.days(MARKS_DAYS) },
      { id: 'batch', prefix: 'batch/', expiration: Duration.days(BATCH_DAYS) },
      { id: 'claims', prefix: 'claims/', expiration: Duration.days(CLAIMS_DAYS) },
      { id: 'counts', prefix: workKeys.countsPrefix, expiration: Duration.days(COUNTS_DAYS) },
      { id: 'reports', prefix: workKeys.reportsPrefix, expiration: Duration.days(RUNS_DAYS) },
      { id: 'label-runs', prefix: truthKeys.runsPrefix, expiration: Duration.days(RUNS_DAYS) },
      { id: 'label-uploads', prefix: truthKeys.uploadsPrefix, expiration: Duration.days(RUNS_DAYS) },
      // Labeled predictions and what was said about them, to compare with the same season.
      { id: 'label-files', prefix: truthKeys.filesPrefix, expiration: Duration.days(COUNTS_DAYS) },
      { id: 'labeled', prefix: truthKeys.labeledPrefix, expiration: Duration.days(COUNTS_DAYS) },
      { id: 'labels-to-note', prefix: truthKeys.toPublishPrefix, expiration: Duration.days(COUNTS_DAYS) },
      { id: 'label-reports', prefix: truthKeys.reportsPrefix, expiration: Duration.days(COUNTS_DAYS) },
      // Runs remove what has waited for longer than GROUND_TRUTH allows, and count it. Without captures there are none.
      { id: 'labels-waiting', prefix: truthKeys.waitingPrefix, expiration: Duration.days(COUNTS_DAYS) },
      { id: 'ground-truth-index', prefix: truthKeys.indexPrefix, expiration: Duration.days(indexDays(settings)) },
      { id: 'quarantine', prefix: 'quarantine/', expiration: Duration.days(QUARANTINE_DAYS) },
      ...(settings.ARTHUR_HOST === undefined
        ? []
        : [{ id: 'forwards', prefix: workKeys.forwardsPrefix, expiration: Duration.days(FORWARDS_DAYS) }]),
      { id: 'unfinished-uploads', abortIncompleteMultipartUploadAfter: Duration.days(1) },
    ],
  });
  acknowledge(bucket, {
    'AwsSolutions-S1':
      'Access logs of a work bucket would be a second bucket to secure; CloudTrail data events can be enabled if needed.',
  });
  return bucket;
}

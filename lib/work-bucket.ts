/** The bucket for what the pipeline itself writes; it tells nobody of its objects, so that nothing in it can start the pipeline. */
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { acknowledge } from './acknowledge.ts';

/** Receipts and summaries: a quarter, so that a retry of last month's run is possible. */
const RUNS_DAYS = 90;
/** A claim matters while its execution runs, a year at most by Step Functions; weeks are ample. */
const CLAIMS_DAYS = 14;
/** Results of replays, with the requests that were sent: as long as runs, to compare one release with the last. */
const REPLAYS_DAYS = 90;
/** Requests and answers of batch inference hold captured text; a job ends within a day or two. */
const BATCH_DAYS = 7;
/** What could not be understood: a year to fix it and put it back. */
const QUARANTINE_DAYS = 365;

export class WorkBucket extends Construct {
  readonly bucket: Bucket;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    this.bucket = new Bucket(this, 'Bucket', {
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      minimumTLSVersion: 1.2,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      // Quarantined lines exist nowhere else once the capture bucket forgets them: a deleted stack must not take them along.
      removalPolicy: RemovalPolicy.RETAIN,
      lifecycleRules: [
        { id: 'runs', prefix: 'runs/', expiration: Duration.days(RUNS_DAYS) },
        // As long as a run can be retried: a retry takes what the judge has answered in it.
        { id: 'answers', prefix: 'answers/', expiration: Duration.days(RUNS_DAYS) },
        { id: 'replays', prefix: 'replays/', expiration: Duration.days(REPLAYS_DAYS) },
        { id: 'batch', prefix: 'batch/', expiration: Duration.days(BATCH_DAYS) },
        { id: 'claims', prefix: 'claims/', expiration: Duration.days(CLAIMS_DAYS) },
        { id: 'quarantine', prefix: 'quarantine/', expiration: Duration.days(QUARANTINE_DAYS) },
        { id: 'unfinished-uploads', abortIncompleteMultipartUploadAfter: Duration.days(1) },
      ],
    });
    acknowledge(this.bucket, {
      'AwsSolutions-S1':
        'Access logs of a work bucket would be a second bucket to secure; CloudTrail data events can be switched on where they are wanted.',
    });
  }
}

/** What the product believes about AWS, and no emulator can prove: each belief with the file that relies on it. */

/** The part of the canary that checks an assertion. */
export type StepName =
  | 'deploy'
  | 'judge'
  | 'refusals'
  | 'services'
  | 'replay'
  | 'stop'
  | 'redeploy'
  | 'observe'
  | 'batch'
  | 'destroy';

export interface Assertion {
  step: StepName;
  /** What must be seen, as a sentence. */
  text: string;
  /** The file that relies on it. */
  file: string;
  /** Why the emulator cannot show it. */
  emulator?: string;
}

const NO_METRICS = 'the emulator makes no metrics';
const NO_BEDROCK = 'a stand-in answers for Bedrock';

export const ASSERTIONS = {
  'stack-deploys': {
    step: 'deploy',
    text: 'CloudFormation creates every resource of the template',
    file: 'lib/monitoring-stack.ts',
  },
  'event-in-a-minute': {
    step: 'judge',
    text: 'An object in the capture bucket starts an execution within a minute, through EventBridge',
    file: 'lib/object-rule.ts',
  },
  'schema-accepted': {
    step: 'judge',
    text: 'The judge’s model accepts the request with its schema: every capture is judged, no verdict fails',
    file: 'src/judge/transports/bedrock.ts',
  },
  'budget-booked': {
    step: 'judge',
    text: 'The budget’s item in DynamoDB holds what the summary says was spent',
    file: 'src/limits/budget.ts',
  },
  'children-arns': {
    step: 'judge',
    text: 'The ARNs of a Map’s children match the pattern in the state machine’s role',
    file: 'lib/state-machines/pipeline.ts',
  },
  'results-written': {
    step: 'judge',
    text: 'The Map writes its results to the work bucket',
    file: 'lib/state-machines/states.ts',
    emulator: 'the emulator ignores a ResultWriter',
  },
  'mlflow-signature': {
    step: 'judge',
    text: 'Managed MLflow accepts our signature and tells its version',
    file: 'src/mlflow/auth.ts',
    emulator: 'MLflow is a plain server there',
  },
  'traces-stored': {
    step: 'judge',
    text: 'MLflow has a trace for each capture, and their spans can be read',
    file: 'src/mlflow/write-traces.ts',
  },
  'verdicts-stored': {
    step: 'judge',
    text: 'MLflow has all verdicts of the summary, once each',
    file: 'src/mlflow/existing-traces.ts',
  },
  'ledger-agrees': {
    step: 'judge',
    text: 'Each trace and verdict of the ledger is in MLflow, which has no others',
    file: 'bin/doctor/ledger.ts',
  },
  'sql-answers': {
    step: 'judge',
    text: 'Athena finds the rows of the ledger by the projection of partitions, reads the views, and writes results in the workgroup',
    file: 'src/ledger/sql.ts',
    emulator: 'it knows neither views nor projection',
  },
  'event-twice': {
    step: 'refusals',
    text: 'The same event again traces, judges and pays nothing',
    file: 'src/monitoring/plan/claim.ts',
  },
  'missing-is-404': {
    step: 'refusals',
    text: 'A missing file is CaptureMissing, not a denied access: s3:ListBucket with a condition on s3:prefix suffices',
    file: 'lib/access/capture.ts',
  },
  'errors-by-name': {
    step: 'refusals',
    text: 'Step Functions gets the name of a function’s error, and no Retry matches a permanent one',
    file: 'lib/state-machines/retries.ts',
  },
  'wrong-bucket': {
    step: 'refusals',
    text: 'A run on another bucket is refused while it is planned, by name',
    file: 'src/captures/files/capture-objects.ts',
  },
  'throttle-retried': {
    step: 'refusals',
    text: 'A throttled function is Lambda.TooManyRequestsException, and is called again',
    file: 'lib/state-machines/retries.ts',
  },
  'created-once': {
    step: 'services',
    text: 'Of ten writes with If-None-Match at once S3 accepts one, and answers the others with 412 or 409',
    file: 'src/core/aws/storage.ts',
  },
  'replaced-once': {
    step: 'services',
    text: 'Of ten writes with If-Match at once S3 accepts one, and answers the others with 412 or 409',
    file: 'src/monitoring/plan/claim.ts',
  },
  'item-once': {
    step: 'services',
    text: 'Of ten conditional updates of one item at once DynamoDB accepts one, and the others fail their condition',
    file: 'src/limits/table.ts',
  },
  'replay-sent': {
    step: 'replay',
    text: 'A replay in the cloud sends every captured request, and the target answers them',
    file: 'src/replay/cloud/shard/shard.ts',
  },
  'replay-on-time': {
    step: 'replay',
    text: 'Requests are sent on time: 99% within half a second',
    file: 'src/replay/cloud/limits.ts',
  },
  'stop-arrives': {
    step: 'stop',
    text: 'StopExecution reaches the stopping function through EventBridge, and the results are there within two minutes',
    file: 'lib/replay.ts',
  },
  'stop-stops': {
    step: 'stop',
    text: 'No request is sent later than 15 seconds after the stop',
    file: 'src/replay/cloud/work-bucket/stop-order.ts',
  },
  'redeploy-in-a-run': {
    step: 'redeploy',
    text: 'Runs during a deployment succeed, or are refused by name',
    file: 'lib/pipeline-function.ts',
  },
  'heap-honoured': {
    step: 'observe',
    text: 'Lambda’s Node runtime takes its heap from NODE_OPTIONS',
    file: 'lib/settings/function-environment.ts',
  },
  'cache-read': {
    step: 'observe',
    text: 'The beginning of the judge’s prompt is read from the cache',
    file: 'src/judge/transports/bedrock.ts',
    emulator: NO_BEDROCK,
  },
  'bedrock-throttle': {
    step: 'observe',
    text: 'Calls that Bedrock throttles are repeated, and no verdict is lost by them',
    file: 'src/judge/transports/bedrock-failures.ts',
    emulator: NO_BEDROCK,
  },
  'run-metrics': {
    step: 'observe',
    text: 'The log lines of a run become metrics with the one dimension that the alarms watch',
    file: 'src/core/process/logging.ts',
    emulator: NO_METRICS,
  },
  'map-metrics': {
    step: 'observe',
    text: 'The metrics of a Map’s children are under its label',
    file: 'lib/metrics.ts',
    emulator: NO_METRICS,
  },
  'error-without-type': {
    step: 'observe',
    text: 'SageMaker captures a container’s error reply without a content type',
    file: 'src/captures/errors/error-reply.ts',
    emulator: 'no container of SageMaker answers there',
  },
  'alarms-ok': {
    step: 'observe',
    text: 'Every alarm has been evaluated; none but those of the provoked failures is raised',
    file: 'lib/alarms.ts',
    emulator: 'the emulator evaluates no alarms without metrics',
  },
  'logs-delivered': {
    step: 'observe',
    text: 'Executions log to the group of the stack',
    file: 'lib/state-machines/pipeline.ts',
    emulator: 'executions log nothing there',
  },
  'no-dead-letters': {
    step: 'observe',
    text: 'Every event was delivered: the dead-letter queues are empty',
    file: 'lib/event-delivery.ts',
  },
  'batch-accepted': {
    step: 'batch',
    text: 'Bedrock’s batch inference accepts our records, and every answer becomes verdicts (--batch)',
    file: 'src/judge/connect.ts',
  },
  'destroy-complete': {
    step: 'destroy',
    text: 'Deleting the stack keeps the work bucket and nothing else',
    file: 'lib/work-bucket.ts',
  },
  'nothing-left': {
    step: 'destroy',
    text: 'After the cleaning nothing with the canary’s prefix is left in the account',
    file: 'test/aws/steps/destroy.ts',
  },
} satisfies Record<string, Assertion>;

export type AssertionId = keyof typeof ASSERTIONS;
export const ASSERTION_IDS = Object.keys(ASSERTIONS) as AssertionId[];
export const assertionOf = (id: AssertionId): Assertion => ASSERTIONS[id];

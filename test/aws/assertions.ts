/** What the product believes about AWS, and no emulator can prove: each belief with the file that relies on it. */

/** A sentence that must be seen, the file that relies on it, and why the emulator cannot show it. */
type Row = [text: string, file: string, emulator?: string];

const NO_METRICS = 'the emulator makes no metrics';
const NO_BEDROCK = 'a stand-in answers for Bedrock';

/** By the part of the canary that checks them. */
const BY_STEP = {
  deploy: {
    'stack-deploys': ['CloudFormation creates every resource of the template', 'lib/monitoring-stack.ts'],
  },
  judge: {
    'event-in-a-minute': [
      'An object in the capture bucket starts an execution within a minute, through EventBridge',
      'lib/object-rule.ts',
    ],
    'schema-accepted': [
      'The judge’s model accepts the request with its schema: every capture is judged, no verdict fails',
      'src/judge/transports/bedrock.ts',
    ],
    'budget-booked': ['The budget’s item in DynamoDB holds what the summary says was spent', 'src/limits/budget.ts'],
    'children-arns': [
      'The ARNs of a Map’s children match the pattern in the state machine’s role',
      'lib/state-machines/pipeline.ts',
    ],
    'results-written': [
      'The Map writes its results to the work bucket',
      'lib/state-machines/states.ts',
      'the emulator ignores a ResultWriter',
    ],
    'mlflow-signature': [
      'Managed MLflow accepts our signature and tells its version',
      'src/mlflow/auth.ts',
      'MLflow is a plain server there',
    ],
    'traces-stored': ['MLflow has a trace for each capture, and their spans can be read', 'src/mlflow/write-traces.ts'],
    'verdicts-stored': ['MLflow has all verdicts of the summary, once each', 'src/mlflow/existing-traces.ts'],
    'ledger-agrees': ['Each trace and verdict of the ledger is in MLflow, which has no others', 'bin/doctor/ledger.ts'],
    'sql-answers': [
      'Athena finds the rows of the ledger by the projection of partitions, reads the views, and writes results in the workgroup',
      'src/ledger/sql.ts',
      'it knows neither views nor projection',
    ],
  },
  refusals: {
    'event-twice': ['The same event again traces, judges and pays nothing', 'src/monitoring/plan/claim.ts'],
    'missing-is-404': [
      'A missing file is CaptureMissing, not a denied access: s3:ListBucket with a condition on s3:prefix suffices',
      'lib/access/capture.ts',
    ],
    'errors-by-name': [
      'Step Functions gets the name of a function’s error, and no Retry matches a permanent one',
      'lib/state-machines/retries.ts',
    ],
    'wrong-bucket': [
      'A run on another bucket is refused while it is planned, by name',
      'src/captures/files/capture-objects.ts',
    ],
    'throttle-retried': [
      'A throttled function is Lambda.TooManyRequestsException, and is called again',
      'lib/state-machines/retries.ts',
    ],
  },
  services: {
    'created-once': [
      'Of ten writes with If-None-Match at once S3 accepts one, and answers the others with 412 or 409',
      'src/core/aws/storage.ts',
    ],
    'replaced-once': [
      'Of ten writes with If-Match at once S3 accepts one, and answers the others with 412 or 409',
      'src/monitoring/plan/claim.ts',
    ],
    'item-once': [
      'Of ten conditional updates of one item at once DynamoDB accepts one, and the others fail their condition',
      'src/limits/table.ts',
    ],
  },
  replay: {
    'replay-sent': [
      'A replay in the cloud sends every captured request, and the target answers them',
      'src/replay/cloud/shard/shard.ts',
    ],
    'replay-on-time': ['Requests are sent on time: 99% within half a second', 'src/replay/cloud/limits.ts'],
  },
  stop: {
    'stop-arrives': [
      'StopExecution reaches the stopping function through EventBridge, and the results are there within two minutes',
      'lib/replay.ts',
    ],
    'stop-stops': [
      'No request is sent later than 15 seconds after the stop',
      'src/replay/cloud/work-bucket/stop-order.ts',
    ],
  },
  redeploy: {
    'redeploy-in-a-run': ['Runs during a deployment succeed, or are refused by name', 'lib/pipeline-function.ts'],
  },
  observe: {
    'heap-honoured': ['Lambda’s Node runtime takes its heap from NODE_OPTIONS', 'lib/settings/function-environment.ts'],
    'cache-read': [
      'The beginning of the judge’s prompt is read from the cache',
      'src/judge/transports/bedrock.ts',
      NO_BEDROCK,
    ],
    'bedrock-throttle': [
      'Calls that Bedrock throttles are repeated, and no verdict is lost by them',
      'src/judge/transports/bedrock-failures.ts',
      NO_BEDROCK,
    ],
    'run-metrics': [
      'The log lines of a run become metrics with the one dimension that the alarms watch',
      'src/core/process/logging.ts',
      NO_METRICS,
    ],
    'map-metrics': ['The metrics of a Map’s children are under its label', 'lib/metrics.ts', NO_METRICS],
    'error-without-type': [
      'SageMaker captures a container’s error reply without a content type',
      'src/captures/errors/error-reply.ts',
      'no container of SageMaker answers there',
    ],
    'alarms-ok': [
      'Every alarm has been evaluated; none but those of the provoked failures is raised',
      'lib/alarms.ts',
      'the emulator evaluates no alarms without metrics',
    ],
    'logs-delivered': [
      'Executions log to the group of the stack',
      'lib/state-machines/pipeline.ts',
      'executions log nothing there',
    ],
    'no-dead-letters': ['Every event was delivered: the dead-letter queues are empty', 'lib/event-delivery.ts'],
  },
  batch: {
    'batch-accepted': [
      'Bedrock’s batch inference accepts our records, and every answer becomes verdicts (--batch)',
      'src/judge/connect.ts',
    ],
  },
  destroy: {
    'destroy-complete': ['Deleting the stack keeps the work bucket and nothing else', 'lib/work-bucket.ts'],
    'nothing-left': [
      'After the cleaning nothing with the canary’s prefix is left in the account',
      'test/aws/steps/destroy.ts',
    ],
  },
} satisfies Record<string, Record<string, Row>>;

export type StepName = keyof typeof BY_STEP;
export type AssertionId = { [Step in StepName]: keyof (typeof BY_STEP)[Step] }[StepName];

const ALL = (Object.entries(BY_STEP) as [StepName, Record<string, Row>][]).flatMap(([step, rows]) =>
  Object.entries(rows).map(([id, [text, file, emulator]]) => ({ id: id as AssertionId, step, text, file, emulator })),
);
export type Assertion = (typeof ALL)[number];
export const ASSERTION_IDS = ALL.map(({ id }) => id);
export const assertionOf = (id: AssertionId) => ALL.find((one) => one.id === id) as Assertion;

/** The permissions of each role, statement by statement, so that every additional or wider one is noticed. */
import {
  denialsOf,
  flattened,
  type Line,
  policiesOf,
  resourcesOf,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

/** Split, so that it is not read as a JavaScript placeholder. */
const DOLLAR = '$';

const template = templateOf();
const policies = policiesOf(template);

const logsTo = (logGroup: string): Line => [['logs:CreateLogStream', 'logs:PutLogEvents'], [`<${logGroup}.Arn>`]];
const IN_ACCOUNT = { StringEquals: { 'aws:ResourceAccount': '123456789012' } };
const captures: Line[] = [
  [['s3:GetObject', 's3:GetObjectVersion'], ['arn:aws:s3:::captures/my-endpoint/*'], IN_ACCOUNT],
  [['s3:ListBucket'], ['arn:aws:s3:::captures'], { ...IN_ACCOUNT, StringLike: { 's3:prefix': ['my-endpoint/*'] } }],
];
const work = (...keys: string[]): string[] => keys.map((key) => `<WorkBucket.Arn>/${key}`);
const PROFILE = 'arn:aws:bedrock:eu-west-1:123456789012:inference-profile/global.anthropic.claude-sonnet-4-6';
const throughProfile = { StringEquals: { 'bedrock:InferenceProfileArn': PROFILE } };
const model: Line[] = [
  [['bedrock:InvokeModel'], [PROFILE]],
  [['bedrock:InvokeModel'], ['arn:aws:bedrock:*::foundation-model/anthropic.claude-sonnet-4-6'], throughProfile],
  [['bedrock:InvokeModel'], ['arn:aws:bedrock:::foundation-model/anthropic.claude-sonnet-4-6'], throughProfile],
];
/** The same statements for a batch job, without the condition. */
const behindProfile = (action: string): Line[] => model.map(([, resources]) => [[action], resources]);
const JOBS = 'arn:aws:bedrock:eu-west-1:123456789012:model-invocation-job/*';
const STATES = 'arn:aws:states:eu-west-1:123456789012';
const MACHINE = 'sagemaker-data-capture-monitoring-test';

it.each<[string, Line[]]>([
  [
    'StartRunsRole',
    [
      logsTo('StartRunsLogs'),
      [['s3:GetObject'], work('starts/*')],
      [['s3:PutObject'], work('starts/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [['states:StartExecution'], ['<MonitoringStateMachine>']],
      [['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'], ['<CapturesEvents.Arn>']],
    ],
  ],
  [
    'PlanCapturesRole',
    [
      logsTo('PlanCapturesLogs'),
      ...captures,
      [
        ['s3:GetObject'],
        work(
          'starts/*',
          'runs/*/plan/*',
          'runs/*/manifest/*',
          'runs/*/ranges/*',
          'runs/*/receipts/*',
          'quarantine/*/*',
          'claims/*.json',
          'replay-marks/*',
        ),
      ],
      [['s3:PutObject'], work('runs/*/plan/*', 'runs/*/manifest/*', 'runs/*/ranges/*', 'claims/*.json')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [['states:DescribeExecution'], [`${STATES}:execution:${MACHINE}:*`]],
      [['bedrock:GetInferenceProfile'], [PROFILE]],
      [['bedrock:GetFoundationModel'], ['arn:aws:bedrock:eu-west-1::foundation-model/anthropic.claude-sonnet-4-6']],
    ],
  ],
  [
    'LogTracesRole',
    [
      logsTo('LogTracesLogs'),
      ...captures,
      [['s3:GetObject'], work('runs/*/ranges/*', 'quarantine/*/*', 'answers/*/*', 'replay-marks/*')],
      [['s3:PutObject'], work('runs/*/receipts/*', 'quarantine/*/*', 'answers/*/*', 'ground-truth/index/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [['dynamodb:GetItem', 'dynamodb:UpdateItem'], ['<BudgetTable.Arn>']],
    ],
  ],
  [
    'EvaluateTracesRole',
    [
      logsTo('EvaluateTracesLogs'),
      ...captures,
      [
        ['s3:GetObject'],
        work(
          'runs/*/ranges/*',
          'runs/*/receipts/*',
          'quarantine/*/*',
          'answers/*/*',
          'replay-marks/*',
          'batch/*/state/*',
          'batch/*/output/*',
        ),
      ],
      [
        ['s3:PutObject'],
        work(
          'runs/*/receipts/*',
          'quarantine/*/*',
          'answers/*/*',
          'batch/*/state/*',
          'batch/*/input/*',
          'ground-truth/index/*',
        ),
      ],
      [['s3:DeleteObject'], work('batch/*/input/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      ...model,
      [['dynamodb:GetItem', 'dynamodb:UpdateItem'], ['<BudgetTable.Arn>']],
      [['dynamodb:GetItem', 'dynamodb:UpdateItem'], ['<AnswersTable.Arn>']],
    ],
  ],
  [
    'JudgeBatchRole',
    [
      logsTo('JudgeBatchLogs'),
      [['s3:GetObject'], work('runs/*/plan/*', 'runs/*/manifest/*', 'batch/*/state/*')],
      [['s3:PutObject'], work('batch/*/state/*')],
      [['s3:AbortMultipartUpload'], work('batch/*/state/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [['bedrock:CreateModelInvocationJob', 'bedrock:GetModelInvocationJob'], [JOBS]],
      ...behindProfile('bedrock:CreateModelInvocationJob'),
      [
        ['iam:PassRole'],
        ['<BatchServiceRole.Arn>'],
        { StringEquals: { 'iam:PassedToService': 'bedrock.amazonaws.com' } },
      ],
    ],
  ],
  [
    'BatchServiceRole',
    [
      [['s3:GetObject'], work('batch/*/input/*')],
      [['s3:PutObject'], work('batch/*/output/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      ...behindProfile('bedrock:InvokeModel'),
    ],
  ],
  [
    'SummarizeRunRole',
    [
      logsTo('SummarizeRunLogs'),
      [
        ['s3:GetObject'],
        work(
          'runs/*/plan/*',
          'runs/*/manifest/*',
          'runs/*/ranges/*',
          'runs/*/receipts/*',
          'batch/*/state/*',
          'runs/*/summary-state/*',
          'counts/new/*',
          'counts/days/*',
          'counts/detectors.json',
          'ground-truth/index/*',
        ),
      ],
      [
        ['s3:PutObject'],
        work(
          'runs/*/summary.json',
          'runs/*/summary-state/*',
          'runs/*/files/*',
          'counts/new/*',
          'counts/days/*',
          'counts/detectors.json',
          'ground-truth/index/*',
        ),
      ],
      [['s3:DeleteObject'], work('counts/new/*', 'ground-truth/index/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [['states:StartExecution'], ['<GroundTruthMachineStateMachine>']],
    ],
  ],
  [
    'MonitoringRole',
    [
      [
        ['lambda:InvokeFunction'],
        [
          '<PlanCapturesFunction.Arn>',
          '<LogTracesFunction.Arn>',
          '<EvaluateTracesFunction.Arn>',
          '<JudgeBatchFunction.Arn>',
          '<SummarizeRunFunction.Arn>',
        ],
      ],
      [['s3:GetObject'], work('runs/*/manifest/*')],
      [
        ['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'],
        work('runs/*/map/*', 'runs/*/map-batch/*'),
      ],
      [['states:StartExecution'], [`${STATES}:stateMachine:${MACHINE}`]],
      [
        ['states:DescribeExecution', 'states:StopExecution'],
        [`${STATES}:execution:${MACHINE}:*`, `${STATES}:execution:${MACHINE}/*:*`],
      ],
      [['states:RedriveExecution'], [`${STATES}:execution:${MACHINE}/*:*`]],
      [
        [
          'logs:CreateLogDelivery',
          'logs:GetLogDelivery',
          'logs:UpdateLogDelivery',
          'logs:DeleteLogDelivery',
          'logs:ListLogDeliveries',
          'logs:PutResourcePolicy',
          'logs:DescribeResourcePolicies',
          'logs:DescribeLogGroups',
        ],
        ['*'],
      ],
    ],
  ],
  [
    'CapturesNotificationsRole',
    [
      [['s3:GetBucketNotification', 's3:PutBucketNotification'], ['arn:aws:s3:::captures']],
      logsTo('CapturesNotificationsLogs'),
    ],
  ],
])('%s has exactly these permissions', (role, lines) => {
  expect(policies[role]).toEqual(lines);
});

it('lets the function that forwards files read them and its secret, write its receipts, and speak to its queues', () => {
  const arthur = {
    ARTHUR_HOST: 'https://app.arthur.ai',
    ARTHUR_MODEL_ID: 'some-model',
    ARTHUR_S3_PREFIX: 'for/arthur*',
  };
  const secret = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf';
  const key = 'arn:aws:kms:eu-west-1:123456789012:key/captures';
  const forwarding = templateOf({ ...arthur, ARTHUR_SECRET_ARN: secret, DATA_CAPTURE_KMS_KEY_ARN: key });
  const through = `for/arthur${DOLLAR}{*}/*`;
  const { ForwardForwarderRole, ...others } = policiesOf(forwarding);
  expect(ForwardForwarderRole).toEqual([
    logsTo('ForwardForwarderLogs'),
    [['s3:GetObject', 's3:GetObjectVersion'], [`arn:aws:s3:::captures/${through}`], IN_ACCOUNT],
    [['s3:ListBucket'], ['arn:aws:s3:::captures'], { ...IN_ACCOUNT, StringLike: { 's3:prefix': [through] } }],
    [['kms:Decrypt'], [key], { StringEquals: { 'kms:ViaService': 's3.eu-west-1.amazonaws.com' } }],
    [['secretsmanager:GetSecretValue'], [secret]],
    [['s3:GetObject'], work('forwards/*', 'replay-marks/*', 'first-replay-mark.json')],
    [['s3:PutObject'], work('forwards/*')],
    [['s3:ListBucket'], ['<WorkBucket.Arn>']],
    [['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'], ['<ForwardEvents.Arn>']],
    [['sqs:ChangeMessageVisibility'], ['<ForwardEvents.Arn>']],
    [['sqs:SendMessage'], ['<ForwardDeadLetters.Arn>']],
  ]);
  expect(others).toEqual(policiesOf(templateOf({ DATA_CAPTURE_KMS_KEY_ARN: key })));
});

it('gives no other role a policy, and no role a managed one', () => {
  const roles = resourcesOfType(template, 'AWS::IAM::Role');
  expect(Object.keys(roles).toSorted()).toEqual(Object.keys(policies).toSorted());
  // The roles of a replay are in replay-access.test.ts and replay-stop.test.ts, those of labels in ground-truth.test.ts.
  expect(Object.keys(roles)).toHaveLength(18);
  for (const { Properties } of Object.values(roles)) {
    expect(Properties.ManagedPolicyArns).toBeUndefined();
    expect(Properties.Policies).toBeUndefined();
  }
});

it('denies no role anything', () => {
  // With a VPC: vpc.test.ts.
  expect(denialsOf(template)).toEqual({});
});

it('lets one service assume each role', () => {
  const services = Object.entries(resourcesOfType(template, 'AWS::IAM::Role')).map(([name, { Properties }]) => {
    const { Statement } = Properties.AssumeRolePolicyDocument as { Statement: object[] };
    expect(Statement).toHaveLength(1);
    return [name, flattened(Statement[0])] as const;
  });
  const trust = (Service: string) => ({ Action: 'sts:AssumeRole', Effect: 'Allow', Principal: { Service } });
  const ofThisAccount = { Condition: { StringEquals: { 'aws:SourceAccount': '123456789012' } } };
  const machines = { ...trust('states.amazonaws.com'), ...ofThisAccount };
  expect(Object.fromEntries(services)).toEqual({
    PlanCapturesRole: trust('lambda.amazonaws.com'),
    LogTracesRole: trust('lambda.amazonaws.com'),
    EvaluateTracesRole: trust('lambda.amazonaws.com'),
    JudgeBatchRole: trust('lambda.amazonaws.com'),
    // Only for jobs of this account.
    BatchServiceRole: {
      ...trust('bedrock.amazonaws.com'),
      Condition: { StringEquals: { 'aws:SourceAccount': '123456789012' }, ArnEquals: { 'aws:SourceArn': JOBS } },
    },
    SummarizeRunRole: trust('lambda.amazonaws.com'),
    CapturesNotificationsRole: trust('lambda.amazonaws.com'),
    MonitoringRole: machines,
    ReplayPlanRole: trust('lambda.amazonaws.com'),
    ReplayShardRole: trust('lambda.amazonaws.com'),
    ReplayEvaluationRole: trust('lambda.amazonaws.com'),
    ReplaySummaryRole: trust('lambda.amazonaws.com'),
    ReplayPublicationRole: trust('lambda.amazonaws.com'),
    ReplayStopRole: trust('lambda.amazonaws.com'),
    ReplayMachineRole: machines,
    StartRunsRole: trust('lambda.amazonaws.com'),
    GroundTruthJoinLabelsRole: trust('lambda.amazonaws.com'),
    GroundTruthMachineRole: machines,
  });
});

it('uses * as the resource only for actions without an ARN', () => {
  const everywhere = Object.entries(policies).flatMap(([role, lines]) =>
    lines.filter(([, resources]) => resources.includes('*')).map(([actions]) => ({ role, actions })),
  );
  expect(everywhere.map(({ role }) => role)).toEqual(['MonitoringRole', 'ReplayMachineRole', 'GroundTruthMachineRole']);
  for (const action of everywhere.flatMap(({ actions }) => actions)) {
    expect(action).toMatch(
      /^logs:(\w+LogDelivery|ListLogDeliveries|PutResourcePolicy|Describe(ResourcePolicies|LogGroups))$/,
    );
  }
});

describe('captures with a KMS key and a prefix with special characters', () => {
  const key = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd';
  const special = policiesOf(
    templateOf({ DATA_CAPTURE_KMS_KEY_ARN: key, DATA_CAPTURE_S3_PREFIX: `odd*name?/${DOLLAR}{aws:userid}` }),
  );

  const READERS = ['EvaluateTracesRole', 'LogTracesRole', 'PlanCapturesRole', 'ReplayPlanRole', 'ReplayShardRole'];

  it.each(READERS)('are all that %s reads', (role) => {
    // In IAM, ${*}, ${?} and ${$} are the characters themselves.
    const prefix = `odd${DOLLAR}{*}name${DOLLAR}{?}/${DOLLAR}{$}{aws:userid}/*`;
    expect(special[role]?.slice(1, 4)).toEqual([
      [['s3:GetObject', 's3:GetObjectVersion'], [`arn:aws:s3:::captures/${prefix}`], IN_ACCOUNT],
      [['s3:ListBucket'], ['arn:aws:s3:::captures'], { ...IN_ACCOUNT, StringLike: { 's3:prefix': [prefix] } }],
      [['kms:Decrypt'], [key], { StringEquals: { 'kms:ViaService': 's3.eu-west-1.amazonaws.com' } }],
    ]);
  });

  it('have a key that no other role may use', () => {
    const users = Object.entries(special).filter(([, lines]) =>
      lines.some(([actions]) => actions.includes('kms:Decrypt')),
    );
    expect(users.map(([role]) => role).toSorted()).toEqual(READERS);
  });
});

it('runs the functions with the documented roles', () => {
  const names = Object.entries(resourcesOfType(template, 'AWS::IAM::Role')).flatMap(([id, { Properties }]) =>
    Properties.RoleName === undefined ? [] : [[id, Properties.RoleName]],
  );
  expect(Object.fromEntries(names)).toEqual({
    GroundTruthJoinLabelsRole: 'sagemaker-ground-truth-joining-test',
    StartRunsRole: 'sagemaker-data-capture-starting-test',
    PlanCapturesRole: 'sagemaker-data-capture-planning-test',
    LogTracesRole: 'sagemaker-data-capture-processing-test',
    EvaluateTracesRole: 'sagemaker-data-capture-evaluation-test',
    JudgeBatchRole: 'sagemaker-data-capture-batching-test',
    BatchServiceRole: 'sagemaker-data-capture-batch-job-test',
    SummarizeRunRole: 'sagemaker-data-capture-summary-test',
    ReplayPlanRole: 'sagemaker-replay-planning-test',
    ReplayShardRole: 'sagemaker-replay-sending-test',
    ReplayEvaluationRole: 'sagemaker-replay-evaluation-test',
    ReplaySummaryRole: 'sagemaker-replay-summary-test',
    ReplayPublicationRole: 'sagemaker-replay-publishing-test',
    ReplayStopRole: 'sagemaker-replay-stopping-test',
  });
});

it('denies requests without TLS, and allows EventBridge the queues and alarms their topic', () => {
  const allowed = Object.values(resourcesOf(template)).flatMap(({ Type, Properties }) => {
    const document = Properties?.PolicyDocument as { Statement: { Effect: string; Principal?: unknown }[] } | undefined;
    if (document === undefined || Type === 'AWS::IAM::Policy') return [];
    return document.Statement.filter(({ Effect }) => Effect === 'Allow');
  });
  const fromRule = (construct: string, queue = 'DeadLetters') => ({
    Sid: expect.any(String),
    Effect: 'Allow',
    Principal: { Service: 'events.amazonaws.com' },
    Action: 'sqs:SendMessage',
    Resource: `<${construct}${queue}.Arn>`,
    Condition: { ArnEquals: { 'aws:SourceArn': `<${construct}Rule.Arn>` } },
  });
  // Any policy of a topic replaces SNS's default policy, which would allow CloudWatch to publish.
  const fromAlarms = {
    Sid: 'AlarmsOfThisStack',
    Effect: 'Allow',
    Principal: { Service: 'cloudwatch.amazonaws.com' },
    Action: 'sns:Publish',
    Resource: '<AlarmsTopic>',
    Condition: {
      StringEquals: { 'aws:SourceAccount': '123456789012' },
      ArnLike: { 'aws:SourceArn': 'arn:aws:cloudwatch:eu-west-1:123456789012:alarm:sagemaker-monitoring-test-*' },
    },
  };
  expect(flattened(allowed)).toEqual([
    fromRule('ReplayStopping'),
    fromRule('Captures'),
    fromRule('Captures', 'Events'),
    fromAlarms,
  ]);
});

it('lets only the function that judges read answers, which are content', () => {
  const readers = Object.entries(policies).filter(([, lines]) =>
    lines.some(([, resources]) => resources.includes('<AnswersTable.Arn>')),
  );
  expect(readers.map(([role]) => role)).toEqual(['EvaluateTracesRole']);
});

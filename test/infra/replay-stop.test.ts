/** What ends a replay whose execution was stopped: when it is started, what it does, and what it may do. */
import {
  definitionOf,
  flattened,
  type Line,
  policiesOf,
  REPLAY_STOP,
  resourcesOfType,
  stateMachineOf,
  templateOf,
} from '../helpers/synth.ts';

const template = templateOf();
const definition = definitionOf(template, REPLAY_STOP);
const lambda = (id: string): string => `arn:aws:lambda:eu-west-1:123456789012:function:${id}`;
/** As for the monitoring's functions, named one by one in `definition.test.ts`. */
const storeRetries = [6, 60, 2].map((MaxAttempts) => expect.objectContaining({ MaxAttempts }));

const toEnd = [{ ErrorEquals: ['States.ALL'], ResultPath: '$.unfinished', Next: 'EndStoppedRun' }];

it('has exactly these states', () => {
  expect(definition).toEqual({
    Comment: expect.any(String),
    StartAt: 'StopReplay',
    States: {
      StopReplay: {
        Type: 'Task',
        Comment: expect.any(String),
        Resource: lambda('ReplayStopFunction'),
        Parameters: { 'detail.$': '$.detail' },
        // Beside the event, with which it is asked again.
        ResultPath: '$.stop',
        Retry: storeRetries,
        Catch: toEnd,
        Next: 'AllEnded',
      },
      AllEnded: {
        Type: 'Choice',
        Comment: expect.any(String),
        Choices: [
          { Variable: '$.stop.next', StringEquals: 'wait', Next: 'UntilShardsEnd' },
          { Variable: '$.stop.next', StringEquals: 'summarize', Next: 'SummarizeStopped' },
        ],
        Default: 'NothingToEnd',
      },
      UntilShardsEnd: { Type: 'Wait', Seconds: 5, Next: 'StopReplay' },
      SummarizeStopped: {
        Type: 'Task',
        Comment: expect.any(String),
        Resource: lambda('ReplaySummaryFunction'),
        InputPath: '$.stop.summarize',
        ResultPath: '$.result',
        Retry: storeRetries,
        Catch: toEnd,
        Next: 'PublicationWanted',
      },
      PublicationWanted: {
        Type: 'Choice',
        Choices: [{ Variable: '$.result.publish', BooleanEquals: true, Next: 'PublishStopped' }],
        Default: 'Stopped',
      },
      PublishStopped: {
        Type: 'Task',
        Comment: expect.any(String),
        Resource: lambda('ReplayPublicationFunction'),
        Parameters: { 'run.$': '$.stop.summarize.run' },
        ResultPath: '$.result.mlflow',
        Retry: storeRetries,
        Catch: toEnd,
        Next: 'Stopped',
      },
      Stopped: { Type: 'Succeed', OutputPath: '$.result' },
      // Whatever has failed for good: no run in MLflow stays open, where MLflow itself can be reached.
      EndStoppedRun: {
        Type: 'Task',
        Comment: expect.any(String),
        Resource: lambda('ReplayPublicationFunction'),
        Parameters: { 'detail.$': '$.detail', 'unfinished.$': '$.unfinished' },
        ResultPath: null,
        Retry: storeRetries,
        Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.unended', Next: 'NotEnded' }],
        Next: 'NotEnded',
      },
      NotEnded: { Type: 'Fail', ErrorPath: '$.unfinished.Error', CausePath: '$.unfinished.Cause' },
      NothingToEnd: { Type: 'Succeed' },
    },
  });
});

it('is a STANDARD state machine that logs all, to a log group under /aws/vendedlogs', () => {
  expect(stateMachineOf(template, REPLAY_STOP).Properties).toMatchObject({
    StateMachineName: 'sagemaker-data-capture-replay-stop-test',
    StateMachineType: 'STANDARD',
    LoggingConfiguration: { IncludeExecutionData: true, Level: 'ALL' },
  });
  template.hasResourceProperties('AWS::Logs::LogGroup', {
    LogGroupName: '/aws/vendedlogs/states/sagemaker-replay-stop-test',
    RetentionInDays: 30,
  });
});

it('is started for executions of the replays that end out of order, and for no others', () => {
  const rule = resourcesOfType(template, 'AWS::Events::Rule').ReplayStoppingRule;
  const { Targets, ...properties } = flattened(rule?.Properties) as { Targets: object[] };
  expect(properties).toEqual({
    Name: 'sagemaker-replay-stop-rule-test',
    Description: expect.any(String),
    State: 'ENABLED',
    EventPattern: {
      source: ['aws.states'],
      'detail-type': ['Step Functions Execution Status Change'],
      detail: { stateMachineArn: ['<ReplayMachineStateMachine>'], status: ['ABORTED', 'TIMED_OUT', 'FAILED'] },
    },
  });
  // The whole event, tried for a day; what cannot be delivered is kept.
  expect(Targets).toEqual([
    {
      Id: expect.any(String),
      Arn: '<ReplayStoppingStateMachine>',
      RoleArn: '<ReplayStoppingStateMachineEventsRole.Arn>',
      DeadLetterConfig: { Arn: '<ReplayStoppingDeadLetters.Arn>' },
      RetryPolicy: { MaximumEventAgeInSeconds: 86_400, MaximumRetryAttempts: 185 },
    },
  ]);
  expect(resourcesOfType(template, 'AWS::SQS::Queue').ReplayStoppingDeadLetters?.Properties).toEqual({
    MessageRetentionPeriod: 14 * 86_400,
    SqsManagedSseEnabled: true,
  });
});

it('is started for an order that somebody has put, in the same way', () => {
  const rule = resourcesOfType(template, 'AWS::Events::Rule').ReplayStoppingOrderRule;
  const { Targets, ...properties } = flattened(rule?.Properties) as { Targets: object[] };
  expect(properties).toEqual({
    Name: 'sagemaker-replay-order-rule-test',
    Description: expect.any(String),
    State: 'ENABLED',
    EventPattern: {
      source: ['aws.s3'],
      'detail-type': ['Object Created'],
      detail: { bucket: { name: ['<WorkBucket>'] }, object: { key: [{ wildcard: 'replays/*/stop.json' }] } },
    },
  });
  expect(Targets).toEqual([
    expect.objectContaining({
      Arn: '<ReplayStoppingStateMachine>',
      DeadLetterConfig: { Arn: '<ReplayStoppingDeadLetters.Arn>' },
    }),
  ]);
});

const policies = policiesOf(template);
const work = (...keys: string[]): string[] => keys.map((key) => `<WorkBucket.Arn>/replays/*/${key}`);

it.each<[string, Line[]]>([
  [
    'ReplayStopRole',
    [
      [['logs:CreateLogStream', 'logs:PutLogEvents'], ['<ReplayStopLogs.Arn>']],
      [['s3:GetObject'], work('plan.json', 'results/replay.json')],
      [['s3:PutObject'], work('stop.json')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [
        ['states:DescribeExecution', 'states:StopExecution'],
        ['arn:aws:states:eu-west-1:123456789012:execution:sagemaker-data-capture-replay-test:*'],
      ],
    ],
  ],
  [
    // It has no Map: nothing of the work bucket is its own business.
    'ReplayStoppingRole',
    [
      [
        ['lambda:InvokeFunction'],
        ['<ReplayStopFunction.Arn>', '<ReplaySummaryFunction.Arn>', '<ReplayPublicationFunction.Arn>'],
      ],
      [expect.arrayContaining(['logs:CreateLogDelivery']), ['*']],
    ],
  ],
  ['ReplayStoppingStateMachineEventsRole', [[['states:StartExecution'], ['<ReplayStoppingStateMachine>']]]],
])('%s', (role, lines) => {
  expect(policies[role]).toEqual(lines);
});

it('only the stopper writes the order to stop, and those who have to end by it read it', () => {
  const [mark = ''] = work('stop.json');
  const users = (action: string) =>
    Object.entries(policies)
      .filter(([, lines]) => lines.some(([actions, on]) => actions.includes(action) && on.includes(mark)))
      .map(([role]) => role);
  expect(users('s3:PutObject')).toEqual(['ReplayStopRole']);
  expect(users('s3:GetObject').toSorted()).toEqual([
    'ReplayEvaluationRole',
    'ReplayPlanRole',
    'ReplayPublicationRole',
    'ReplayShardRole',
    'ReplaySummaryRole',
  ]);
});

/** The function that ends stopped replays: its events, its failures and its permissions. */
import { flattened, policiesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';

const template = templateOf();

it('is called for executions of replays that failed, timed out or were stopped, and for no others', () => {
  const rule = resourcesOfType(template, 'AWS::Events::Rule').ReplayStoppingRule;
  expect(flattened(rule?.Properties)).toEqual({
    Name: 'sagemaker-replay-stop-rule-test',
    Description: expect.any(String),
    State: 'ENABLED',
    EventPattern: {
      source: ['aws.states'],
      'detail-type': ['Step Functions Execution Status Change'],
      detail: { stateMachineArn: ['<ReplayMachineStateMachine>'], status: ['ABORTED', 'TIMED_OUT', 'FAILED'] },
    },
    // The complete event, retried for a day; undeliverable events are kept.
    Targets: [
      {
        Id: expect.any(String),
        Arn: '<ReplayStopFunction.Arn>',
        DeadLetterConfig: { Arn: '<ReplayStoppingDeadLetters.Arn>' },
        RetryPolicy: { MaximumEventAgeInSeconds: 86_400, MaximumRetryAttempts: 185 },
      },
    ],
  });
  expect(resourcesOfType(template, 'AWS::SQS::Queue').ReplayStoppingDeadLetters?.Properties).toEqual({
    MessageRetentionPeriod: 14 * 86_400,
    SqsManagedSseEnabled: true,
  });
});

it('can only be called by that rule', () => {
  const permissions = Object.values(resourcesOfType(template, 'AWS::Lambda::Permission'));
  expect(permissions.map(({ Properties }) => flattened(Properties))).toEqual([
    {
      Action: 'lambda:InvokeFunction',
      FunctionName: '<ReplayStopFunction.Arn>',
      Principal: 'events.amazonaws.com',
      SourceArn: '<ReplayStoppingRule.Arn>',
    },
  ]);
});

it('is retried by Lambda, and events that fail each time are kept too', () => {
  const configs = Object.values(resourcesOfType(template, 'AWS::Lambda::EventInvokeConfig'));
  expect(configs.map(({ Properties }) => flattened(Properties))).toContainEqual({
    FunctionName: '<ReplayStopFunction>',
    Qualifier: '$LATEST',
    // No number means Lambda's default of two.
    DestinationConfig: { OnFailure: { Destination: '<ReplayStoppingDeadLetters.Arn>' } },
  });
});

const policies = policiesOf(template);
const work = (...keys: string[]): string[] => keys.map((key) => `<WorkBucket.Arn>/replays/*/${key}`);

it('is the only writer of the stop order, which the functions that obey it can read', () => {
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
    'ReplayStopRole',
    'ReplaySummaryRole',
  ]);
});

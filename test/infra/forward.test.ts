/** Forwarding to Arthur: the rule, the queue, the function, the alarm, and nothing of it without a host. */
import { readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { flattened, resourcesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';

const ARTHUR = {
  ARTHUR_HOST: 'https://app.arthur.ai',
  ARTHUR_MODEL_ID: 'some-model',
  ARTHUR_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf',
};
const template = templateOf(ARTHUR);
const properties = (type: string, id: string, of = template): Record<string, unknown> =>
  flattened(resourcesOfType(of, type)[id]?.Properties) as Record<string, unknown>;

it('exists only with a host, and changes nothing else', () => {
  const before = resourcesOf(templateOf());
  const added = Object.keys(resourcesOf(template)).filter((id) => !Object.hasOwn(before, id));
  expect(added.length).toBeGreaterThan(8);
  for (const id of added) expect(id).toMatch(/^(Forward|AlarmsForwardFailed)/);
  const changed = Object.keys(before).filter(
    (id) => JSON.stringify(before[id]) !== JSON.stringify(resourcesOf(template)[id]),
  );
  // Its errors are among those of the functions, its receipts expire, and the dashboard shows its alarm.
  expect(changed.map((id) => id.replace(/[0-9A-F]{8}$/, '')).toSorted()).toEqual([
    'AlarmsFunctionErrors',
    'AlarmsFunctionThrottled',
    'Dashboard',
    'WorkBucket',
  ]);
  const rules = JSON.stringify(properties('AWS::S3::Bucket', 'WorkBucket').LifecycleConfiguration);
  expect(rules).toContain('"ExpirationInDays":400,"Id":"forwards","Prefix":"forwards/"');
});

it('matches the keys with prefix and suffix, which are those of the captures by default', () => {
  const keysOf = (more: object) => {
    const rule = properties('AWS::Events::Rule', 'ForwardRule', templateOf({ ...ARTHUR, ...more }));
    return (rule.EventPattern as { detail: object }).detail;
  };
  expect(keysOf({})).toEqual({
    bucket: { name: ['captures'] },
    object: { key: [{ wildcard: 'my-endpoint/*.jsonl' }] },
  });
  expect(keysOf({ ARTHUR_S3_PREFIX: 'a*b', ARTHUR_S3_SUFFIX: '-x.jsonl' })).toMatchObject({
    object: { key: [{ wildcard: 'a\\*b/*-x.jsonl' }] },
  });
});

it('delivers events to the queue, and from there to the function, each for itself', () => {
  const [target] = properties('AWS::Events::Rule', 'ForwardRule').Targets as object[];
  expect(target).toMatchObject({ Arn: '<ForwardEvents.Arn>', DeadLetterConfig: { Arn: '<ForwardDeadLetters.Arn>' } });
  expect(properties('AWS::SQS::Queue', 'ForwardEvents')).toMatchObject({
    QueueName: 'sagemaker-forward-test',
    // Six times the function's.
    VisibilityTimeout: 5400,
    MessageRetentionPeriod: 1_209_600,
    RedrivePolicy: { deadLetterTargetArn: '<ForwardDeadLetters.Arn>', maxReceiveCount: 30 },
  });
  expect(properties('AWS::Lambda::EventSourceMapping', 'ForwardMapping')).toEqual({
    BatchSize: 5,
    EventSourceArn: '<ForwardEvents.Arn>',
    FunctionName: '<ForwardForwarderFunction>',
    FunctionResponseTypes: ['ReportBatchItemFailures'],
    MaximumBatchingWindowInSeconds: 0,
    ScalingConfig: { MaximumConcurrency: 2 },
  });
});

it('has a function whose environment the code accepts, without the settings of others', () => {
  const { Environment, Timeout, MemorySize } = properties('AWS::Lambda::Function', 'ForwardForwarderFunction');
  const { Variables } = Environment as { Variables: Record<string, string> };
  expect([Timeout, MemorySize]).toEqual([900, 1024]);
  expect(readForwardEnvironment(Variables)).toMatchObject({
    ...ARTHUR,
    ARTHUR_S3_PREFIX: 'my-endpoint/',
    FORWARD_QUEUE: '<ForwardEvents>',
    FORWARD_DEAD_LETTERS: '<ForwardDeadLetters>',
    FORWARD_RETRY_SECONDS: 60,
    STACK_PREFIX: 'test',
  });
  expect(Variables).toHaveProperty('ARTHUR_S3_SUFFIX', '.jsonl');
  // For the captures of a judge, which are not forwarded.
  expect(Variables).toHaveProperty('BEDROCK_MODEL_ID');
  expect(Variables).not.toHaveProperty('MLFLOW_TRACKING_URI');
});

it('rings if a file is dead, lost, has waited for two hours, or nothing of it was taken', () => {
  const alarm = properties('AWS::CloudWatch::Alarm', 'AlarmsForwardFailed') as {
    Metrics: { Expression?: string; MetricStat?: { Metric: { MetricName: string } } }[];
  };
  expect(alarm).toMatchObject({
    AlarmName: 'sagemaker-monitoring-test-ForwardFailed',
    Threshold: 0,
    EvaluationPeriods: 1,
  });
  expect(alarm.Metrics.map(({ Expression, MetricStat }) => Expression ?? MetricStat?.Metric.MetricName)).toEqual([
    'FILL(dead, 0) + FILL(lost, 0) + FILL(untaken, 0) + FILL(late, 0) + IF(FILL(age, 0) > 7200, 1, 0)',
    'ApproximateNumberOfMessagesVisible',
    'InvocationsFailedToBeSentToDlq',
    'ForwardUntaken',
    'ForwardLate',
    'ApproximateAgeOfOldestMessage',
  ]);
});

/** What rings, on which metric; and that the metric is the one that is published. */
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { RESOURCE_METRICS, RUN_METRICS } from '../../src/contract/names.ts';
import { createMetrics } from '../../src/monitoring/metrics.ts';
import { flattened, onlyResource, resourcesOfType, templateOf } from '../helpers/synth.ts';

interface Metric {
  Namespace: string;
  MetricName: string;
  Dimensions: { Name: string; Value: string }[];
}

interface Alarm {
  AlarmName: string;
  AlarmDescription: string;
  AlarmActions: string[];
  ComparisonOperator: string;
  Threshold: number;
  EvaluationPeriods: number;
  TreatMissingData: string;
  Namespace?: string;
  MetricName?: string;
  Dimensions?: Metric['Dimensions'];
  Metrics?: { Id: string; Expression?: string; MetricStat?: { Metric: Metric; Stat: string; Period: number } }[];
}

const template = templateOf({ STACK_PREFIX: 'prod', ALARM_EMAIL: 'on-call@example.com' });
const alarms = Object.values(resourcesOfType(template, 'AWS::CloudWatch::Alarm')).map(
  ({ Properties }) => flattened(Properties) as unknown as Alarm,
);

/** Each metric as `namespace name dimension=value`. */
const show = ({ Namespace, MetricName, Dimensions }: Metric): string =>
  `${Namespace} ${MetricName} ${Dimensions.map(({ Name, Value }) => `${Name}=${Value}`).join(',')}`;

function watched(alarm: Alarm): string[] {
  if (alarm.Metrics === undefined) return [show(alarm as Metric)];
  return alarm.Metrics.map(({ Expression, MetricStat }) => (MetricStat ? show(MetricStat.Metric) : (Expression ?? '')));
}

const FUNCTIONS = ['PlanCaptures', 'LogTraces', 'EvaluateTraces', 'JudgeBatch', 'SummarizeRun'];
const ofFunctions = (name: string): string[] => [
  'SUM([FILL(m0, 0), FILL(m1, 0), FILL(m2, 0), FILL(m3, 0), FILL(m4, 0)])',
  ...FUNCTIONS.map((step) => `AWS/Lambda ${name} FunctionName=<${step}Function>`),
];
const ofRuns = (name: string): string => `SageMakerInferenceMonitor ${name} StackPrefix=prod`;
const MACHINE = 'StateMachineArn=<MonitoringStateMachine>';

it('exactly these, one for each cause', () => {
  const found = alarms.map((alarm) => [
    alarm.AlarmName.replace('sagemaker-monitoring-prod-', ''),
    [alarm.EvaluationPeriods, ...watched(alarm)],
  ]);
  // What is retried counts when it has gone on for three periods; what a failed run has lost rings RunFailed alone.
  expect(Object.fromEntries(found)).toEqual({
    RunFailed: [1, `AWS/States ExecutionsFailed ${MACHINE}`],
    RunThrottled: [3, `AWS/States ExecutionThrottled ${MACHINE}`],
    FunctionErrors: [3, ...ofFunctions('Errors')],
    FunctionThrottled: [3, ...ofFunctions('Throttles')],
    EventNotDelivered: [1, 'AWS/SQS ApproximateNumberOfMessagesVisible QueueName=<CapturesDeadLetters.QueueName>'],
    EventLost: [1, 'AWS/Events InvocationsFailedToBeSentToDlq RuleName=sagemaker-s3-event-rule-prod'],
    VerdictsFailed: [1, 'failed - lost', ofRuns('FailedVerdicts'), ofRuns('LostVerdicts')],
    LinesQuarantined: [1, ofRuns('QuarantinedLines')],
    JudgeModelEnding: [1, ofRuns('JudgeModelEnding')],
    VerdictsHeld: [1, ofRuns('HeldVerdicts')],
    ReplayNotEnded: [1, 'AWS/SQS ApproximateNumberOfMessagesVisible QueueName=<ReplayStoppingDeadLetters.QueueName>'],
  });
});

it.each(alarms.map((alarm) => [alarm.AlarmName, alarm] as const))('%s', (name, alarm) => {
  expect(alarm).toMatchObject({
    AlarmActions: ['<AlarmsTopic>'],
    ComparisonOperator: 'GreaterThanThreshold',
    Threshold: 0,
    TreatMissingData: 'notBreaching',
  });
  expect(alarm.AlarmDescription).toContain(
    `section ${name.replace('sagemaker-monitoring-prod-', '')} of docs/runbook.md`,
  );
});

it('a person hears of it by mail, if there is an address', () => {
  expect(flattened(onlyResource(template, 'AWS::SNS::Subscription').Properties)).toEqual({
    Protocol: 'email',
    Endpoint: 'on-call@example.com',
    TopicArn: '<AlarmsTopic>',
  });
  // Without an address the same alarms ring on the same topic, and nobody is told until somebody subscribes to it.
  const silent = templateOf({ STACK_PREFIX: 'prod' });
  expect(resourcesOfType(silent, 'AWS::SNS::Subscription')).toEqual({});
  expect(resourcesOfType(silent, 'AWS::CloudWatch::Alarm')).toEqual(
    resourcesOfType(template, 'AWS::CloudWatch::Alarm'),
  );
});

it('the topic lets each alarm of the stack publish', () => {
  const { PolicyDocument } = flattened(onlyResource(template, 'AWS::SNS::TopicPolicy').Properties) as {
    PolicyDocument: { Statement: { Effect: string; Condition: { ArnLike: Record<string, string> } }[] };
  };
  const [allowing] = PolicyDocument.Statement.filter(({ Effect }) => Effect === 'Allow');
  const [, beginning = ''] = /:alarm:(.*)\*$/.exec(allowing?.Condition.ArnLike['aws:SourceArn'] ?? '') ?? [];
  expect(beginning).not.toBe('');
  expect(alarms.filter(({ AlarmName }) => !AlarmName.startsWith(beginning))).toEqual([]);
});

describe('the metrics that the runs publish', () => {
  const metrics = createMetrics('prod');
  for (const name of RUN_METRICS) metrics.addMetric(name, MetricUnit.Count, 1);
  const published = metrics.serializeMetrics()._aws.CloudWatchMetrics;

  it('have the one dimension by which alarms and dashboard find them', () => {
    expect(published).toHaveLength(1);
    expect(published[0]).toMatchObject({
      Namespace: RESOURCE_METRICS.namespace,
      Dimensions: [[RESOURCE_METRICS.dimension]],
    });
    expect(metrics.serializeMetrics()).toMatchObject({ [RESOURCE_METRICS.dimension]: 'prod' });
  });

  it('are all that the dashboard shows of its own', () => {
    const { widgets } = dashboard();
    const shown = widgets.flatMap(({ properties }) => properties.metrics ?? []).map((line) => JSON.stringify(line));
    // Failed runs are shown as Step Functions counts them; that the model ends, the list of alarms shows.
    const elsewhere = ['RunsFailed', 'JudgeModelEnding'];
    for (const name of RUN_METRICS.filter((each) => !elsewhere.includes(each))) {
      const start = JSON.stringify([RESOURCE_METRICS.namespace, name, RESOURCE_METRICS.dimension, 'prod']).slice(0, -1);
      expect(shown.filter((line) => line.startsWith(start))).not.toEqual([]);
    }
  });
});

interface Widget {
  type: string;
  properties: { title: string; metrics?: unknown[][]; alarms?: string[] };
}

function dashboard(): { widgets: Widget[] } {
  const { DashboardBody } = flattened(onlyResource(template, 'AWS::CloudWatch::Dashboard').Properties) as Record<
    string,
    string
  >;
  return JSON.parse(DashboardBody ?? '') as { widgets: Widget[] };
}

describe('the dashboard', () => {
  it('has the name that people know, and a graph for each question', () => {
    expect(onlyResource(template, 'AWS::CloudWatch::Dashboard').Properties.DashboardName).toBe(
      'SageMakerMonitoring-prod',
    );
    expect(dashboard().widgets.map(({ properties }) => properties.title)).toEqual([
      'Alarms',
      'Today (UTC)',
      'Capture lines',
      'Verdicts',
      'Judge, US dollars',
      'Runs',
      'Duration, longest (ms)',
      'Errors',
      'Replays',
    ]);
  });

  it('shows every alarm, and every function’s errors and duration', () => {
    const { widgets } = dashboard();
    expect(widgets[0]?.properties.alarms).toHaveLength(alarms.length);
    const text = JSON.stringify(widgets);
    for (const step of FUNCTIONS) {
      for (const metric of ['Errors', 'Duration', 'Throttles']) {
        expect(text).toContain(`"AWS/Lambda","${metric}","FunctionName","<${step}Function>"`);
      }
    }
  });
});

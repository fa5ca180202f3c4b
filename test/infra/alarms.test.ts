/** The alarms and the dashboard, and that the runs publish the metrics that they use. */
import { readFileSync } from 'node:fs';
import { MetricUnit } from '@aws-lambda-powertools/metrics';
import { RESOURCE_METRICS, RUN_METRICS, THROTTLE_METRICS } from '../../src/core/contract/metric-names.ts';
import { createMetrics } from '../../src/core/process/logging.ts';
import {
  definitionOf,
  flattened,
  MONITORING,
  onlyResource,
  policiesOf,
  REPLAY,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

interface Alarm {
  AlarmName: string;
  AlarmDescription: string;
  AlarmActions: string[];
  Metrics?: { MetricStat?: object }[];
}

const template = templateOf({ STACK_PREFIX: 'prod' });
const alarms = Object.values(resourcesOfType(template, 'AWS::CloudWatch::Alarm')).map(
  ({ Properties }) => flattened(Properties) as unknown as Alarm,
);

const FUNCTIONS = ['StartRuns', 'PlanCaptures', 'LogTraces', 'EvaluateTraces', 'JudgeBatch', 'SummarizeRun'];

// recorded.test.ts has the rest of each.
it.each(alarms)('describes $AlarmName by its section of the runbook', ({ AlarmName, AlarmDescription }) => {
  const section = AlarmName.replace('sagemaker-monitoring-prod-', '');
  expect(AlarmDescription).toContain(`section ${section} of docs/runbook.md`);
});

it('has alarms whose names the policy of the topic allows to publish', () => {
  const policy = JSON.stringify(flattened(onlyResource(template, 'AWS::SNS::TopicPolicy').Properties));
  expect(policy).toContain(':alarm:sagemaker-monitoring-prod-*"');
  expect(alarms.filter(({ AlarmName }) => !AlarmName.startsWith('sagemaker-monitoring-prod-'))).toEqual([]);
});

describe('the metrics that the runs publish', () => {
  const metrics = createMetrics('prod');
  const names = [...RUN_METRICS, ...Object.values(THROTTLE_METRICS)];
  for (const name of names) metrics.addMetric(name, MetricUnit.Count, 1);
  const published = metrics.serializeMetrics()._aws.CloudWatchMetrics;

  it('have the dimension that the alarms and the dashboard use', () => {
    expect(published).toHaveLength(1);
    expect(published[0]).toMatchObject({
      Namespace: RESOURCE_METRICS.namespace,
      Dimensions: [[RESOURCE_METRICS.dimension]],
    });
    expect(metrics.serializeMetrics()).toMatchObject({ [RESOURCE_METRICS.dimension]: 'prod' });
  });

  it('are on the dashboard', () => {
    const { widgets } = dashboard();
    const shown = widgets.flatMap(({ properties }) => properties.metrics ?? []).map((line) => JSON.stringify(line));
    // The dashboard shows failed runs by Step Functions' metric, and the end of the model in the list of alarms.
    const elsewhere = ['RunsFailed', 'JudgeModelEnding'];
    for (const name of names.filter((each) => !elsewhere.includes(each))) {
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

it('costs at rest what the documentation says', () => {
  const watched = alarms.flatMap(({ Metrics }) => Metrics?.filter(({ MetricStat }) => MetricStat) ?? [{}]);
  const dashboards = Object.keys(resourcesOfType(template, 'AWS::CloudWatch::Dashboard'));
  const text = readFileSync('docs/cost.md', 'utf8').replaceAll('\n', ' ');
  const metrics = RUN_METRICS.length + Object.keys(THROTTLE_METRICS).length;
  expect(dashboards).toHaveLength(1);
  expect(text).toContain(
    `3.00 for the dashboard, ${(watched.length / 10).toFixed(2)} for ${watched.length} metrics in ${alarms.length} alarms at 0.10, and at most ${(metrics * 0.3).toFixed(2)} for ${metrics} metrics of runs at 0.30`,
  );
  // Lambda's five pollers of a queue receive every 20 s, at 0.40 a million: bench/cost.ts.
  const polled = Object.keys(resourcesOfType(template, 'AWS::Lambda::EventSourceMapping')).length * 0.26;
  expect(text).toContain(`${polled.toFixed(2)} for the receives`);
  const dollars = 3 + watched.length / 10 + metrics * 0.3 + polled;
  expect(text).toContain(`about ${Math.round(dollars)} dollars a month`);
  expect(readFileSync('README.md', 'utf8')).toContain(`about ${Math.round(dollars)} dollars a month`);
});

describe('the dashboard', () => {
  it('has its documented name and these widgets', () => {
    expect(onlyResource(template, 'AWS::CloudWatch::Dashboard').Properties.DashboardName).toBe(
      'SageMakerMonitoring-prod',
    );
    expect(dashboard().widgets.map(({ properties }) => properties.title)).toEqual([
      ...['Alarms', 'Today (UTC)', 'Capture lines', 'Verdicts', 'Judge', 'Runs', 'Duration, longest (ms)'],
      ...['Errors', 'Throttled by', 'Chunks', 'Replays', 'Shards'],
    ]);
  });

  it.each([
    ['Chunks', MONITORING, 2],
    ['Shards', REPLAY, 1],
  ])('shows the children of every Map in %s, by its label', (title, id, maps) => {
    const { States } = definitionOf(template, id) as { States: Record<string, { Type: string; Label?: string }> };
    const labels = Object.values(States).flatMap(({ Type, Label }) => (Type === 'Map' ? [Label] : []));
    expect(labels).toHaveLength(maps);
    const [widget] = dashboard().widgets.filter(({ properties }) => properties.title === title);
    const shown = JSON.stringify(widget);
    for (const metric of ['ExecutionsStarted', 'ExecutionsFailed', 'ExecutionThrottled']) {
      for (const label of labels) {
        expect(shown).toContain(`"AWS/States","${metric}","StateMachineArn","<${id}>/${label}"`);
      }
    }
  });

  it('shows every alarm, and the errors and durations of every function', () => {
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

describe('with objectives', () => {
  const safety = [{ atLeast: 0.95 }, { atLeast: 0.9, variant: 'B' }].map((aim) => ({ scorer: 'safety', ...aim }));
  const objectives = [...safety, { errorReplies: { atMost: 0.02 } }];
  const watching = templateOf({ STACK_PREFIX: 'prod', QUALITY_OBJECTIVES: JSON.stringify(objectives) });
  const all = Object.values(resourcesOfType(watching, 'AWS::CloudWatch::Alarm')).map(
    ({ Properties }) => flattened(Properties) as unknown as Alarm & Record<string, unknown>,
  );
  const own = all.filter(({ AlarmName }) => AlarmName.includes('-Quality-'));

  it('lets SummarizeRun write to the topic, and tells it where', () => {
    const { Properties } = Object.values(resourcesOfType(watching, 'AWS::Lambda::Function')).find(
      ({ Properties: its }) => String(its.FunctionName).includes('-summarizer-'),
    ) ?? { Properties: {} };
    const { Environment } = flattened(Properties) as { Environment: { Variables: Record<string, string> } };
    expect(Environment.Variables.ALARM_TOPIC_ARN).toBe('<AlarmsTopic>');
    expect(policiesOf(watching).SummarizeRunRole).toContainEqual([['sns:Publish'], ['<AlarmsTopic>']]);
    expect(JSON.stringify(policiesOf(template))).not.toContain('sns:Publish');
  });

  it('costs at most 16 dollars a month for 10 scorers and 2 variants', () => {
    const metrics = 10 * 2 * ['Judged', 'Passed'].length + 2 * ['ErrorReplies', 'VerdictAge'].length;
    const missing = all.find(({ AlarmName }) => AlarmName.endsWith('CapturesMissing'));
    // With two variants, two metrics of invocations. While nothing is missed, QualityMissed has no data and costs nothing.
    const watched = 10 * 2 + (missing?.Metrics?.filter(({ MetricStat }) => MetricStat).length ?? 0) + 1;
    const dollars = (metrics * 0.3 + watched * 0.1).toFixed(2);
    expect(Number(dollars)).toBeLessThanOrEqual(16);
    const text = readFileSync('docs/quality-alarms.md', 'utf8').replaceAll('\n', ' ');
    expect(text).toContain(`${(metrics * 0.3).toFixed(2)} dollars for ${metrics} metrics`);
    expect(text).toContain(`${dollars} dollars a month`);
  });

  it('shows them on the dashboard', () => {
    const body = JSON.stringify(flattened(onlyResource(watching, 'AWS::CloudWatch::Dashboard').Properties));
    for (const name of ['Judged', 'Passed', 'ErrorReplies', 'VerdictAge', 'QualityMissed'])
      expect(body).toContain(name);
    expect(JSON.stringify(dashboard())).not.toContain('QualityMissed');
  });

  it('names its example of a rollback after these alarms', () => {
    const example = JSON.parse(readFileSync('examples/rollback/deployment-config.json', 'utf8')) as {
      AutoRollbackConfiguration: { Alarms: { AlarmName: string }[] };
      BlueGreenUpdatePolicy: { TrafficRoutingConfiguration: { WaitIntervalInSeconds: number } };
    };
    const named = example.AutoRollbackConfiguration.Alarms.map(({ AlarmName }) => AlarmName);
    const names = own.map(({ AlarmName }) => AlarmName);
    expect(named.filter((name) => !names.includes(name))).toEqual([]);
    expect(named.length).toBeGreaterThan(0);
    // SageMaker's longest; from the file to the alarm it takes a quarter of that.
    expect(example.BlueGreenUpdatePolicy.TrafficRoutingConfiguration.WaitIntervalInSeconds).toBe(3600);
  });
});

describe('with objectives for true answers', () => {
  const objectives = [{ accuracy: { atLeast: 0.9 }, variant: 'A' }, { mae: { atMost: 2 } }];
  const measuring = templateOf({ STACK_PREFIX: 'prod', QUALITY_OBJECTIVES: JSON.stringify(objectives) });

  it('has an alarm for each that notifies people itself, since SummarizeRun sends no message', () => {
    const own = Object.values(resourcesOfType(measuring, 'AWS::CloudWatch::Alarm'))
      .map(({ Properties }) => flattened(Properties) as unknown as Alarm & Record<string, unknown>)
      .filter(({ AlarmName }) => AlarmName.includes('-Quality-'));
    expect(own.map(({ AlarmName, AlarmDescription }) => [AlarmName, AlarmDescription])).toEqual([
      [
        'sagemaker-monitoring-prod-Quality-accuracy-A',
        'accuracy A: by the labels, less than 0.9. What to do: section QualityMissed of docs/runbook.md.',
      ],
      [
        'sagemaker-monitoring-prod-Quality-mae',
        'mae: by the labels, more than 2. What to do: section QualityMissed of docs/runbook.md.',
      ],
    ]);
    for (const { AlarmActions, MetricName } of own) {
      expect(MetricName).toBe('QualityMissed');
      expect(AlarmActions).toEqual(['<AlarmsTopic>']);
    }
    expect(JSON.stringify(policiesOf(measuring).SummarizeRunRole)).not.toContain('sns:Publish');
  });

  it('shows their figures on the dashboard, without those of verdicts', () => {
    const body = JSON.stringify(flattened(onlyResource(measuring, 'AWS::CloudWatch::Dashboard').Properties));
    for (const name of ['TrueValue', 'accuracy A', 'QualityMissed']) expect(body).toContain(name);
    expect(body).not.toContain('Judged and passed');
  });
});

/** The dashboard `SageMakerMonitoring-{prefix}`: results, cost and errors of the pipeline. */

import { Duration } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import {
  QUALITY_DIMENSIONS,
  RESOURCE_METRICS,
  type StackMetric,
  THROTTLE_METRICS,
} from '../src/core/contract/metric-names.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { objectivesOf } from '../src/quality/objectives.ts';
import { readTrueObjectives } from '../src/quality/true-objectives.ts';
import type { AlarmsProps } from './alarms.ts';
import METRICS from './dashboard-metrics.json' with { type: 'json' };
import type { GroundTruth } from './ground-truth.ts';
import { childrenMetrics, PERIOD, runMetric, SUM, sumOf, waitingChunks } from './metrics.ts';
import { MAPS } from './state-machines/states.ts';

const LONGEST = { period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM };
const HOUR = Duration.hours(1);
const DAY = Duration.days(1);
const FULL_WIDTH = 24;
const THIRD = FULL_WIDTH / 3;
const HEIGHT = 6;

interface MonitoringDashboardProps extends Pick<AlarmsProps, 'settings' | 'stateMachine' | 'events' | 'deadLetters'> {
  /** Functions by their label in the graphs. */
  functions: Readonly<Record<string, IFunction>>;
  /** The state machine of replays. */
  replay: IStateMachine;
  truth: GroundTruth;
  alarms: readonly cloudwatch.IAlarm[];
}

export function monitoringDashboard(scope: Construct, props: MonitoringDashboardProps): void {
  const { STACK_PREFIX: prefix } = props.settings;
  new cloudwatch.Dashboard(new Construct(scope, 'Dashboard'), 'Dashboard', {
    dashboardName: resourceNames(prefix).dashboard,
    defaultInterval: DAY,
    // A total per day stays a total per day if the view shows a week.
    periodOverride: cloudwatch.PeriodOverride.INHERIT,
    widgets: [
      [new cloudwatch.AlarmStatusWidget({ title: 'Alarms', alarms: [...props.alarms], width: FULL_WIDTH, height: 3 })],
      [today(prefix)],
      results(prefix),
      ...quality(props.settings),
      ...labels(prefix, props.truth),
      operations(props),
      [throttles(prefix)],
      [
        children('Chunks', props.stateMachine, MAPS.monitoring),
        graph('Replays', [...executions(props.replay), props.replay.metricAborted({ ...SUM, label: 'stopped' })]),
        children('Shards', props.replay, MAPS.replay),
      ],
    ],
  });
}

/** Metrics of ours. @param labels by the metrics' names */
const own = (prefix: string, period: Duration, labels: Partial<Record<StackMetric, string>>): cloudwatch.IMetric[] =>
  Object.entries(labels).map(([name, label]) => runMetric(prefix, name as StackMetric, period).with({ label }));

function today(prefix: string): cloudwatch.IWidget {
  return new cloudwatch.SingleValueWidget({
    title: 'Today (UTC)',
    width: FULL_WIDTH,
    height: 3,
    metrics: own(prefix, DAY, METRICS.today),
  });
}

const results = (prefix: string): cloudwatch.IWidget[] =>
  Object.entries(METRICS.results).map(([title, labels]) => graph(title, own(prefix, PERIOD, labels)));

/** A row for the objectives, if there are any: search expressions find the variants. */
function quality(settings: Settings): cloudwatch.IWidget[][] {
  const watched = objectivesOf(settings);
  const truths = readTrueObjectives(settings.QUALITY_OBJECTIVES);
  const objectives = [...watched, ...truths];
  if (objectives.length === 0) return [];
  const { STACK_PREFIX: prefix } = settings;
  const found = (metric: StackMetric, dimensions: string, statistic: string): string =>
    `SEARCH('{${RESOURCE_METRICS.namespace},${RESOURCE_METRICS.dimension},${dimensions}} MetricName="${metric}" ${RESOURCE_METRICS.dimension}="${prefix}"', '${statistic}', ${HOUR.toSeconds()})`;
  const { scorer, variant } = QUALITY_DIMENSIONS;
  const search = (expression: string, label: string): cloudwatch.IMetric =>
    new cloudwatch.MathExpression({ expression, label, period: HOUR, usingMetrics: {} });
  const ofObjective = (metric: StackMetric, id: string) =>
    runMetric(prefix, metric, HOUR, { [QUALITY_DIMENSIONS.objective]: id }).with({ label: id });
  const missed = objectives.map(({ id }) => ofObjective('QualityMissed', id));
  const byLabels = truths.map(({ id }) => ofObjective('TrueValue', id).with({ statistic: cloudwatch.Stats.AVERAGE }));
  const judged = [
    graph('Judged and passed, per hour', [
      search(found('Judged', `${scorer},${variant}`, 'Sum'), 'judged'),
      search(found('Passed', `${scorer},${variant}`, 'Sum'), 'passed'),
      search(found('ErrorReplies', variant, 'Sum'), 'error replies'),
    ]),
    graph('Inference to verdict, 95% within (s)', [search(found('VerdictAge', variant, 'p95'), '')]),
  ];
  return [
    [
      ...(watched.length === 0 ? [] : judged),
      ...(truths.length === 0 ? [] : [graph('Figures of objectives, by labels', byLabels)]),
      graph('Objectives missed, runs per hour', missed),
    ],
  ];
}

/** A row for labels, if label files are read. */
function labels(prefix: string, { files, stateMachine, joiner }: GroundTruth): cloudwatch.IWidget[][] {
  if (files === undefined) return [];
  return [
    [
      graph('Labels, per hour', own(prefix, HOUR, METRICS.labels)),
      graph('Runs over labels', [
        ...executions(stateMachine),
        ...waiting(files.events, 'files that wait', 'files not read'),
      ]),
      graph('Joining labels', [
        joiner.function.metricErrors({ ...SUM, label: 'errors' }),
        joiner.function.metricThrottles({ ...SUM, label: 'throttles' }),
      ]),
    ],
  ];
}

function operations({ stateMachine, functions, ...queues }: MonitoringDashboardProps): cloudwatch.IWidget[] {
  const throttled = Object.values(functions).map((each) => each.metricThrottles(SUM));
  return [
    graph('Runs', [...executions(stateMachine), ...waiting(queues, 'events that wait', 'events not delivered')]),
    new cloudwatch.GraphWidget({
      title: 'Duration, longest (ms)',
      width: THIRD,
      height: HEIGHT,
      left: Object.entries(functions).map(([label, each]) => each.metricDuration({ ...LONGEST, label })),
      leftYAxis: { min: 0, label: 'functions', showUnits: false },
      right: [stateMachine.metricTime({ ...LONGEST, label: 'whole run' })],
      rightYAxis: { min: 0, label: 'runs', showUnits: false },
    }),
    graph('Errors', [
      ...Object.entries(functions).map(([label, each]) => each.metricErrors({ ...SUM, label })),
      sumOf(throttled, 'throttles'),
    ]),
  ];
}

function throttles(prefix: string): cloudwatch.IWidget {
  const { chunks: _, ...throttlers } = THROTTLE_METRICS;
  const lines = Object.entries(throttlers).map(([label, name]) => runMetric(prefix, name, PERIOD).with({ label }));
  return graph('Throttled by', [...lines, waitingChunks(prefix, PERIOD)]);
}

const waiting = (
  { events, deadLetters }: Pick<AlarmsProps, 'events' | 'deadLetters'>,
  label: string,
  lost: string,
): cloudwatch.IMetric[] => [
  events.metricApproximateNumberOfMessagesVisible({ ...LONGEST, label }),
  deadLetters.metricApproximateNumberOfMessagesVisible({ ...LONGEST, label: lost }),
];

const executions = (stateMachine: IStateMachine): cloudwatch.IMetric[] => [
  stateMachine.metricStarted({ ...SUM, label: 'started' }),
  stateMachine.metricSucceeded({ ...SUM, label: 'succeeded' }),
  stateMachine.metricFailed({ ...SUM, label: 'failed' }),
];

/** Graphs the children of Maps: one per chunk or shard. The Map does not retry failed children. */
function children(title: string, stateMachine: IStateMachine, maps: readonly string[]): cloudwatch.IWidget {
  const totals = { started: 'ExecutionsStarted', failed: 'ExecutionsFailed', throttled: 'ExecutionThrottled' } as const;
  const sums = Object.entries(totals).map(([label, name]) =>
    sumOf(childrenMetrics(stateMachine, maps, name), label, label),
  );
  return graph(title, sums);
}

const graph = (title: string, left: cloudwatch.IMetric[]): cloudwatch.GraphWidget =>
  new cloudwatch.GraphWidget({ title, left, width: THIRD, height: HEIGHT, leftYAxis: { min: 0, showUnits: false } });

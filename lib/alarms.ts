/**
 * The alarms. Each has a section of the same name in docs/runbook.md.
 *
 * One cause raises one alarm: errors that Lambda and Step Functions retry count only if they last, and the losses of a failed run
 * raise only RunFailed.
 */
import { Duration, Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { THROTTLE_METRICS } from '../src/core/contract/metric-names.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { arnIn, workKey } from './access/allow.ts';
import TEXTS from './alarm-texts.json' with { type: 'json' };
import { childrenMetrics, PERIOD, runMetric, SUM, sumOf, waitingChunks } from './metrics.ts';
import { MAPS } from './state-machines/states.ts';

export interface AlarmsProps {
  settings: Settings;
  stateMachine: IStateMachine;
  /** The events of new capture files that wait for their run. */
  events: IQueue;
  deadLetters: IQueue;
  /** The dead letters of replays that were stopped but could not be brought to their end. */
  replaysNotEnded: IQueue;
  functions: readonly IFunction[];
}

/** 15 minutes. Retries last 18 minutes on average for a throttled judge, 41 hours for a throttled function, and at most 2 minutes otherwise. */
const SUSTAINED_PERIODS = 3;
/**
 * Half an hour. A batch of events that fails comes back after 6 to 11 minutes, the longest visibility timeout of its queue: a
 * third failure is in the sixth period at the latest.
 */
const PERIODS_WITH_RETRIES = 6;
/** An hour. A chunk that waits for a provider asks at least every 20 minutes (15 and a quarter more), and counts each refusal. */
const PERIODS_WITH_PAUSES = 12;
/** Three dollars a day. A burst of files that the stack is made for has fewer in the mean of an hour, and so has a backfill. */
const WAITING_CHUNKS = 100;
/** Sends one message for an overload that comes and goes with the hours of the day. */
const HOURS_WAITING = 12;

/**
 * A day, the maximum for periods of less than an hour: one message for the findings of all runs, until a day after the
 * last.
 */
const ONCE_A_DAY = { evaluationPeriods: 288, datapointsToAlarm: 1 };

/** The longest window is 5 minutes, and a batch that failed once is tried again after 6 to 11. */
const LONGEST_WAIT_SECONDS = 1200;

/** Fewer may all be left out by Data Capture's own sampling. At its 10%, a hundred would be in 3 of 100,000 cases. */
const FEWEST_INVOCATIONS = 100;
const MISSING_HOURS = 6;

interface AlarmOptions extends Partial<cloudwatch.AlarmProps> {
  metric: cloudwatch.IMetric;
  /** The figure in the text of the email. */
  figure?: number;
  /** Raised by more than this. Default 0. */
  threshold?: number;
  /** Raised only if the condition lasts. */
  sustained?: boolean;
}

/** Counts messages of a queue. */
const waiting = (queue: IQueue): cloudwatch.IMetric =>
  queue.metricApproximateNumberOfMessagesVisible({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM });

/** Counts events that could not even be written to the dead-letter queue. */
const lost = (namespace: string, metricName: string, dimensionsMap: Record<string, string>): cloudwatch.IMetric =>
  new cloudwatch.Metric({ namespace, metricName, dimensionsMap, ...SUM });

/**
 * Counts events of files that are in the dead-letter queue, or lost, or that wait for too long.
 *
 * @param more other metrics to add, by their id
 */
export function lateOrLost(
  { events, deadLetters, ruleName: RuleName }: { events: IQueue; deadLetters: IQueue; ruleName: string },
  label: string,
  {
    longestSeconds = LONGEST_WAIT_SECONDS,
    more = {},
  }: { longestSeconds?: number; more?: Record<string, cloudwatch.IMetric> } = {},
): cloudwatch.IMetric {
  const counts = {
    dead: waiting(deadLetters),
    lost: lost('AWS/Events', 'InvocationsFailedToBeSentToDlq', { RuleName }),
    ...more,
  };
  const age = events.metricApproximateAgeOfOldestMessage({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM });
  const sum = Object.keys(counts).map((id) => `FILL(${id}, 0)`);
  const expression = `${sum.join(' + ')} + IF(FILL(age, 0) > ${longestSeconds}, 1, 0)`;
  return new cloudwatch.MathExpression({ expression, usingMetrics: { ...counts, age }, label, period: PERIOD });
}

export class Alarms extends Construct {
  readonly topic: Topic;
  readonly all: cloudwatch.Alarm[] = [];
  readonly #prefix: string;

  constructor(scope: Construct, id: string, props: AlarmsProps) {
    super(scope, id);
    const { settings, stateMachine, events, deadLetters, replaysNotEnded, functions } = props;
    this.#prefix = settings.STACK_PREFIX;
    this.topic = new Topic(this, 'Topic', {
      enforceSSL: true,
      masterKey: workKey(this, settings),
      displayName: `SageMaker monitoring ${settings.STACK_PREFIX}`,
    });
    this.#letAlarmsPublish();
    if (settings.ALARM_EMAIL !== undefined) this.topic.addSubscription(new EmailSubscription(settings.ALARM_EMAIL));
    this.#aboutRuns(stateMachine, functions);
    this.#aboutEvents(events, deadLetters);
    this.#aboutMissing(settings, events);
    this.#aboutResults();
    this.#aboutReplays(replaysNotEnded);
  }

  /**
   * Lets the alarms publish to the topic. SNS's default policy allows the whole account to publish, CloudWatch
   * included. Enforcing TLS replaces it with a policy that only denies. Without this statement the alarm's email would
   * be rejected, and only the alarm's history would show it.
   */
  #letAlarmsPublish(): void {
    this.topic.addToResourcePolicy(
      new PolicyStatement({
        sid: 'AlarmsOfThisStack',
        actions: ['sns:Publish'],
        principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
        resources: [this.topic.topicArn],
        conditions: {
          StringEquals: { 'aws:SourceAccount': Stack.of(this).account },
          ArnLike: { 'aws:SourceArn': arnIn(this, 'cloudwatch', `alarm:${this.#name('*')}`) },
        },
      }),
    );
  }

  #name(id: string): string {
    return `sagemaker-monitoring-${this.#prefix}-${id}`;
  }

  #aboutRuns(stateMachine: IStateMachine, functions: readonly IFunction[]): void {
    this.add('RunFailed', { metric: stateMachine.metricFailed(SUM) });
    const children = childrenMetrics(stateMachine, MAPS.monitoring, 'ExecutionThrottled');
    this.add('RunThrottled', {
      metric: sumOf([stateMachine.metricThrottled(SUM), ...children], 'Throttled state transitions'),
      sustained: true,
    });
    const errors = functions.map((each) => each.metricErrors(SUM));
    this.add('FunctionErrors', {
      metric: sumOf(errors, 'Errors'),
      evaluationPeriods: PERIODS_WITH_RETRIES,
      datapointsToAlarm: SUSTAINED_PERIODS,
    });
    const throttles = functions.map((each) => each.metricThrottles(SUM));
    this.add('FunctionThrottled', { metric: sumOf(throttles, 'Throttles'), sustained: true });
  }

  #aboutEvents(events: IQueue, deadLetters: IQueue): void {
    this.add('EventsWaiting', {
      metric: events.metricApproximateAgeOfOldestMessage({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM }),
      // Errors of the function raise only FunctionErrors in their first 15 minutes.
      threshold: LONGEST_WAIT_SECONDS,
      sustained: true,
    });
    this.add('EventNotDelivered', { metric: waiting(deadLetters) });
    this.add('EventLost', {
      metric: lost('AWS/Events', 'InvocationsFailedToBeSentToDlq', { RuleName: resourceNames(this.#prefix).rule }),
    });
  }

  /**
   * Adds the alarm on missing captures. SageMaker stops capturing while the disk of the endpoint's instance is 75%
   * full, and then no run can fail. SageMaker's own metric shows that the endpoint is used. The queue has a data point
   * for each minute, even if it is 0, because Lambda polls it.
   */
  #aboutMissing(settings: Settings, events: IQueue): void {
    const { SAGEMAKER_ENDPOINT_NAME: EndpointName, ENDPOINT_VARIANTS } = settings;
    const period = Duration.hours(MISSING_HOURS);
    const sum = { namespace: 'AWS/SageMaker', metricName: 'Invocations', period, statistic: cloudwatch.Stats.SUM };
    const used = ENDPOINT_VARIANTS.map(
      (VariantName) => new cloudwatch.Metric({ ...sum, dimensionsMap: { EndpointName, VariantName } }),
    );
    const invocations = used.map((_, index) => `FILL(v${index}, 0)`).join(', ');
    this.add('CapturesMissing', {
      metric: new cloudwatch.MathExpression({
        expression: `IF(SUM([${invocations}]) >= ${FEWEST_INVOCATIONS} AND FILL(events, 0) < 1, 1, 0)`,
        usingMetrics: {
          ...Object.fromEntries(used.map((metric, index) => [`v${index}`, metric])),
          events: events.metricNumberOfMessagesSent({ period, statistic: cloudwatch.Stats.SUM }),
        },
        label: 'The endpoint is used, and nothing is captured',
        period,
      }),
      figure: MISSING_HOURS,
    });
  }

  #aboutReplays(notEnded: IQueue): void {
    const { replayStopRule, replaySummarizer } = resourceNames(this.#prefix);
    this.add('ReplayNotEnded', {
      metric: sumOf(
        [
          waiting(notEnded),
          // The queue itself may be the fault: EventBridge and Lambda both write to it.
          lost('AWS/Events', 'InvocationsFailedToBeSentToDlq', { RuleName: replayStopRule }),
          lost('AWS/Lambda', 'DestinationDeliveryFailures', { FunctionName: replaySummarizer }),
        ],
        'Replays that were not ended',
      ),
    });
  }

  #aboutResults(): void {
    const own = (name: Parameters<typeof runMetric>[1]) => runMetric(this.#prefix, name, PERIOD);
    this.add('VerdictsFailed', {
      // Lost verdicts fail the run and so raise RunFailed. Both metrics are always published together.
      metric: new cloudwatch.MathExpression({
        expression: 'failed - lost',
        usingMetrics: { failed: own('FailedVerdicts'), lost: own('LostVerdicts') },
        label: 'Error assessments',
        period: PERIOD,
      }),
      ...ONCE_A_DAY,
    });
    this.add('LinesQuarantined', { metric: own('QuarantinedLines'), ...ONCE_A_DAY });
    this.add('JudgeModelEnding', { metric: own('JudgeModelEnding'), ...ONCE_A_DAY });
    this.add('VerdictsHeld', { metric: own('HeldVerdicts'), ...ONCE_A_DAY });
    const despitePauses = { evaluationPeriods: PERIODS_WITH_PAUSES, datapointsToAlarm: SUSTAINED_PERIODS };
    this.add('JudgeThrottled', { metric: own(THROTTLE_METRICS.judge), ...despitePauses });
    this.add('MlflowThrottled', { metric: own(THROTTLE_METRICS.mlflow), ...despitePauses });
    this.add('TableThrottled', { metric: own(THROTTLE_METRICS.table), ...despitePauses });
    this.add('ChunksWaiting', {
      metric: waitingChunks(this.#prefix, Duration.hours(1)),
      figure: WAITING_CHUNKS,
      threshold: WAITING_CHUNKS,
      evaluationPeriods: HOURS_WAITING,
      datapointsToAlarm: 1,
    });
    this.add('StorageThrottled', { metric: own(THROTTLE_METRICS.storage), sustained: true });
  }

  /** Adds an alarm, which sends to the topic. @param id its text for the email is in `alarm-texts.json` */
  add(id: keyof typeof TEXTS, { metric, figure, threshold = 0, sustained = false, ...more }: AlarmOptions): void {
    const alarm = new cloudwatch.Alarm(this, id, {
      alarmName: this.#name(id),
      alarmDescription: `${TEXTS[id].replace('{}', String(figure))}. What to do: section ${id} of docs/runbook.md.`,
      metric,
      threshold,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: sustained ? SUSTAINED_PERIODS : 1,
      // There is no data while nothing runs.
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      ...more,
    });
    alarm.addAlarmAction(new SnsAction(this.topic));
    this.all.push(alarm);
  }
}

/** What should wake somebody up. Each alarm has a section of its name in docs/runbook.md. */
import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, type IMetric, Metric, Stats, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { RESOURCE_METRICS } from '../lambda/contract.ts';
import type { Settings } from './settings.ts';

export interface AlarmsProps {
  settings: Settings;
  stateMachine: IStateMachine;
  deadLetters: IQueue;
  functions: readonly IFunction[];
}

const PERIOD = Duration.minutes(5);

export class Alarms extends Construct {
  readonly topic: Topic;
  readonly #prefix: string;

  constructor(scope: Construct, id: string, { settings, stateMachine, deadLetters, functions }: AlarmsProps) {
    super(scope, id);
    this.#prefix = settings.STACK_PREFIX;
    this.topic = new Topic(this, 'Topic', {
      enforceSSL: true,
      displayName: `SageMaker monitoring ${settings.STACK_PREFIX}`,
    });
    if (settings.ALARM_EMAIL !== undefined) this.topic.addSubscription(new EmailSubscription(settings.ALARM_EMAIL));

    const sum = { period: PERIOD, statistic: Stats.SUM };
    this.#alarm('RunFailed', stateMachine.metricFailed(sum), 'An execution failed: lines or verdicts are missing');
    this.#alarm('RunTimedOut', stateMachine.metricTimedOut(sum), 'An execution timed out');
    this.#alarm('RunThrottled', stateMachine.metricThrottled(sum), 'Step Functions throttles this state machine');
    this.#alarm(
      'EventNotDelivered',
      deadLetters.metricApproximateNumberOfMessagesVisible({ period: PERIOD, statistic: Stats.MAXIMUM }),
      'A capture file did not start an execution',
    );
    const throttles = functions.map((each) => each.metricThrottles(sum));
    throttles.forEach((metric, index) => {
      this.#alarm(
        `FunctionThrottled${index}`,
        metric,
        'Lambda throttles a function of the pipeline',
        'FunctionThrottled',
      );
    });
    this.#alarm(
      'VerdictsFailed',
      this.#own('FailedVerdicts'),
      'The judge could not answer; error assessments are on the traces',
    );
    this.#alarm(
      'LinesQuarantined',
      this.#own('QuarantinedLines'),
      'Lines are no capture records, or MLflow refused them',
    );
    this.#alarm('VerdictsHeld', this.#own('HeldVerdicts'), 'The budget held evaluations back');
  }

  #own(metricName: string): IMetric {
    return new Metric({
      namespace: RESOURCE_METRICS.namespace,
      metricName,
      dimensionsMap: { [RESOURCE_METRICS.dimension]: this.#prefix },
      period: PERIOD,
      statistic: Stats.SUM,
    });
  }

  #alarm(id: string, metric: IMetric, what: string, section = id): void {
    const alarm = new Alarm(this, id, {
      alarmName: `sagemaker-monitoring-${this.#prefix}-${id}`,
      alarmDescription: `${what}. See the section ${section} of docs/runbook.md.`,
      metric,
      threshold: 0,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      // Nothing happens at rest, and that is no alarm.
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
    alarm.addAlarmAction(new SnsAction(this.topic));
  }
}

/**
 * An alarm for each objective, which SageMaker can watch while an endpoint is updated, and the settings that
 * SummarizeRun needs for messages. Alarms of scorers send no message, because SummarizeRun's message is more detailed
 * and one message per cause is enough. SummarizeRun sends none about true answers, so their alarms do.
 */
import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { QUALITY_DIMENSIONS } from '../src/core/contract/metric-names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { objectivesOf } from '../src/quality/objectives.ts';
import { readTrueObjectives } from '../src/quality/true-objectives.ts';
import { allow, grantKey } from './access/allow.ts';
import { runMetric } from './metrics.ts';
import type { PipelineFunction } from './pipeline-function.ts';

/** The shortest for which CloudWatch asks no extra price. SageMaker sees the alarm a minute after the run. */
const PERIOD = Duration.minutes(1);
/** While an objective is missed, each run publishes this. The alarm ends half an hour after the last such run. */
const PERIODS = 30;

export function qualityAlarms(
  scope: Construct,
  settings: Settings,
  topic: ITopic,
  summarizer: PipelineFunction,
): Alarm[] {
  const objectives = objectivesOf(settings);
  const alarm = alarmOf(scope, settings.STACK_PREFIX);
  const own = objectives.map(({ id, bound }) =>
    alarm(id, 'atLeast' in bound ? `fewer than ${bound.atLeast} of the captures pass` : `more than ${bound.atMost}`),
  );
  const ofTruth = readTrueObjectives(settings.QUALITY_OBJECTIVES).map(({ id, bound }) =>
    alarm(id, `by the labels, ${'atLeast' in bound ? `less than ${bound.atLeast}` : `more than ${bound.atMost}`}`),
  );
  for (const each of ofTruth) each.addAlarmAction(new SnsAction(topic));
  if (objectives.length > 0) {
    allow(summarizer.role, { actions: ['sns:Publish'], resources: [topic.topicArn] });
    grantKey(summarizer.role, settings.WORK_KMS_KEY_ARN, 'sns', 'both');
    summarizer.function.addEnvironment('ALARM_TOPIC_ARN', topic.topicArn);
  }
  return [...own, ...ofTruth];
}

const alarmOf = (scope: Construct, prefix: string) => (id: string, what: string) =>
  new Alarm(scope, id, {
    alarmName: `sagemaker-monitoring-${prefix}-Quality-${id.replaceAll(' ', '-')}`,
    alarmDescription: `${id}: ${what}. What to do: section QualityMissed of docs/runbook.md.`,
    metric: runMetric(prefix, 'QualityMissed', PERIOD, { [QUALITY_DIMENSIONS.objective]: id }),
    threshold: 0,
    comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
    evaluationPeriods: PERIODS,
    datapointsToAlarm: 1,
    // There is no data while the objective is met. So the alarm is OK from the start, and not INSUFFICIENT_DATA.
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });

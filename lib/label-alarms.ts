/** The alarms about labels. They exist only if the settings say where label files are written. */
import { Duration } from 'aws-cdk-lib';
import { ComparisonOperator, Stats, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { type Alarms, lateOrLost } from './alarms.ts';
import type { GroundTruth } from './ground-truth.ts';
import { runMetric } from './metrics.ts';

const PERIOD = Duration.minutes(5);
const HOUR = Duration.hours(1);

export function alarmAboutLabels(
  alarms: Alarms,
  { STACK_PREFIX: prefix, MISSING_LABELS_HOURS: hours }: Settings,
  { files, stateMachine }: GroundTruth,
): void {
  if (files === undefined) return;
  alarms.add('GroundTruthFailed', {
    metric: stateMachine.metricFailed({ period: PERIOD, statistic: Stats.SUM }),
    what: 'Labels could not be read, joined, measured or noted',
  });
  alarms.add('LabelsInvalid', {
    metric: runMetric(prefix, 'LabelsInvalid', PERIOD),
    what: 'Lines of a label file, or a whole file, could not be used',
  });
  alarms.add('LabelFilesNotRead', {
    metric: lateOrLost(files.rule, resourceNames(prefix).labelRule, 'Label files that are not read'),
    what: 'Label files did not start an execution; their events are in a dead-letter queue, lost, or wait for too long',
  });
  if (hours === 0) return;
  alarms.add('LabelsMissing', {
    metric: runMetric(prefix, 'LabelsRead', HOUR),
    what: `No label has come for ${hours} hours`,
    threshold: 1,
    comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
    evaluationPeriods: hours,
    // There is no data while nothing is read.
    treatMissingData: TreatMissingData.BREACHING,
  });
}

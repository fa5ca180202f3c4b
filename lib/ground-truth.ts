/**
 * True answers: the function that joins labels to predictions, its state machine, and the rule for new label files, if
 * the settings define their location.
 */
import { Duration } from 'aws-cdk-lib';
import { ComparisonOperator, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { Match } from 'aws-cdk-lib/aws-events';
import * as sfn from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { CONTRACT } from '../src/core/contract/contract.ts';
import { TRUTH_BEGINS } from '../src/core/contract/ground-truth.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import { s3Place } from '../src/core/settings/kinds.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { labelScorers, scorersFor } from '../src/judge/scorers/scorer-set.ts';
import { allow, grantPseudonymKey } from './access/allow.ts';
import { grantObjectRead } from './access/capture.ts';
import { grantMlflow } from './access/mlflow.ts';
import { type Alarms, lateOrLost } from './alarms.ts';
import { grantItems } from './item-table.ts';
import { PERIOD, runMetric, SUM } from './metrics.ts';
import { STARTER } from './monitoring-functions.ts';
import { type ObjectEvents, startOnObjects } from './object-rule.ts';
import { PipelineFunction, type StackContext } from './pipeline-function.ts';
import { pipelineStateMachine, RUN } from './state-machines/pipeline.ts';
import { STORE_RETRIES } from './state-machines/retries.ts';
import { invoke } from './state-machines/states.ts';

/** Runs of captures of ten times this share a run of the labels that wait for captures. */
const WINDOWS = 10;

export class GroundTruth extends Construct {
  readonly stateMachine: sfn.StateMachine;
  readonly joiner: PipelineFunction;
  /** Absent if the settings do not define the location of label files. */
  readonly files: { starter: PipelineFunction; events: ObjectEvents } | undefined;

  constructor(scope: Construct, id: string, props: StackContext) {
    super(scope, id);
    const { settings } = props;
    this.joiner = new PipelineFunction(this, 'JoinLabels', 'joiner', props);
    this.#grant(props);
    this.stateMachine = truthStateMachine(new Construct(this, 'Machine'), this.joiner, props);
    const place = s3Place(settings.GROUND_TRUTH_S3_PREFIX);
    if (place.bucket === '') return;
    const starter = new PipelineFunction(this, 'StartRuns', 'labelStarter', { ...props, ...STARTER });
    const events = startOnObjects(this, 'Files', {
      settings,
      ruleName: resourceNames(settings.STACK_PREFIX).labelRule,
      description: 'A label file was written',
      bucket: place.bucket,
      keys: place.prefix === '' ? undefined : Match.prefix(place.prefix),
      stateMachine: this.stateMachine,
      starter,
    });
    this.files = { starter, events };
  }

  /** The functions that work without a person, and so need alarms. */
  get watched(): PipelineFunction[] {
    return this.files === undefined ? [] : [this.joiner, this.files.starter];
  }

  #grant({ settings, budget }: StackContext): void {
    const { role } = this.joiner;
    const place = s3Place(settings.GROUND_TRUTH_S3_PREFIX);
    if (place.bucket !== '') {
      const why = 'Label files have names of their own.';
      grantObjectRead(role, { ...place, key: settings.GROUND_TRUTH_KMS_KEY_ARN, why });
    }
    grantMlflow(role, settings);
    grantPseudonymKey(role, settings);
    grantItems(role, budget, settings);
  }

  /** Lets a function start a run for waiting labels when there are new captures. */
  startWhenCaptured({ role, function: summarizer }: PipelineFunction, { BATCH_WINDOW_SECONDS }: Settings): void {
    const { stateMachineArn } = this.stateMachine;
    allow(role, { actions: ['states:StartExecution'], resources: [stateMachineArn] });
    summarizer.addEnvironment('TRUTH_STATE_MACHINE_ARN', stateMachineArn);
    summarizer.addEnvironment('TRUTH_WINDOW_SECONDS', String(WINDOWS * BATCH_WINDOW_SECONDS));
  }

  /** Adds the alarms about labels, if the settings define the location of label files. */
  alarm(alarms: Alarms, { STACK_PREFIX: prefix, MISSING_LABELS_HOURS: hours }: Settings): void {
    if (this.files === undefined) return;
    alarms.add('GroundTruthFailed', { metric: this.stateMachine.metricFailed(SUM) });
    alarms.add('LabelsInvalid', { metric: runMetric(prefix, 'LabelsInvalid', PERIOD) });
    alarms.add('LabelFilesNotRead', { metric: lateOrLost(this.files.events, 'Label files that are not read') });
    if (hours === 0) return;
    alarms.add('LabelsMissing', {
      metric: runMetric(prefix, 'LabelsRead', Duration.hours(1)),
      figure: hours,
      threshold: 1,
      comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
      evaluationPeriods: hours,
      // There is no data while nothing is read.
      treatMissingData: TreatMissingData.BREACHING,
    });
  }
}

/**
 * The state machine of labels: one function, which is invoked until all steps are done.
 *
 * An execution may have 25,000 events. Each invocation takes seven events, and works as long as its time allows: 3,500
 * invocations of 15 minutes are five weeks, or at the shortest timeout two days. That is 4 million labels at the speed
 * of a managed MLflow.
 */
function truthStateMachine(
  scope: Construct,
  joiner: PipelineFunction,
  { settings, workBucket }: StackContext,
): sfn.StateMachine {
  const join = invoke(scope, 'JoinLabels', {
    lambda: joiner,
    comment: 'Reads label files, joins them to predictions, measures quality and writes the labels to MLflow',
    payload: sfn.TaskInput.fromObject({
      contract: CONTRACT,
      'input.$': '$$.Execution.Input',
      run: RUN,
      // Computed here, so that the function does not contain the judge.
      scorers: labelScorers(
        scorersFor({ guidelines: settings.JUDGE_GUIDELINES, functions: settings.SCORER_FUNCTIONS }),
      ),
      'state.$': '$.state',
    }),
    retries: STORE_RETRIES,
  });
  const wait = new sfn.Wait(scope, 'WaitForCaptures', { time: sfn.WaitTime.secondsPath('$.waitSeconds') });
  const next = new sfn.Choice(scope, 'MoreToDo')
    .when(sfn.Condition.numberGreaterThan('$.waitSeconds', 0), wait.next(join))
    .when(sfn.Condition.booleanEquals('$.more', true), join)
    .otherwise(new sfn.Succeed(scope, 'LabelsJoined'));
  const start = new sfn.Pass(scope, 'Start', {
    comment: 'JoinLabels reads the input from the execution itself',
    result: sfn.Result.fromObject({ state: TRUTH_BEGINS }),
  });
  return pipelineStateMachine(scope, {
    settings,
    name: 'truthStateMachine',
    comment: 'Joins true answers to predictions',
    workBucket,
    functions: [joiner],
    definition: start.next(join.next(next)),
  });
}

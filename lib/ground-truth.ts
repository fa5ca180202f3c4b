/**
 * True answers: the function that joins labels to predictions, its state machine, and the rule of new label files, if the settings
 * say where they are written.
 */
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Match } from 'aws-cdk-lib/aws-events';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import { labelPlace } from '../src/core/settings/ground-truth-setting.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow } from './access/allow.ts';
import { grantObjectRead } from './access/capture.ts';
import { grantMlflow } from './access/mlflow.ts';
import { grantWork, type WorkPart } from './access/work.ts';
import { grantBudget } from './item-table.ts';
import { STARTER } from './monitoring-functions.ts';
import { ObjectRule } from './object-rule.ts';
import { PipelineFunction } from './pipeline-function.ts';
import { GroundTruthStateMachine } from './state-machines/ground-truth.ts';

interface GroundTruthProps {
  settings: Settings;
  workBucket: IBucket;
  /** The budget, in whose table the gate of MLflow has its items. */
  budget: ITableV2;
  /** The environment variables that all functions of the stack have. */
  environment: Record<string, string>;
}

/** Runs of captures of ten times this share a run of the labels that wait for captures. */
const WINDOWS = 10;

export class GroundTruth extends Construct {
  readonly stateMachine: StateMachine;
  readonly joiner: PipelineFunction;
  /** Absent if the settings do not say where label files are written. */
  readonly files: { starter: PipelineFunction; rule: ObjectRule } | undefined;

  constructor(scope: Construct, id: string, props: GroundTruthProps) {
    super(scope, id);
    const { settings, workBucket, environment } = props;
    this.joiner = new PipelineFunction(this, 'JoinLabels', {
      settings,
      environment,
      folder: 'ground-truth',
      name: 'joiner',
      description: 'Joins labels to predictions, measures quality, and notes the labels in MLflow',
    });
    this.#grant(props);
    this.stateMachine = new GroundTruthStateMachine(this, 'Machine', {
      settings,
      workBucket,
      joiner: this.joiner,
    }).stateMachine;
    const place = labelPlace(settings.GROUND_TRUTH_S3_PREFIX);
    if (place === undefined) return;
    const starter = new PipelineFunction(this, 'StartRuns', {
      settings,
      environment,
      folder: 'start-runs',
      name: 'labelStarter',
      description: 'Starts runs over new label files',
      ...STARTER,
    });
    grantWork(workBucket, starter.role, { read: ['starts'], write: ['starts'] });
    const rule = new ObjectRule(this, 'Files', {
      settings,
      ruleName: resourceNames(settings.STACK_PREFIX).labelRule,
      description: 'A label file was written',
      bucket: place.bucket,
      keys: place.prefix === '' ? undefined : Match.prefix(place.prefix),
      stateMachine: this.stateMachine,
      starter,
    });
    this.files = { starter, rule };
  }

  /** The functions that work without a person: those that alarms are about. */
  get watched(): PipelineFunction[] {
    return this.files === undefined ? [] : [this.joiner, this.files.starter];
  }

  #grant({ settings, workBucket, budget }: GroundTruthProps): void {
    const { role } = this.joiner;
    const place = labelPlace(settings.GROUND_TRUTH_S3_PREFIX);
    if (place !== undefined) {
      const why = 'Label files have names of their own.';
      grantObjectRead(role, { ...place, key: settings.GROUND_TRUTH_KMS_KEY_ARN, why });
    }
    const own: WorkPart[] = ['truthWaiting', 'truthFiles', 'truthLabeled', 'truthToNote', 'truthRuns', 'truthReports'];
    grantWork(workBucket, role, {
      read: ['starts', 'truthUploads', 'truthIndex', ...own],
      write: ['truthIndex', ...own],
      remove: ['truthIndex', 'truthWaiting', 'truthToNote'],
    });
    grantMlflow(role, settings);
    grantBudget(role, budget, settings);
  }

  /** Lets a function start a run for labels that wait, when there are new captures. */
  startWhenCaptured({ role, function: summarizer }: PipelineFunction, { BATCH_WINDOW_SECONDS }: Settings): void {
    const { stateMachineArn } = this.stateMachine;
    allow(role, { actions: ['states:StartExecution'], resources: [stateMachineArn] });
    summarizer.addEnvironment('TRUTH_STATE_MACHINE_ARN', stateMachineArn);
    summarizer.addEnvironment('TRUTH_WINDOW_SECONDS', String(WINDOWS * BATCH_WINDOW_SECONDS));
  }
}

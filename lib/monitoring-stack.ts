/** The stack of one prefix: `SageMakerInferenceMonitoringStack-{prefix}`. */
import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import type { Settings } from '../src/settings/schema.ts';
import { Alarms } from './alarms.ts';
import { BatchInference } from './batch-inference.ts';
import { JudgeBudgetTable } from './budget-table.ts';
import { CaptureRule } from './capture-rule.ts';
import { MonitoringDashboard } from './dashboard.ts';
import { monitoringFunctions } from './monitoring-functions.ts';
import { OutputParameters } from './output-parameters.ts';
import { QualityAlarms } from './quality-alarms.ts';
import { Replay } from './replay.ts';
import { functionEnvironment } from './settings/function-environment.ts';
import { MonitoringStateMachine } from './state-machines/monitoring.ts';
import { WorkBucket } from './work-bucket.ts';

interface MonitoringStackProps extends StackProps {
  settings: Settings;
}

export class MonitoringStack extends Stack {
  constructor(scope: Construct, id: string, props: MonitoringStackProps) {
    super(scope, id, { description: 'Logs and judges the replies of a SageMaker endpoint, in MLflow', ...props });
    const { settings } = props;
    const { bucket: workBucket } = new WorkBucket(this, 'WorkBucket', settings);
    const { table: budget } = new JudgeBudgetTable(this, 'Budget', settings);
    const environment = functionEnvironment(settings, workBucket.bucketName, budget.tableName);

    const pipeline = monitoringFunctions(this, { settings, workBucket, budget, environment });
    const { stateMachine } = new MonitoringStateMachine(this, 'Monitoring', { settings, workBucket, ...pipeline });
    new BatchInference(this, 'Batch', { settings, workBucket, batcher: pipeline.batcher });
    const replay = new Replay(this, 'Replay', { settings, workBucket, budget, environment });

    const { starter } = pipeline;
    const { events, deadLetters } = new CaptureRule(this, 'Captures', { settings, stateMachine, starter });
    const functions = {
      start: starter.function,
      plan: pipeline.planner.function,
      log: pipeline.processor.function,
      evaluate: pipeline.evaluator.function,
      batch: pipeline.batcher.function,
      summarize: pipeline.summarizer.function,
    };
    const alarms = new Alarms(this, 'Alarms', {
      settings,
      stateMachine,
      events,
      deadLetters,
      replaysNotEnded: replay.notEnded,
      functions: Object.values(functions),
    });
    const { topic } = alarms;
    const quality = new QualityAlarms(this, 'Quality', { settings, topic, summarizer: pipeline.summarizer });
    new MonitoringDashboard(this, 'Dashboard', {
      settings,
      stateMachine,
      events,
      deadLetters,
      functions,
      replay: replay.stateMachine,
      alarms: [...alarms.all, ...quality.all],
    });

    const outputs = {
      stateMachineArn: stateMachine.stateMachineArn,
      replayStateMachineArn: replay.stateMachine.stateMachineArn,
      processorArn: functions.log.functionArn,
      captureBucket: settings.DATA_CAPTURE_S3_BUCKET,
      capturePrefix: settings.DATA_CAPTURE_S3_PREFIX,
      workBucket: workBucket.bucketName,
      endpoint: settings.SAGEMAKER_ENDPOINT_NAME,
      mlflowUri: settings.MLFLOW_TRACKING_URI,
      experiment: settings.MLFLOW_EXPERIMENT_NAME,
      alarmTopicArn: topic.topicArn,
    };
    new OutputParameters(this, 'Outputs', { prefix: settings.STACK_PREFIX, outputs });
    const output = (name: string, value: string, description: string) =>
      new CfnOutput(this, name, { value, description, exportName: `${name}-${settings.STACK_PREFIX}` });
    output('ProcessorLambdaArn', outputs.processorArn, 'Logs the traces of a capture file when invoked with it');
    output('StateMachineArn', outputs.stateMachineArn, 'Start it manually for a backfill or a retry');
    output('ReplayStateMachineArn', outputs.replayStateMachineArn, 'Start it manually for a replay');
    output('DataCaptureBucketName', outputs.captureBucket, 'The bucket with the captures');
    output('WorkBucketName', outputs.workBucket, 'Manifests, receipts, quarantine and summaries');
  }
}

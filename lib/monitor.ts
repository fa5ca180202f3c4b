/** All resources that watch one endpoint: for the project's own stack, and for the construct in another CDK app. */
import { CfnParameter } from 'aws-cdk-lib/aws-ssm';
import { Construct } from 'constructs';
import { OUTPUT_PARAMETERS, outputPath, type StackOutputs } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { Alarms } from './alarms.ts';
import { monitoringDashboard } from './dashboard.ts';
import { arthurSender, otlpSender } from './forward.ts';
import { GroundTruth } from './ground-truth.ts';
import { itemTable } from './item-table.ts';
import { ledgerSql } from './ledger-sql.ts';
import { allowBatchInference, monitoringFunctions } from './monitoring-functions.ts';
import { captureRule } from './object-rule.ts';
import { qualityAlarms } from './quality-alarms.ts';
import { cloudReplay } from './replay.ts';
import { functionEnvironment } from './settings/function-environment.ts';
import { MonitoringStateMachine } from './state-machines/monitoring.ts';
import { workBucketOf } from './work-bucket.ts';

/** @param scope must be empty */
export function monitor(scope: Construct, settings: Settings) {
  // Without it, the CDK ignores the location for the Maps' results. Another owner's app may not set it.
  scope.node.setContext('@aws-cdk/aws-stepfunctions:useDistributedMapResultWriterV2', true);
  const workBucket = workBucketOf(scope, 'WorkBucket', settings);
  const budget = itemTable(scope, 'Budget', settings);
  const environment = functionEnvironment(settings, workBucket.bucketName, budget.tableName);
  const parts = { settings, workBucket, budget, environment };

  const pipeline = monitoringFunctions(scope, parts);
  const { stateMachine } = new MonitoringStateMachine(scope, 'Monitoring', { settings, workBucket, ...pipeline });
  allowBatchInference(new Construct(scope, 'Batch'), pipeline.batcher, workBucket, settings);
  const replay = cloudReplay(new Construct(scope, 'Replay'), parts, stateMachine);
  const truth = new GroundTruth(scope, 'GroundTruth', parts);
  truth.startWhenCaptured(pipeline.summarizer, settings);
  const { starter, summarizer } = pipeline;
  const { events, deadLetters } = captureRule(scope, 'Captures', { settings, stateMachine, starter });
  const watched = { settings, stateMachine, events, deadLetters };
  const functions = {
    start: starter.function,
    plan: pipeline.planner.function,
    log: pipeline.processor.function,
    evaluate: pipeline.evaluator.function,
    batch: pipeline.batcher.function,
    summarize: summarizer.function,
  };
  const senders = [
    ...(settings.ARTHUR_HOST ? [arthurSender(scope, parts)] : []),
    ...(settings.OTLP_ENDPOINT ? [otlpSender(scope, parts)] : []),
  ];
  const optional = [...senders.map(({ sender }) => sender), ...truth.watched];
  const alarms = new Alarms(scope, 'Alarms', {
    ...watched,
    replaysNotEnded: replay.notEnded,
    functions: [...Object.values(functions), ...optional.map((each) => each.function)],
  });
  for (const { alarm, metric } of senders) alarms.add(alarm, { metric });
  truth.alarm(alarms, settings);
  const { topic } = alarms;
  const quality = qualityAlarms(new Construct(scope, 'Quality'), settings, topic, summarizer);
  monitoringDashboard(scope, {
    ...watched,
    functions,
    replay: replay.stateMachine,
    truth,
    alarms: [...alarms.all, ...quality],
  });

  const outputs: StackOutputs = {
    stateMachineArn: stateMachine.stateMachineArn,
    replayStateMachineArn: replay.stateMachine.stateMachineArn,
    groundTruthStateMachineArn: truth.stateMachine.stateMachineArn,
    processorArn: functions.log.functionArn,
    workBucket: workBucket.bucketName,
    alarmTopicArn: topic.topicArn,
    ...ledgerSql(new Construct(scope, 'Sql'), settings.STACK_PREFIX, workBucket),
    ...settingOutputs(settings),
  };
  outputParameters(new Construct(scope, 'Outputs'), settings.STACK_PREFIX, outputs);
  return {
    outputs,
    stateMachine,
    replayStateMachine: replay.stateMachine,
    groundTruthStateMachine: truth.stateMachine,
    workBucket,
    alarmTopic: topic,
  };
}

const settingOutputs = (settings: Settings) => ({
  captureBucket: settings.DATA_CAPTURE_S3_BUCKET,
  capturePrefix: settings.DATA_CAPTURE_S3_PREFIX,
  endpoint: settings.SAGEMAKER_ENDPOINT_NAME,
  mlflowUri: settings.MLFLOW_TRACKING_URI,
  experiment: settings.MLFLOW_EXPERIMENT_NAME,
});

/** Writes the outputs as SSM parameters, where commands and other stacks find them by the stack's prefix. */
function outputParameters(scope: Construct, prefix: string, outputs: StackOutputs): void {
  let previous: CfnParameter | undefined;
  for (const [field, name] of Object.entries(OUTPUT_PARAMETERS)) {
    const parameter = new CfnParameter(scope, name, {
      name: outputPath(prefix) + name,
      type: 'String',
      value: outputs[field as keyof StackOutputs],
    });
    // Create them one after the other: Parameter Store accepts three writes a second in an account, from all its
    // stacks.
    if (previous) parameter.node.addDependency(previous);
    previous = parameter;
  }
}

/** The stack of one prefix: `SageMakerInferenceMonitoringStack-{prefix}`. */
import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import type { Settings } from '../src/core/settings/schema.ts';
import { monitor } from './monitor.ts';

/**
 * The stack that `inference-monitor deploy` deploys: one monitor, with its outputs.
 *
 * @example
 *     new MonitoringStack(app, 'Monitoring', { settings, env: { region: 'eu-west-1' } });
 */
export class MonitoringStack extends Stack {
  constructor(scope: Construct, id: string, { settings, ...props }: StackProps & { settings: Settings }) {
    super(scope, id, { description: 'Logs and judges the replies of a SageMaker endpoint, in MLflow', ...props });
    // The CDK leaves this id out of logical ids.
    const { outputs } = monitor(new Construct(this, 'Default'), settings);
    const output = (name: string, value: string, description: string) =>
      new CfnOutput(this, name, { value, description, exportName: `${name}-${settings.STACK_PREFIX}` });
    output('ProcessorLambdaArn', outputs.processorArn, 'Logs the traces of a capture file when invoked with it');
    output('StateMachineArn', outputs.stateMachineArn, 'Start it manually for a backfill or a retry');
    output('ReplayStateMachineArn', outputs.replayStateMachineArn, 'Start it manually for a replay');
    output('GroundTruthStateMachineArn', outputs.groundTruthStateMachineArn, 'Start it manually for label files');
    output('DataCaptureBucketName', outputs.captureBucket, 'The bucket with the captures');
    output('WorkBucketName', outputs.workBucket, 'Manifests, receipts, quarantine and summaries');
  }
}

/** The parts that all state machines have in common: a separate role, complete logs, and the execution's facts. */
import { RemovalPolicy } from 'aws-cdk-lib';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  DefinitionBody,
  type IChainable,
  LogLevel,
  StateMachine,
  StateMachineType,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { Settings } from '../../src/core/settings/schema.ts';
import { workKey } from '../access/key.ts';
import { StateMachineRole } from '../access/state-machine-role.ts';
import type { WorkPart } from '../access/work.ts';
import { acknowledge } from '../acknowledge.ts';
import type { PipelineFunction } from '../pipeline-function.ts';

interface PipelineStateMachineProps {
  settings: Settings;
  stateMachineName: string;
  logGroupName: string;
  comment: string;
  workBucket: IBucket;
  functions: readonly PipelineFunction[];
  /** Parts of the work bucket that its Maps read, and that they write results to. Without a Map there are none. */
  manifests: readonly WorkPart[];
  mapResults: readonly WorkPart[];
  definition: IChainable;
}

/** The facts of the execution, for every function that handles a whole run. */
export const RUN = {
  'name.$': '$$.Execution.Name',
  'arn.$': '$$.Execution.Id',
  'startTime.$': '$$.Execution.StartTime',
};

/** Creates the state machine as a child of the scope, which must have no other. */
export function pipelineStateMachine(scope: Construct, props: PipelineStateMachineProps): StateMachine {
  const { settings, stateMachineName, workBucket, functions, manifests, mapResults } = props;
  const role = new StateMachineRole(scope, 'Role', {
    stateMachineName,
    workBucket,
    functions: functions.map((each) => each.function),
    manifests,
    mapResults,
  });
  const stateMachine = new StateMachine(scope, 'StateMachine', {
    stateMachineName,
    stateMachineType: StateMachineType.STANDARD,
    comment: props.comment,
    // The CDK's own grants would cover the whole work bucket.
    role: role.withoutPolicyUpdates(),
    definitionBody: DefinitionBody.fromChainable(props.definition),
    logs: {
      destination: new LogGroup(scope, 'Logs', {
        logGroupName: props.logGroupName,
        retention: settings.LOG_RETENTION_DAYS,
        encryptionKey: workKey(scope, settings),
        removalPolicy: RemovalPolicy.DESTROY,
      }),
      // The state contains only pointers and counts, so its data may be logged.
      includeExecutionData: true,
      level: LogLevel.ALL,
    },
  });
  // The CDK's policy for the Map would be attached to nothing: the role already has its statements.
  stateMachine.node.tryRemoveChild('DistributedMapPolicy');
  acknowledge(stateMachine, {
    'AwsSolutions-SF2':
      'Receipts, summary and logs record what happened; X-Ray would cost money for every chunk of a backfill.',
  });
  return stateMachine;
}

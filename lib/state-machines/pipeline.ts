/** What the state machines have in common: a role of their own, logs of everything, and what they tell their functions. */
import { RemovalPolicy } from 'aws-cdk-lib';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
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
import type { Settings } from '../../src/settings/schema.ts';
import { StateMachineRole } from '../access/state-machine-role.ts';
import type { WorkPart } from '../access/work.ts';
import { acknowledge } from '../acknowledge.ts';

interface PipelineStateMachineProps {
  settings: Settings;
  stateMachineName: string;
  logGroupName: string;
  comment: string;
  workBucket: IBucket;
  functions: readonly IFunction[];
  /** What its Maps read, and where they put their results. */
  manifests: readonly WorkPart[];
  mapResults: readonly WorkPart[];
  definition: IChainable;
}

/** The execution, as every function that sees a whole run is told of it. */
export const RUN = {
  'name.$': '$$.Execution.Name',
  'arn.$': '$$.Execution.Id',
  'startTime.$': '$$.Execution.StartTime',
};

/** Made of children of the scope, which has no other state machine. */
export function pipelineStateMachine(scope: Construct, props: PipelineStateMachineProps): StateMachine {
  const { settings, stateMachineName, workBucket, functions, manifests, mapResults } = props;
  const role = new StateMachineRole(scope, 'Role', {
    stateMachineName,
    workBucket,
    functions,
    manifests,
    mapResults,
  });
  const stateMachine = new StateMachine(scope, 'StateMachine', {
    stateMachineName,
    stateMachineType: StateMachineType.STANDARD,
    comment: props.comment,
    // What the CDK grants by itself reaches the whole work bucket.
    role: role.withoutPolicyUpdates(),
    definitionBody: DefinitionBody.fromChainable(props.definition),
    logs: {
      destination: new LogGroup(scope, 'Logs', {
        logGroupName: props.logGroupName,
        retention: settings.LOG_RETENTION_DAYS,
        removalPolicy: RemovalPolicy.DESTROY,
      }),
      // Pointers and counts only pass through the state, so that its data may be logged.
      includeExecutionData: true,
      level: LogLevel.ALL,
    },
  });
  // The CDK's policy for the Map would be attached to nothing; the role has its statements.
  stateMachine.node.tryRemoveChild('DistributedMapPolicy');
  acknowledge(stateMachine, {
    'AwsSolutions-SF2':
      'Receipts, summary and logs tell what happened; X-Ray would be paid for every chunk of a backfill.',
  });
  return stateMachine;
}

/** The parts that all state machines have in common: a separate role, complete logs, and the execution's facts. */
import { Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import * as sfn from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { resourceNames } from '../../src/core/contract/names.ts';
import { areaPattern, type WorkArea } from '../../src/core/contract/work-keys.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { allow, arnIn, grantKey } from '../access/allow.ts';
import { WHY_WORK_AREA } from '../access/work.ts';
import { acknowledge } from '../acknowledge.ts';
import AWS_ACTIONS from '../aws-actions.json' with { type: 'json' };
import { logsOf, type PipelineFunction } from '../pipeline-function.ts';

interface PipelineStateMachineProps {
  settings: Settings;
  /** The key of its name among the names of resources. */
  name: 'stateMachine' | 'replayStateMachine' | 'truthStateMachine';
  comment: string;
  workBucket: IBucket;
  functions: readonly PipelineFunction[];
  /** Areas of the work bucket that its Maps read, and that they write results to. Absent without a Map. */
  maps?: { manifests: readonly WorkArea[]; results: readonly WorkArea[] };
  definition: sfn.IChainable;
}

/** The facts of the execution, for every function that handles a whole run. */
export const RUN = {
  'name.$': '$$.Execution.Name',
  'arn.$': '$$.Execution.Id',
  'startTime.$': '$$.Execution.StartTime',
};

/** Creates the state machine as a child of the scope, which must have no other. */
export function pipelineStateMachine(scope: Construct, props: PipelineStateMachineProps): sfn.StateMachine {
  const { settings, name } = props;
  const names = resourceNames(settings.STACK_PREFIX);
  const stateMachineName = names[name];
  const stateMachine = new sfn.StateMachine(scope, 'StateMachine', {
    stateMachineName,
    stateMachineType: sfn.StateMachineType.STANDARD,
    comment: props.comment,
    // The CDK's own grants would cover the whole work bucket.
    role: roleOf(scope, stateMachineName, props).withoutPolicyUpdates(),
    definitionBody: sfn.DefinitionBody.fromChainable(props.definition),
    logs: {
      destination: logsOf(scope, names[`${name}LogGroup`], settings),
      // The state contains only pointers and counts, so its data may be logged.
      includeExecutionData: true,
      level: sfn.LogLevel.ALL,
    },
  });
  // The CDK's policy for the Map would not be attached to any role, because the role already has its statements.
  stateMachine.node.tryRemoveChild('DistributedMapPolicy');
  acknowledge(stateMachine, {
    'AwsSolutions-SF2':
      'Receipts, summary and logs record what happened; X-Ray would cost money for every chunk of a backfill.',
  });
  return stateMachine;
}

/** The role of a state machine: it invokes its functions, runs its Maps, and uses their areas of the work bucket. */
function roleOf(scope: Construct, stateMachineName: string, props: PipelineStateMachineProps): Role {
  const role = new Role(scope, 'Role', {
    description: `Role of the state machine ${stateMachineName}`,
    // Restricts the role to state machines of this account, because the service works for all accounts.
    assumedBy: new ServicePrincipal('states.amazonaws.com', {
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  });
  const resources = props.functions.map((each) => each.function.functionArn);
  allow(role, { actions: ['lambda:InvokeFunction'], resources });
  if (props.maps) allowMaps(role, stateMachineName, props.workBucket, props.maps);
  allow(role, { actions: LOG_DELIVERY, resources: ['*'], why: 'Deliveries of vended logs have no ARN.' });
  return role;
}

function allowMaps(
  role: Role,
  name: string,
  workBucket: IBucket,
  { manifests, results }: NonNullable<PipelineStateMachineProps['maps']>,
): void {
  const objects = (areas: readonly WorkArea[]) => areas.map((area) => workBucket.arnForObjects(areaPattern(area)));
  allow(role, { actions: ['s3:GetObject'], resources: objects(manifests), why: WHY_WORK_AREA });
  allow(role, {
    // The results of many children are combined in one multipart upload.
    actions: ['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'],
    resources: objects(results),
    why: WHY_WORK_AREA,
  });
  grantKey(role, workBucket.encryptionKey?.keyArn, 's3', 'both');
  allow(role, { actions: ['states:StartExecution'], resources: [arnIn(role, 'states', `stateMachine:${name}`)] });
  // The children of a Map run are named <state machine>/<map run>:<child>.
  const children = arnIn(role, 'states', `execution:${name}/*:*`);
  allow(role, {
    actions: ['states:DescribeExecution', 'states:StopExecution'],
    resources: [arnIn(role, 'states', `execution:${name}:*`), children],
    why: 'The Map monitors and stops its own children, whose names are generated when it runs.',
  });
  allow(role, {
    actions: ['states:RedriveExecution'],
    resources: [children],
    why: 'A Map that is redriven redrives its own children, whose names are generated when it runs.',
  });
}

/** The actions that a state machine needs to deliver its logs: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html */
const LOG_DELIVERY = AWS_ACTIONS.logDelivery;

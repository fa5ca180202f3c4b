/** The role of a state machine: it invokes its functions, runs its Maps, and uses their parts of the work bucket. */
import { Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { allow } from './allow.ts';
import { grantKey } from './key.ts';
import { WHY_WORK_PART, type WorkPart, workPatterns } from './work.ts';

interface StateMachineRoleProps {
  stateMachineName: string;
  workBucket: IBucket;
  functions: readonly IFunction[];
  /** Parts of the work bucket that its Maps read, and that they write results to. Without a Map there are none. */
  manifests: readonly WorkPart[];
  mapResults: readonly WorkPart[];
}

export class StateMachineRole extends Role {
  constructor(scope: Construct, id: string, props: StateMachineRoleProps) {
    super(scope, id, {
      description: `Role of the state machine ${props.stateMachineName}`,
      // Only for the state machines of this account: the service works for all.
      assumedBy: new ServicePrincipal('states.amazonaws.com', {
        conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
      }),
    });
    allow(this, { actions: ['lambda:InvokeFunction'], resources: props.functions.map((each) => each.functionArn) });
    if (props.manifests.length > 0) this.#allowMaps(props);
    allow(this, {
      actions: LOG_DELIVERY,
      resources: ['*'],
      why: 'Deliveries of vended logs have no ARN.',
    });
  }

  #allowMaps({ stateMachineName: name, workBucket, manifests, mapResults }: StateMachineRoleProps): void {
    const { partition, region, account } = Stack.of(this);
    const objects = (parts: readonly WorkPart[]) => parts.map((part) => workBucket.arnForObjects(workPatterns[part]));
    const states = `arn:${partition}:states:${region}:${account}`;
    allow(this, {
      actions: ['s3:GetObject'],
      resources: objects(manifests),
      why: WHY_WORK_PART,
    });
    allow(this, {
      // The results of many children are combined in one multipart upload.
      actions: ['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'],
      resources: objects(mapResults),
      why: WHY_WORK_PART,
    });
    grantKey(this, workBucket.encryptionKey?.keyArn, 's3', 'both');
    allow(this, { actions: ['states:StartExecution'], resources: [`${states}:stateMachine:${name}`] });
    // The children of a Map run are named <state machine>/<map run>:<child>.
    const children = `${states}:execution:${name}/*:*`;
    allow(this, {
      actions: ['states:DescribeExecution', 'states:StopExecution'],
      resources: [`${states}:execution:${name}:*`, children],
      why: 'The Map monitors and stops its own children, whose names are generated when it runs.',
    });
    allow(this, {
      actions: ['states:RedriveExecution'],
      resources: [children],
      why: 'A Map that is redriven redrives its own children, whose names are generated when it runs.',
    });
  }
}

/** The actions that a state machine needs to deliver its logs: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html */
const LOG_DELIVERY = [
  'logs:CreateLogDelivery',
  'logs:GetLogDelivery',
  'logs:UpdateLogDelivery',
  'logs:DeleteLogDelivery',
  'logs:ListLogDeliveries',
  'logs:PutResourcePolicy',
  'logs:DescribeResourcePolicies',
  'logs:DescribeLogGroups',
];

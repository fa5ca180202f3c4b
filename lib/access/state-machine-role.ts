/** What a state machine may do: invoke its functions, run Maps of its own, and use their parts of the work bucket. */
import { Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { allow } from './allow.ts';
import { WHY_WORK_PART, type WorkPart, workPatterns } from './work.ts';

interface StateMachineRoleProps {
  stateMachineName: string;
  workBucket: IBucket;
  functions: readonly IFunction[];
  /** What its Maps read, and where they put their results. */
  manifests: readonly WorkPart[];
  mapResults: readonly WorkPart[];
}

export class StateMachineRole extends Role {
  constructor(scope: Construct, id: string, props: StateMachineRoleProps) {
    super(scope, id, {
      description: `Role of the state machine ${props.stateMachineName}`,
      assumedBy: new ServicePrincipal('states.amazonaws.com'),
    });
    allow(this, { actions: ['lambda:InvokeFunction'], resources: props.functions.map((each) => each.functionArn) });
    this.#allowMaps(props);
    allow(this, {
      actions: LOG_DELIVERY,
      resources: ['*'],
      why: 'Deliveries of vended logs have no ARN to name.',
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
      // Results of many children are put together in one multipart upload.
      actions: ['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'],
      resources: objects(mapResults),
      why: WHY_WORK_PART,
    });
    allow(this, { actions: ['states:StartExecution'], resources: [`${states}:stateMachine:${name}`] });
    // Children of a Map run are named <state machine>/<map run>:<child>.
    const children = `${states}:execution:${name}/*:*`;
    allow(this, {
      actions: ['states:DescribeExecution', 'states:StopExecution'],
      resources: [`${states}:execution:${name}:*`, children],
      why: 'The Map watches and stops its own children, whose names are made when it runs.',
    });
    allow(this, {
      actions: ['states:RedriveExecution'],
      resources: [children],
      why: 'A Map that is redriven redrives its own children, whose names are made when it runs.',
    });
  }
}

/** What a state machine needs to deliver its logs: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html */
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

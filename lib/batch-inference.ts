/** The permissions of Bedrock batch inference: the role of the jobs, and the permission to start and watch them. */
import { Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { firstModel, parseJudgeId } from '../src/judge/judge-id.ts';
import { allow, grantKey } from './access/allow.ts';
import { grantBatchModel } from './access/judge.ts';
import { WHY_WORK_PART, workPatterns } from './access/work.ts';
import type { PipelineFunction } from './pipeline-function.ts';

interface BatchInferenceProps {
  settings: Settings;
  workBucket: IBucket;
  batcher: PipelineFunction;
}

export class BatchInference extends Construct {
  constructor(scope: Construct, id: string, { settings, workBucket, batcher }: BatchInferenceProps) {
    super(scope, id);
    const { partition, region, account } = Stack.of(this);
    // A judge outside Bedrock has no batch inference, and planning rejects it. IAM refuses a role for a service that does not
    // exist in the partition, as Bedrock in China.
    if (parseJudgeId(firstModel(settings)).scheme !== 'bedrock') return;
    const jobs = `arn:${partition}:bedrock:${region}:${account}:model-invocation-job/*`;
    const serviceRole = new Role(this, 'ServiceRole', {
      roleName: resourceNames(settings.STACK_PREFIX).batchServiceRole,
      description: 'Batch inference jobs of the judge',
      assumedBy: new ServicePrincipal('bedrock.amazonaws.com', {
        conditions: { StringEquals: { 'aws:SourceAccount': account }, ArnEquals: { 'aws:SourceArn': jobs } },
      }),
    });
    const objects = (keys: string): string => workBucket.arnForObjects(keys);
    const why = WHY_WORK_PART;
    allow(serviceRole, { actions: ['s3:GetObject'], resources: [objects(workPatterns.batchInput)], why });
    allow(serviceRole, { actions: ['s3:PutObject'], resources: [objects(workPatterns.batchOutput)], why });
    allow(serviceRole, { actions: ['s3:ListBucket'], resources: [workBucket.bucketArn] });
    grantKey(serviceRole, workBucket.encryptionKey?.keyArn, 's3', 'both');

    batcher.function.addEnvironment('BATCH_ROLE_ARN', serviceRole.roleArn);
    allow(batcher.role, {
      actions: ['bedrock:CreateModelInvocationJob', 'bedrock:GetModelInvocationJob'],
      resources: [jobs],
      why: 'Bedrock generates the id of a job when it is created.',
    });
    grantBatchModel(batcher.role, serviceRole, settings);
    allow(batcher.role, {
      actions: ['iam:PassRole'],
      resources: [serviceRole.roleArn],
      conditions: { StringEquals: { 'iam:PassedToService': 'bedrock.amazonaws.com' } },
    });
  }
}

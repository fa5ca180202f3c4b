/** The functions of the monitoring pipeline, with their permissions. */
import { Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import { areaPattern, type WorkArea } from '../src/core/contract/work-keys.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { firstModel, judgeModels, parseJudgeId } from '../src/judge/judge-id.ts';
import { allow, arnIn, endpointArn, grantKey, grantPseudonymKey } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantBatchModel, grantFunctionLookUp, grantFunctions, grantJudge, grantModelLookUp } from './access/judge.ts';
import { grantArtifacts, grantMlflow } from './access/mlflow.ts';
import { grantWork, WHY_WORK_AREA } from './access/work.ts';
import { grantItems, grantManyAnswers, grantSentTraces, itemTable } from './item-table.ts';
import { PipelineFunction, type StackContext } from './pipeline-function.ts';

export type MonitoringFunctions = Record<
  'starter' | 'planner' | 'processor' | 'evaluator' | 'batcher' | 'summarizer',
  PipelineFunction
>;

/** Two requests, each with the retries of the SDK. The queue hides its messages for six times as long. */
export const STARTER_TIMEOUT_SECONDS = 60;

/** Limits of a function that starts runs. Lambda's 6 MB of events are about 25 MB as objects. */
export const STARTER = { memoryMb: 512, timeoutSeconds: STARTER_TIMEOUT_SECONDS };

/** Creates the functions in a scope, and grants them the required permissions. */
export function monitoringFunctions(scope: Construct, props: StackContext): MonitoringFunctions {
  const { settings, workBucket } = props;
  const functions: MonitoringFunctions = {
    starter: new PipelineFunction(scope, 'StartRuns', 'starter', { ...props, ...STARTER }),
    planner: new PipelineFunction(scope, 'PlanCaptures', 'planner', props),
    processor: new PipelineFunction(scope, 'LogTraces', 'processor', props),
    evaluator: new PipelineFunction(scope, 'EvaluateTraces', 'evaluator', props),
    batcher: new PipelineFunction(scope, 'JudgeBatch', 'batcher', props),
    summarizer: new PipelineFunction(scope, 'SummarizeRun', 'summarizer', props),
  };
  const { planner, processor, evaluator } = functions;
  for (const { role } of [planner, processor, evaluator]) {
    grantCaptureRead(role, settings);
    grantMlflow(role, settings);
    grantPseudonymKey(role, settings);
  }
  // Labels of people are read once a day.
  grantMlflow(functions.summarizer.role, settings);
  for (const { role } of [processor, evaluator]) grantArtifacts(role, settings);
  if (settings.CONTENT === 'none') {
    grantWork(workBucket, functions.summarizer.role, {
      remove: ['batchInput', 'batchOutput', 'replayExchanges'],
    });
  }
  grantExecutionStatus(planner, settings);
  grantStatus(functions.summarizer, props);
  grantJudge(evaluator.role, settings, { cascade: true });
  grantFunctions(evaluator.role, settings);
  for (const { role } of [planner, evaluator]) grantFunctionLookUp(role, settings);
  for (const model of judgeModels(settings)) grantModelLookUp(planner.role, model);
  // Findings of judge calls, for estimates.
  grantItems(planner.role, props.budget, settings);
  for (const { role } of [processor, evaluator]) grantSentTraces(role, props.budget, settings);
  const answers = itemTable(scope, 'Answers', settings);
  grantItems(evaluator.role, answers, settings);
  grantManyAnswers(evaluator.role, answers, settings);
  evaluator.function.addEnvironment('ANSWERS_TABLE', answers.tableName);
  return functions;
}

/** Planning checks whether the run that owns a claim is still running. */
function grantExecutionStatus({ role }: PipelineFunction, { STACK_PREFIX }: Settings): void {
  // Use the name instead of a reference, because the state machine itself refers to the planner.
  const { stateMachine } = resourceNames(STACK_PREFIX);
  allow(role, {
    actions: ['states:DescribeExecution'],
    resources: [arnIn(role, 'states', `execution:${stateMachine}:*`)],
    why: 'Executions are named when they start; these are those of this state machine.',
  });
}

/** Grants reading the facts on the endpoint's page: runs, alarms, its configuration, invocations and today's budget. */
function grantStatus(summarizer: PipelineFunction, { settings, budget }: StackContext): void {
  const { role } = summarizer;
  grantExecutionStatus(summarizer, settings);
  const { stateMachine } = resourceNames(settings.STACK_PREFIX);
  allow(role, {
    actions: ['states:ListExecutions'],
    resources: [arnIn(role, 'states', `stateMachine:${stateMachine}`)],
  });
  allow(role, {
    actions: ['cloudwatch:DescribeAlarms'],
    resources: [arnIn(role, 'cloudwatch', 'alarm:*')],
    why: 'To list alarms by a prefix needs the permission for all.',
  });
  allow(role, {
    actions: ['sagemaker:DescribeEndpoint'],
    resources: [endpointArn(role, settings.SAGEMAKER_ENDPOINT_NAME)],
  });
  allow(role, {
    actions: ['cloudwatch:GetMetricData', 'cloudwatch:ListMetrics'],
    resources: ['*'],
    why: 'Metrics have no ARN, so no narrower resource is possible.',
  });
  allow(role, { actions: ['dynamodb:GetItem'], resources: [budget.tableArn] });
  grantKey(role, settings.WORK_KMS_KEY_ARN, 'dynamodb', 'table');
}

/** Lets the jobs of batch inference read and write the work bucket, and the function start them. */
export function allowBatchInference(
  scope: Construct,
  batcher: PipelineFunction,
  workBucket: IBucket,
  settings: Settings,
): void {
  // A judge outside Bedrock has no batch inference, and planning rejects it. IAM refuses a role for a service that does not
  // exist in the partition, as Bedrock in China.
  if (parseJudgeId(firstModel(settings)).scheme !== 'bedrock') return;
  const jobs = arnIn(scope, 'bedrock', 'model-invocation-job/*');
  const { account } = Stack.of(scope);
  const serviceRole = new Role(scope, 'ServiceRole', {
    roleName: resourceNames(settings.STACK_PREFIX).batchServiceRole,
    description: 'Batch inference jobs of the judge',
    assumedBy: new ServicePrincipal('bedrock.amazonaws.com', {
      conditions: { StringEquals: { 'aws:SourceAccount': account }, ArnEquals: { 'aws:SourceArn': jobs } },
    }),
  });
  const objects = (area: WorkArea): string => workBucket.arnForObjects(areaPattern(area));
  const why = WHY_WORK_AREA;
  allow(serviceRole, { actions: ['s3:GetObject'], resources: [objects('batchInput')], why });
  allow(serviceRole, { actions: ['s3:PutObject'], resources: [objects('batchOutput')], why });
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

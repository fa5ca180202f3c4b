/** Everything of one environment: `SageMakerInferenceMonitoringStack-{prefix}`. */
import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { resourceNames } from '../lambda/contract.ts';
import { acknowledgeStack } from './acknowledged-findings.ts';
import { Alarms } from './alarms.ts';
import { BudgetTable } from './budget-table.ts';
import { grantCaptureRead } from './capture-access.ts';
import { CaptureRule } from './capture-rule.ts';
import { functionEnvironment } from './function-environment.ts';
import { grantJudge } from './judge-access.ts';
import { grantMlflow } from './mlflow-access.ts';
import { MonitoringStateMachine } from './monitoring-state-machine.ts';
import { PipelineFunction } from './pipeline-function.ts';
import type { Settings } from './settings.ts';
import { grantWork } from './work-access.ts';
import { WorkBucket } from './work-bucket.ts';

export interface MonitoringStackProps extends StackProps {
  settings: Settings;
}

export class MonitoringStack extends Stack {
  constructor(scope: Construct, id: string, props: MonitoringStackProps) {
    super(scope, id, { description: 'Traces and judges what a SageMaker endpoint answers, into MLflow', ...props });
    const { settings } = props;
    const names = resourceNames(settings.STACK_PREFIX);
    const { bucket: workBucket } = new WorkBucket(this, 'WorkBucket');
    const { table } = new BudgetTable(this, 'Budget');
    const environment = functionEnvironment(settings, workBucket.bucketName, table.tableName);

    const make = (id: string, folder: string, functionName: string, roleName: string, description: string) =>
      new PipelineFunction(this, id, { settings, functionName, roleName, description, folder, environment });
    const planner = make(
      'PlanCaptures',
      'plan-captures',
      names.planner,
      names.plannerRole,
      'Plans the chunks of a run',
    );
    const processor = make(
      'LogTraces',
      'log-traces',
      names.processor,
      names.processingRole,
      'Logs captures as MLflow traces',
    );
    const evaluator = make(
      'EvaluateTraces',
      'evaluate-traces',
      names.evaluator,
      names.evaluatorRole,
      'Has the judge assess the traces',
    );
    const summarizer = make('SummarizeRun', 'summarize-run', names.summarizer, names.summarizerRole, 'Adds up a run');

    const { stateMachine } = new MonitoringStateMachine(this, 'Monitoring', {
      settings,
      workBucket,
      planner: planner.function,
      processor: processor.function,
      evaluator: evaluator.function,
      summarizer: summarizer.function,
    });

    for (const { role } of [planner, processor, evaluator]) {
      grantCaptureRead(this, role, settings);
      grantMlflow(this, role, settings);
    }
    grantWork(workBucket, planner.role, {
      read: ['runs/*', 'claims/*', 'quarantine/*'],
      write: ['runs/*', 'claims/*'],
    });
    grantWork(workBucket, processor.role, { write: ['runs/*', 'quarantine/*'] });
    grantWork(workBucket, evaluator.role, { write: ['runs/*'] });
    grantWork(workBucket, summarizer.role, { read: ['runs/*'], write: ['runs/*'] });
    // Whether the run that holds a claim is still under way. Named by text: the state machine itself refers to the planner.
    const executions = `arn:${this.partition}:states:${this.region}:${this.account}:execution:${names.stateMachine}:*`;
    planner.role.addToPolicy(new PolicyStatement({ actions: ['states:DescribeExecution'], resources: [executions] }));
    grantJudge(this, evaluator.role, settings);
    table.grantReadWriteData(evaluator.role);

    const { deadLetters } = new CaptureRule(this, 'Captures', { settings, stateMachine });
    new Alarms(this, 'Alarms', {
      settings,
      stateMachine,
      deadLetters,
      functions: [planner, processor, evaluator, summarizer].map((each) => each.function),
    });
    acknowledgeStack(this);

    const output = (name: string, value: string, description: string) =>
      new CfnOutput(this, name, { value, description, exportName: `${name}-${settings.STACK_PREFIX}` });
    output(
      'ProcessorLambdaArn',
      processor.function.functionArn,
      'Logs the traces of a capture file when invoked with it',
    );
    output('StateMachineArn', stateMachine.stateMachineArn, 'Start it by hand for a backfill or a retry');
    output('DataCaptureBucketName', settings.DATA_CAPTURE_S3_BUCKET, 'The bucket that is watched');
    output('WorkBucketName', workBucket.bucketName, 'Manifests, receipts, quarantine and summaries');
  }
}

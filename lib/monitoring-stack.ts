/** Everything of one environment: `SageMakerInferenceMonitoringStack-{prefix}`. */
import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { resourceNames } from '../src/contract/names.ts';
import type { Settings } from '../src/settings/schema.ts';
import { allow } from './access/allow.ts';
import { grantCaptureRead } from './access/capture.ts';
import { grantJudge, grantModelLookUp } from './access/judge.ts';
import { grantArtifacts, grantMlflow } from './access/mlflow.ts';
import { grantWork } from './access/work.ts';
import { Alarms } from './alarms.ts';
import { BatchInference } from './batch-inference.ts';
import { BudgetTable, grantBudget } from './budget-table.ts';
import { CaptureRule } from './capture-rule.ts';
import { MonitoringDashboard } from './dashboard.ts';
import { PipelineFunction } from './pipeline-function.ts';
import { Replay } from './replay.ts';
import { functionEnvironment } from './settings/function-environment.ts';
import { MonitoringStateMachine } from './state-machines/monitoring.ts';
import { WorkBucket } from './work-bucket.ts';

interface MonitoringStackProps extends StackProps {
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
    const batcher = make(
      'JudgeBatch',
      'judge-batch',
      names.batcher,
      names.batcherRole,
      'Starts and watches batch inference jobs',
    );
    const summarizer = make('SummarizeRun', 'summarize-run', names.summarizer, names.summarizerRole, 'Adds up a run');

    const { stateMachine } = new MonitoringStateMachine(this, 'Monitoring', {
      settings,
      workBucket,
      planner: planner.function,
      processor: processor.function,
      evaluator: evaluator.function,
      batcher: batcher.function,
      summarizer: summarizer.function,
    });

    for (const { role } of [planner, processor, evaluator]) {
      grantCaptureRead(role, settings);
      grantMlflow(role, settings);
    }
    grantArtifacts(processor.role, settings);
    grantWork(workBucket, planner.role, {
      // A retry reads what an earlier run has left.
      read: ['plan', 'manifest', 'receipts', 'quarantine', 'claims'],
      write: ['plan', 'claims'],
      upload: ['manifest'],
    });
    // Quarantined lines are read back where their capture file is gone, and where a later part of the chunk adds to them.
    grantWork(workBucket, processor.role, { read: ['quarantine'], write: ['receipts', 'quarantine'] });
    grantWork(workBucket, evaluator.role, {
      // A record whose trace MLflow refused lies in quarantine, and owes no verdict.
      read: ['quarantine', 'answers', 'batchState', 'batchInput', 'batchOutput'],
      write: ['receipts', 'answers', 'batchState', 'batchInput'],
    });
    grantWork(workBucket, batcher.role, {
      read: ['manifest', 'batchState'],
      write: ['batchState'],
      upload: ['batchState'],
      remove: ['batchInput'],
    });
    new BatchInference(this, 'Batch', { settings, workBucket, batcher });
    grantWork(workBucket, summarizer.role, {
      read: ['plan', 'manifest', 'receipts', 'batchState'],
      write: ['summary'],
    });
    // Whether the run that holds a claim is still under way. Named by text: the state machine itself refers to the planner.
    const executions = `arn:${this.partition}:states:${this.region}:${this.account}:execution:${names.stateMachine}:*`;
    allow(planner.role, {
      actions: ['states:DescribeExecution'],
      resources: [executions],
      why: 'Executions are named when they start; these are those of this state machine.',
    });
    grantJudge(evaluator.role, settings);
    grantModelLookUp(planner.role, settings.BEDROCK_MODEL_ID);
    grantBudget(evaluator.role, table);

    const replay = new Replay(this, 'Replay', { settings, workBucket, budget: table, environment });

    const { deadLetters } = new CaptureRule(this, 'Captures', { settings, stateMachine });
    const functions = {
      plan: planner.function,
      log: processor.function,
      evaluate: evaluator.function,
      batch: batcher.function,
      summarize: summarizer.function,
    };
    const alarms = new Alarms(this, 'Alarms', {
      settings,
      stateMachine,
      deadLetters,
      replaysNotEnded: replay.notEnded,
      functions: Object.values(functions),
    });
    new MonitoringDashboard(this, 'Dashboard', {
      prefix: settings.STACK_PREFIX,
      stateMachine,
      deadLetters,
      functions,
      replay: replay.stateMachine,
      alarms: alarms.all,
    });

    const output = (name: string, value: string, description: string) =>
      new CfnOutput(this, name, { value, description, exportName: `${name}-${settings.STACK_PREFIX}` });
    output(
      'ProcessorLambdaArn',
      processor.function.functionArn,
      'Logs the traces of a capture file when invoked with it',
    );
    output('StateMachineArn', stateMachine.stateMachineArn, 'Start it by hand for a backfill or a retry');
    output('ReplayStateMachineArn', replay.stateMachine.stateMachineArn, 'Start it by hand for a replay');
    output('DataCaptureBucketName', settings.DATA_CAPTURE_S3_BUCKET, 'The bucket that is watched');
    output('WorkBucketName', workBucket.bucketName, 'Manifests, receipts, quarantine and summaries');
  }
}

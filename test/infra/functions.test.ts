/** What every function of the pipeline has in common, and the logs of all. */
import { readEnvironment } from '../../lambda/common/environment.ts';
import { flattened, resourcesOfType, templateOf } from '../helpers/synth.ts';

const settings = {
  LAMBDA_MEMORY_MB: '2048',
  LAMBDA_TIMEOUT_SECONDS: '300',
  LOG_RETENTION_DAYS: '180',
  MLFLOW_TRACKING_URI: 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-app/app-ABC123',
  MLFLOW_ARTIFACT_BUCKET: 's3://artifacts/mlflow',
  DATA_CAPTURE_S3_PREFIX: 'data/my-endpoint',
  EVALUATION_SAMPLE_RATE: '0.25',
  JUDGE_GUIDELINES: '{"kind":"Be kind."}',
};
const template = templateOf(settings);
const functions = Object.entries(resourcesOfType(template, 'AWS::Lambda::Function')).filter(
  ([id]) => !id.startsWith('BucketNotificationsHandler'),
);
const groups = resourcesOfType(template, 'AWS::Logs::LogGroup');

it('there is one for each step', () => {
  expect(Object.fromEntries(functions.map(([id, { Properties }]) => [id, Properties.FunctionName]))).toEqual({
    PlanCapturesFunction: 'sagemaker-data-capture-planner-test',
    LogTracesFunction: 'sagemaker-data-capture-processor-test',
    EvaluateTracesFunction: 'sagemaker-data-capture-evaluator-test',
    JudgeBatchFunction: 'sagemaker-data-capture-batcher-test',
    SummarizeRunFunction: 'sagemaker-data-capture-summarizer-test',
  });
});

describe.each(functions)('%s', (id, { Properties }) => {
  const step = id.replace(/Function$/, '');

  it('runs on Node 24, arm64, with the memory and the time of the settings', () => {
    expect(Properties).toMatchObject({
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      MemorySize: 2048,
      Timeout: 300,
    });
  });

  it('has a role and a log group of its own', () => {
    expect(flattened(Properties)).toMatchObject({
      Role: `<${step}Role.Arn>`,
      LoggingConfig: { LogGroup: `<${step}Logs>` },
    });
    expect(groups[`${step}Logs`]?.Properties).toEqual({
      LogGroupName: `/aws/lambda/${Properties.FunctionName}`,
      RetentionInDays: 180,
    });
  });

  it('reads the settings from its environment', () => {
    const { Variables } = flattened(Properties.Environment) as { Variables: Record<string, string> };
    expect(readEnvironment(Variables)).toMatchObject({
      STACK_PREFIX: 'test',
      WORK_BUCKET: '<WorkBucket>',
      BUDGET_TABLE: '<BudgetTable>',
      SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
      DATA_CAPTURE_S3_BUCKET: 'captures',
      DATA_CAPTURE_S3_PREFIX: 'data/my-endpoint/',
      MLFLOW_TRACKING_URI: settings.MLFLOW_TRACKING_URI,
      EVALUATION_SAMPLE_RATE: 0.25,
      JUDGE_GUIDELINES: { kind: 'Be kind.' },
    });
    expect(Variables.POWERTOOLS_SERVICE_NAME).toBe(Properties.FunctionName);
  });
});

it('every log group has the retention of the settings, and goes with the stack', () => {
  expect(Object.keys(groups)).toHaveLength(functions.length + 2);
  for (const { Properties, DeletionPolicy } of Object.values(groups)) {
    expect(Properties.RetentionInDays).toBe(180);
    expect(DeletionPolicy).toBe('Delete');
  }
});

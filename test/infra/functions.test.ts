/** The configuration that all functions have in common, and the log groups. */
import { REPLAY_DISK_MIB } from '../../src/core/contract/replay.ts';
import { readEnvironment, readForwardEnvironment, readReplayEnvironment } from '../../src/core/settings/environment.ts';
import { ARTHUR, flattened, resourcesOfType, templateOf } from '../helpers/synth.ts';

const settings = {
  LAMBDA_MEMORY_MB: '2048',
  LOG_RETENTION_DAYS: '180',
  MLFLOW_TRACKING_URI: 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-app/app-ABC123',
  MLFLOW_ARTIFACT_BUCKET: 's3://artifacts/mlflow',
  DATA_CAPTURE_S3_PREFIX: 'data/my-endpoint',
  EVALUATION_SAMPLE_RATE: '0.25',
  JUDGE_GUIDELINES: '{"kind":"Be kind."}',
  REPLAY_ENDPOINT_NAMES: 'one, Two',
  REPLAY_INFERENCE_COMPONENT_NAMES: 'part',
  REPLAY_URLS: 'https://one.example.com/, http://10.0.0.7:80',
  REPLAY_HEADERS_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:replay-AbCdEf',
};
const template = templateOf(settings);
const functions = Object.entries(resourcesOfType(template, 'AWS::Lambda::Function')).filter(
  ([id]) => id !== 'CapturesNotificationsFunction',
);
const groups = resourcesOfType(template, 'AWS::Logs::LogGroup');

it('has one function for each step', () => {
  expect(Object.fromEntries(functions.map(([id, { Properties }]) => [id, Properties.FunctionName]))).toEqual({
    StartRunsFunction: 'sagemaker-data-capture-starter-test',
    PlanCapturesFunction: 'sagemaker-data-capture-planner-test',
    LogTracesFunction: 'sagemaker-data-capture-processor-test',
    EvaluateTracesFunction: 'sagemaker-data-capture-evaluator-test',
    JudgeBatchFunction: 'sagemaker-data-capture-batcher-test',
    SummarizeRunFunction: 'sagemaker-data-capture-summarizer-test',
    ReplayPlanFunction: 'sagemaker-replay-planner-test',
    ReplayShardFunction: 'sagemaker-replay-sender-test',
    ReplaySummaryFunction: 'sagemaker-replay-summarizer-test',
    GroundTruthJoinLabelsFunction: 'sagemaker-ground-truth-joiner-test',
  });
});

describe.each(functions)('%s', (id, { Properties }) => {
  const step = id.replace(/Function$/, '');

  const ofReplay = id.startsWith('Replay');
  const isStarter = step === 'StartRuns';

  it('runs on Node 24 and arm64 with the configured memory and the longest timeout, or its own if it starts runs', () => {
    expect(Properties).toMatchObject({
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      MemorySize: isStarter ? 512 : 2048,
      Timeout: isStarter ? 60 : 900,
    });
    // Lambda's default, or what the files of a replay need.
    const onDisk = ofReplay && step !== 'ReplaySummary';
    expect(Properties.EphemeralStorage).toEqual(onDisk ? { Size: REPLAY_DISK_MIB } : undefined);
  });

  it('gives V8 65% of the memory, and leaves the rest to Node and buffers', () => {
    const { Variables } = flattened(Properties.Environment) as { Variables: Record<string, string> };
    // If one size is set, Lambda sets neither, and V8 falls back to half of the memory.
    expect(Variables.NODE_OPTIONS).toBe(`--max-semi-space-size=2 --max-old-space-size=${isStarter ? 332 : 1331}`);
  });

  it('has a separate role and log group', () => {
    const log = { LogGroup: `<${step}Logs>` };
    expect(flattened(Properties)).toMatchObject({ Role: `<${step}Role.Arn>`, LoggingConfig: log });
    const LogGroupName = `/aws/lambda/${Properties.FunctionName}`;
    expect(groups[`${step}Logs`]?.Properties).toEqual({ LogGroupName, RetentionInDays: 180 });
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

  it('knows the targets of replays, if it belongs to a replay', () => {
    const { Variables } = flattened(Properties.Environment) as { Variables: Record<string, string> };
    const replaying = Object.fromEntries(Object.entries(Variables).filter(([name]) => name.startsWith('REPLAY_')));
    expect(replaying).toEqual(
      ofReplay
        ? {
            REPLAY_ENDPOINT_NAMES: 'one,Two',
            REPLAY_INFERENCE_COMPONENT_NAMES: 'part',
            REPLAY_URLS: 'https://one.example.com,http://10.0.0.7',
            REPLAY_HEADERS_SECRET_ARN: settings.REPLAY_HEADERS_SECRET_ARN,
          }
        : {},
    );
    if (!ofReplay) return;
    expect(readReplayEnvironment({ ...Variables, AWS_REGION: 'eu-west-1' })).toMatchObject({
      REPLAY_ENDPOINT_NAMES: ['one', 'Two'],
      REPLAY_INFERENCE_COMPONENT_NAMES: ['part'],
      REPLAY_URLS: ['https://one.example.com', 'http://10.0.0.7'],
      DATA_CAPTURE_S3_PREFIX: 'data/my-endpoint/',
    });
  });
});

it('gives the functions of a replay at least one vCPU, since a sender with less is paused while requests are due', () => {
  const { ReplayShardFunction } = resourcesOfType(templateOf(), 'AWS::Lambda::Function');
  expect(ReplayShardFunction?.Properties.MemorySize).toBe(1769);
});

it('gives every log group the configured retention, and deletes it with the stack', () => {
  // Besides the functions': those of the three state machines and of the notifications' custom resource.
  expect(Object.keys(groups)).toHaveLength(functions.length + 4);
  for (const { Properties, DeletionPolicy } of Object.values(groups)) {
    expect(Properties.RetentionInDays).toBe(180);
    expect(DeletionPolicy).toBe('Delete');
  }
});

it('gives the function for Arthur an environment that its code accepts, without the settings of others', () => {
  const functions = resourcesOfType(templateOf(ARTHUR), 'AWS::Lambda::Function');
  const { Environment, Timeout, MemorySize } = flattened(functions.ForwardForwarderFunction?.Properties) as {
    Environment: { Variables: Record<string, string> };
    Timeout: number;
    MemorySize: number;
  };
  expect([Timeout, MemorySize]).toEqual([900, 1024]);
  expect(readForwardEnvironment(Environment.Variables)).toMatchObject({
    ...ARTHUR,
    ARTHUR_S3_PREFIX: 'my-endpoint/',
    ARTHUR_S3_SUFFIX: '.jsonl',
    BUDGET_TABLE: '<BudgetTable>',
    QUEUE_URL: '<ForwardEvents>',
    DEAD_LETTERS_URL: '<ForwardDeadLetters>',
    RETRY_SECONDS: 60,
    STACK_PREFIX: 'test',
  });
  // For the captures of a judge, which are not forwarded.
  expect(Environment.Variables).toHaveProperty('BEDROCK_MODEL_ID');
  expect(Environment.Variables).not.toHaveProperty('MLFLOW_TRACKING_URI');
});

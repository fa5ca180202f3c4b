/** The definition of replays, state by state. */

import { MAX_SHARDS, REPLAYER_TIMEOUT_SECONDS } from '../../src/core/contract/replay.ts';
import {
  definitionOf,
  flattened,
  NOT_READY,
  REPLAY,
  RETRIED_ERRORS,
  resourcesOfType,
  stateMachineOf,
  THROTTLED_ERRORS,
  templateOf,
} from '../helpers/synth.ts';

const template = templateOf();
const definition = definitionOf(template, REPLAY) as { States: Record<string, Record<string, unknown>> };
const lambda = (id: string): string => `arn:aws:lambda:eu-west-1:123456789012:function:${id}`;

const run = { 'name.$': '$$.Execution.Name', 'arn.$': '$$.Execution.Id', 'startTime.$': '$$.Execution.StartTime' };
const jitter = { BackoffRate: 2, JitterStrategy: 'FULL' };
/** The retries of the monitoring's functions, which `definition.test.ts` checks completely. */
const storeRetries = [
  NOT_READY,
  expect.objectContaining({ ...jitter, ErrorEquals: expect.arrayContaining(RETRIED_ERRORS), MaxAttempts: 6 }),
  expect.objectContaining({ ...jitter, ErrorEquals: THROTTLED_ERRORS, MaxAttempts: 1000 }),
  expect.objectContaining({ ...jitter, ErrorEquals: expect.arrayContaining(['Sandbox.Timedout']), MaxAttempts: 2 }),
];
/** A throttled judge is retried for as long as in the monitoring. */
const judgeRetries = [
  NOT_READY,
  expect.objectContaining({
    ...jitter,
    ErrorEquals: expect.arrayContaining(RETRIED_ERRORS),
    MaxAttempts: 12,
    MaxDelaySeconds: 300,
  }),
  ...storeRetries.slice(2),
];
const manifest = {
  Resource: 'arn:aws:states:::s3:getObject',
  ReaderConfig: { InputType: 'JSONL' },
  Parameters: { Bucket: '<WorkBucket>', 'Key.$': '$.plan.manifest.key' },
};
const resultsAt = (folder: string) => ({
  Resource: 'arn:aws:states:::s3:putObject',
  Parameters: { Bucket: '<WorkBucket>', 'Prefix.$': `States.Format('replays/{}/${folder}', $$.Execution.Name)` },
});
const toSummary = [{ ErrorEquals: ['States.ALL'], ResultPath: '$.summarize.error', Next: 'SummarizeReplay' }];

const toEnd = [{ ErrorEquals: ['States.ALL'], ResultPath: '$.unfinished', Next: 'EndReplayRun' }];

/** Comments are for people and may change. */
const withoutComments = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (key, part) => (key === 'Comment' ? undefined : part)));

it('has exactly these states', () => {
  expect(withoutComments(definition)).toEqual({
    StartAt: 'Start',
    States: {
      Start: { Type: 'Pass', Parameters: { summarize: { run } }, Next: 'PlanReplay' },
      PlanReplay: {
        Type: 'Task',
        Resource: lambda('ReplayPlanFunction'),
        Parameters: { 'input.$': '$$.Execution.Input', run },
        ResultPath: '$.plan',
        Retry: storeRetries,
        Catch: toSummary,
        Next: 'AnythingToSend',
      },
      AnythingToSend: {
        Type: 'Choice',
        Choices: [{ Variable: '$.plan.outcome', StringEquals: 'planned', Next: 'ForEachShard' }],
        Default: 'SummarizeReplay',
      },
      ForEachShard: {
        Type: 'Map',
        Label: 'ForEachShard',
        MaxConcurrency: 1000,
        ToleratedFailurePercentage: 100,
        ItemReader: manifest,
        ItemProcessor: {
          ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' },
          StartAt: 'UntilShardIsDue',
          States: {
            UntilShardIsDue: { Type: 'Wait', TimestampPath: '$.waitUntil', Next: 'ReplayShard' },
            ReplayShard: {
              Type: 'Task',
              Resource: lambda('ReplayShardFunction'),
              Parameters: { 'run.$': '$.run', 'shard.$': '$.shard' },
              TimeoutSeconds: 960,
              Retry: [
                NOT_READY,
                {
                  ErrorEquals: ['Lambda.TooManyRequestsException'],
                  IntervalSeconds: 1,
                  BackoffRate: 2,
                  MaxAttempts: 14,
                  MaxDelaySeconds: 5,
                  JitterStrategy: 'FULL',
                },
              ],
              End: true,
            },
          },
        },
        ResultWriter: resultsAt('map'),
        ResultPath: null,
        Catch: toSummary,
        Next: 'EvaluationWanted',
      },
      EvaluationWanted: {
        Type: 'Choice',
        Choices: [{ Variable: '$.plan.evaluate', BooleanEquals: true, Next: 'ForEachReplayedShard' }],
        Default: 'SummarizeReplay',
      },
      ForEachReplayedShard: {
        Type: 'Map',
        Label: 'ForEachReplayedShard',
        MaxConcurrency: 10,
        ToleratedFailurePercentage: 100,
        ItemReader: manifest,
        ItemProcessor: {
          ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' },
          StartAt: 'EvaluateReplay',
          States: {
            EvaluateReplay: {
              Type: 'Task',
              Resource: lambda('ReplayEvaluationFunction'),
              Parameters: { 'run.$': '$.run', 'shard.$': '$.shard' },
              ResultPath: '$.evaluated',
              TimeoutSeconds: 960,
              Retry: judgeRetries,
              Next: 'ShardEvaluated',
            },
            ShardEvaluated: {
              Type: 'Choice',
              Choices: [{ Variable: '$.evaluated.done', BooleanEquals: true, Next: 'ShardDone' }],
              // One invocation did not have time for the whole shard.
              Default: 'EvaluateReplay',
            },
            ShardDone: { Type: 'Succeed' },
          },
        },
        ResultWriter: resultsAt('evaluation-map'),
        ResultPath: null,
        Catch: toSummary,
        Next: 'SummarizeReplay',
      },
      SummarizeReplay: {
        Type: 'Task',
        Resource: lambda('ReplaySummaryFunction'),
        // `run`, and the error if there was one.
        InputPath: '$.summarize',
        ResultPath: '$.result',
        Retry: storeRetries,
        Catch: toEnd,
        Next: 'PublicationWanted',
      },
      PublicationWanted: {
        Type: 'Choice',
        Choices: [
          { Variable: '$.result.publish', BooleanEquals: true, Next: 'PublishReplay' },
          { Variable: '$.result.ok', BooleanEquals: true, Next: 'ReplaySucceeded' },
        ],
        Default: 'NothingToPublish',
      },
      NothingToPublish: {
        Type: 'Pass',
        Parameters: { 'Error.$': '$.result.error', 'Cause.$': '$.result.cause' },
        ResultPath: '$.unfinished',
        Next: 'EndReplayRun',
      },
      PublishReplay: {
        Type: 'Task',
        Resource: lambda('ReplayPublicationFunction'),
        Parameters: { run },
        ResultPath: '$.result.mlflow',
        TimeoutSeconds: 960,
        Retry: storeRetries,
        Catch: toEnd,
        Next: 'NothingMissing',
      },
      // After any permanent failure, the MLflow run is ended if MLflow can be reached.
      EndReplayRun: {
        Type: 'Task',
        Resource: lambda('ReplayPublicationFunction'),
        Parameters: { run, 'unfinished.$': '$.unfinished', 'input.$': '$$.Execution.Input' },
        ResultPath: null,
        TimeoutSeconds: 960,
        Retry: storeRetries,
        Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.unended', Next: 'NothingElseMissing' }],
        Next: 'NothingElseMissing',
      },
      // The execution fails with the replay's missing requests, or else with the later failure.
      NothingElseMissing: {
        Type: 'Choice',
        Choices: [
          {
            And: [
              { Variable: '$.result.ok', IsPresent: true },
              { Variable: '$.result.ok', BooleanEquals: false },
            ],
            Next: 'ReplayFailed',
          },
        ],
        Default: 'ReplayUnfinished',
      },
      ReplayUnfinished: { Type: 'Fail', ErrorPath: '$.unfinished.Error', CausePath: '$.unfinished.Cause' },
      NothingMissing: {
        Type: 'Choice',
        Choices: [{ Variable: '$.result.ok', BooleanEquals: true, Next: 'ReplaySucceeded' }],
        Default: 'ReplayFailed',
      },
      ReplaySucceeded: { Type: 'Succeed', OutputPath: '$.result' },
      ReplayFailed: { Type: 'Fail', ErrorPath: '$.result.error', CausePath: '$.result.cause' },
    },
  });
});

const children = (definition.States.ForEachShard as { ItemProcessor: { States: Record<string, { Retry?: object[] }> } })
  .ItemProcessor.States;

it('retries a shard only if it was not started, so that nothing is sent twice', () => {
  const retried = Object.values(children).flatMap(({ Retry = [] }) => Retry as { ErrorEquals: string[] }[]);
  expect(retried.flatMap(({ ErrorEquals }) => ErrorEquals)).toEqual([
    ...NOT_READY.ErrorEquals,
    'Lambda.TooManyRequestsException',
  ]);
  // Lambda itself would retry an asynchronous invocation.
  const configs = Object.values(resourcesOfType(template, 'AWS::Lambda::EventInvokeConfig'));
  expect(configs.map(({ Properties }) => flattened(Properties))).toContainEqual({
    FunctionName: '<ReplayShardFunction>',
    Qualifier: '$LATEST',
    MaximumRetryAttempts: 0,
  });
});

it('retries a throttled shard for at most a minute', () => {
  const [, retry] = (children.ReplayShard?.Retry ?? []) as Record<
    'IntervalSeconds' | 'MaxAttempts' | 'MaxDelaySeconds',
    number
  >[];
  const { IntervalSeconds = 0, MaxAttempts = 0, MaxDelaySeconds = 0 } = retry ?? {};
  const waits = Array.from({ length: MaxAttempts }, (_, n) => Math.min(IntervalSeconds * 2 ** n, MaxDelaySeconds));
  expect(waits.reduce((sum, wait) => sum + wait, 0)).toBe(62);
});

it('runs all shards of the largest plan concurrently', () => {
  expect(definition.States.ForEachShard).toMatchObject({ MaxConcurrency: MAX_SHARDS });
  // Step Functions' limit for a Map.
  expect(MAX_SHARDS).toBeLessThanOrEqual(10_000);
});

it('evaluates as many shards concurrently as the monitoring processes chunks, since they share MLflow and the judge', () => {
  const { States } = definitionOf(templateOf({ MAX_CONCURRENCY: '3' }), REPLAY) as typeof definition;
  expect([States.ForEachReplayedShard?.MaxConcurrency, States.ForEachShard?.MaxConcurrency]).toEqual([3, MAX_SHARDS]);
});

it('limits a shard by the timeout of its function, not counting the wait before it', () => {
  const limit = resourcesOfType(template, 'AWS::Lambda::Function').ReplayShardFunction?.Properties.Timeout;
  expect(limit).toBe(REPLAYER_TIMEOUT_SECONDS);
  expect(limit).toBe(900);
  expect((children.ReplayShard as { TimeoutSeconds?: number }).TimeoutSeconds).toBeGreaterThan(
    REPLAYER_TIMEOUT_SECONDS,
  );
  expect(children.UntilShardIsDue).not.toHaveProperty('TimeoutSeconds');
});

it('is a STANDARD state machine that logs everything to a log group under /aws/vendedlogs', () => {
  expect(stateMachineOf(template, REPLAY).Properties).toMatchObject({
    StateMachineName: 'sagemaker-data-capture-replay-test',
    StateMachineType: 'STANDARD',
    LoggingConfiguration: { IncludeExecutionData: true, Level: 'ALL' },
  });
  template.hasResourceProperties('AWS::Logs::LogGroup', {
    LogGroupName: '/aws/vendedlogs/states/sagemaker-replay-test',
    RetentionInDays: 30,
  });
});

it('is started only by people, because no rule targets it', () => {
  const rules = Object.values(resourcesOfType(template, 'AWS::Events::Rule'));
  const targets = rules.flatMap(({ Properties }) => (Properties.Targets as { Arn: unknown }[]).map(({ Arn }) => Arn));
  expect(flattened(targets)).toEqual(['<ReplayStopFunction.Arn>', '<CapturesEvents.Arn>']);
});

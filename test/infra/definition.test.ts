/** The definition of monitoring runs, state by state. The handlers and the runbook depend on names, payloads and transitions. */
import { ERROR_TABLE } from '../../src/core/errors/error-table.ts';
import {
  definitionOf,
  GROUND_TRUTH,
  MONITORING,
  NOT_READY,
  REPLAY,
  RETRIED_ERRORS,
  stateMachineOf,
  THROTTLED_ERRORS,
  templateOf,
} from '../helpers/synth.ts';

const template = templateOf({ MAX_CONCURRENCY: '7', LAMBDA_TIMEOUT_SECONDS: '600' });
const definition = definitionOf(template) as {
  StartAt: string;
  States: Record<string, Record<string, unknown>>;
};
const lambda = (id: string): string => `arn:aws:lambda:eu-west-1:123456789012:function:${id}`;

const run = { 'name.$': '$$.Execution.Name', 'arn.$': '$$.Execution.Id', 'startTime.$': '$$.Execution.StartTime' };
const transient = {
  ErrorEquals: [
    ...RETRIED_ERRORS,
    'Lambda.ClientExecutionTimeoutException',
    'Lambda.ServiceException',
    'Lambda.AWSLambdaException',
    'Lambda.SdkClientException',
  ],
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxAttempts: 6,
  MaxDelaySeconds: 60,
  JitterStrategy: 'FULL',
};
const judge = { ...transient, IntervalSeconds: 5, MaxAttempts: 12, MaxDelaySeconds: 300 };
const place = {
  ErrorEquals: ['JudgeThrottled', 'JudgeUnavailable'],
  IntervalSeconds: 900,
  BackoffRate: 1,
  MaxAttempts: 96,
};
const throttled = {
  ...transient,
  ErrorEquals: THROTTLED_ERRORS,
  MaxAttempts: 1000,
  MaxDelaySeconds: 300,
};
const ended = {
  ErrorEquals: Object.keys(ERROR_TABLE.killed),
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxAttempts: 2,
  JitterStrategy: 'FULL',
};
const toSummary = [{ ErrorEquals: ['States.ALL'], ResultPath: '$.error', Next: 'SummarizeRun' }];
const wantsBatch = [
  { Variable: '$.plan.options.judge', StringEquals: 'batch' },
  { Variable: '$.plan.options.evaluate', BooleanEquals: true },
  { Variable: '$.plan.options.dryRun', BooleanEquals: false },
];
const toStopped = [{ ...toSummary[0], Next: 'PartsFailed' }];
const chunkPayload = {
  'run.$': '$.run',
  'chunk.$': '$.chunk',
  'options.$': '$.options',
  'attempt.$': '$$.State.RetryCount',
  'progress.$': '$.progress',
};

/** Comments are for people and may change. */
function withoutComments(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (key, part) => (key === 'Comment' ? undefined : part)));
}

const chunkTask = (lambdaId: string, evaluation: object = {}) => ({
  Type: 'Task',
  Resource: lambda(lambdaId),
  Parameters: { ...chunkPayload, ...evaluation },
  ResultSelector: {
    'kills.$': '$.kills',
    'attempts.$': '$.attempts',
    'waitSeconds.$': '$.waitSeconds',
  },
  ResultPath: '$.progress',
  // A minute more than the function's own timeout.
  TimeoutSeconds: 660,
});

/** A chunk on which the function is killed returns to it. */
const untilDone = (task: string, whenDone: string, otherwise: string) => ({
  [`${task}Killed`]: {
    Type: 'Pass',
    Parameters: { 'kills.$': 'States.MathAdd($.progress.kills, 1)' },
    ResultPath: '$.progress',
    Next: `${task}Again`,
  },
  [`${task}Again`]: {
    Type: 'Choice',
    Choices: [{ Variable: '$.progress.kills', NumericLessThanEquals: 16, Next: task }],
    Default: `${task}Failed`,
  },
  [`${task}Failed`]: { Type: 'Fail', ErrorPath: '$.killed.Error', CausePath: '$.killed.Cause' },
  [whenDone]: {
    Type: 'Choice',
    Choices: [{ Variable: '$.progress.waitSeconds', NumericGreaterThan: 0, Next: `${task}Waits` }],
    Default: otherwise,
  },
  [`${task}Waits`]: { Type: 'Wait', SecondsPath: '$.progress.waitSeconds', Next: task },
});
const onKill = (task: string) => ({
  Catch: [{ ErrorEquals: ended.ErrorEquals, ResultPath: '$.killed', Next: `${task}Killed` }],
});

/** A Distributed Map over a manifest in the work bucket. */
const mapOver = (
  label: string,
  manifestKey: string,
  results: string,
  children: { StartAt: string; States: object },
) => ({
  Type: 'Map',
  Label: label,
  MaxConcurrency: 7,
  ToleratedFailurePercentage: 100,
  ItemReader: {
    Resource: 'arn:aws:states:::s3:getObject',
    ReaderConfig: { InputType: 'JSONL' },
    Parameters: { Bucket: '<WorkBucket>', 'Key.$': manifestKey },
  },
  ItemSelector: {
    'run.$': '$$.Execution.Name',
    'chunk.$': '$$.Map.Item.Value',
    'options.$': '$.plan.options',
    progress: { kills: 0 },
  },
  ItemProcessor: { ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' }, ...children },
  ResultWriter: {
    Resource: 'arn:aws:states:::s3:putObject',
    Parameters: { Bucket: '<WorkBucket>', 'Prefix.$': `States.Format('${results}', $$.Execution.Name)` },
  },
  ResultPath: null,
  Catch: toStopped,
});

const batchTask = {
  Type: 'Task',
  Resource: lambda('JudgeBatchFunction'),
  Parameters: { run },
  ResultPath: '$.batch',
  Retry: [NOT_READY, place, transient, throttled, ended],
  Catch: [{ ...toSummary[0], Next: 'JobsUnknown' }],
  Next: 'BatchEnded',
};

it('has exactly these states', () => {
  const { OnlyChunk: _, RunAndPlan: __, ...States } = definition.States;
  expect(withoutComments({ ...definition, States })).toEqual({
    StartAt: 'Start',
    States: {
      Start: {
        Type: 'Pass',
        Parameters: {
          plan: { nextPart: 0, nextChunk: 0, cursor: '' },
          error: { Error: '', Cause: '' },
          result: { part: 0 },
        },
        Next: 'PlanCaptures',
      },
      PlanCaptures: {
        Type: 'Task',
        Resource: lambda('PlanCapturesFunction'),
        Parameters: {
          'input.$': '$$.Execution.Input',
          run,
          'part.$': '$.plan.nextPart',
          'attempt.$': '$$.State.RetryCount',
          'nextChunk.$': '$.plan.nextChunk',
          'cursor.$': '$.plan.cursor',
        },
        ResultPath: '$.plan',
        Retry: [NOT_READY, transient, throttled, ended],
        Catch: toStopped,
        Next: 'AnythingPlanned',
      },
      AnythingPlanned: {
        Type: 'Choice',
        Choices: [
          { Variable: '$.plan.chunk', IsPresent: true, Next: 'OnlyChunk' },
          { Not: { Variable: '$.plan.outcome', StringEquals: 'planned' }, Next: 'MoreParts' },
          { Variable: '$.plan.more', BooleanEquals: true, Next: 'RunAndPlan' },
        ],
        Default: 'ForEachChunk',
      },
      NextPartPlanned: {
        Type: 'Choice',
        Choices: [{ Variable: '$.error.Error', StringEquals: '', Next: 'AnythingPlanned' }],
        Default: 'PartsFailed',
      },
      PartsFailed: {
        Type: 'Choice',
        Choices: [{ And: [{ Variable: '$.plan.options', IsPresent: true }, { And: wantsBatch }], Next: 'CheckBatch' }],
        Default: 'SummarizeRun',
      },
      ForEachChunk: {
        ...mapOver('ForEachChunk', '$.plan.manifest.key', 'runs/{}/map', {
          StartAt: 'EvaluationWanted',
          States: {
            EvaluationWanted: {
              Type: 'Choice',
              Choices: [
                { Variable: '$.options.evaluate', BooleanEquals: false, Next: 'LogTraces' },
                { Variable: '$.options.judge', StringEquals: 'batch', Next: 'PrepareBatch' },
              ],
              Default: 'EvaluateTraces',
            },
            LogTraces: {
              ...chunkTask('LogTracesFunction'),
              Retry: [NOT_READY, transient, throttled],
              ...onKill('LogTraces'),
              Next: 'LogTracesDone',
            },
            ...untilDone('LogTraces', 'LogTracesDone', 'ChunkDone'),
            EvaluateTraces: {
              ...chunkTask('EvaluateTracesFunction', { write: true }),
              Retry: [NOT_READY, judge, throttled],
              ...onKill('EvaluateTraces'),
              Next: 'EvaluateTracesDone',
            },
            ...untilDone('EvaluateTraces', 'EvaluateTracesDone', 'ChunkDone'),
            PrepareBatch: {
              ...chunkTask('EvaluateTracesFunction', { phase: 'prepare' }),
              Retry: [NOT_READY, judge, throttled],
              ...onKill('PrepareBatch'),
              Next: 'PrepareBatchDone',
            },
            ...untilDone('PrepareBatch', 'PrepareBatchDone', 'ChunkDone'),
            ChunkDone: { Type: 'Succeed' },
          },
        }),
        Next: 'MoreParts',
      },
      MoreParts: {
        Type: 'Choice',
        Choices: [
          { Variable: '$.plan.more', BooleanEquals: true, Next: 'PlanCaptures' },
          { And: wantsBatch, Next: 'CheckBatch' },
        ],
        Default: 'SummarizeRun',
      },
      CheckBatch: batchTask,
      JobsUnknown: {
        Type: 'Pass',
        Parameters: {
          manifest: { 'key.$': "States.Format('batch/{}/state/manifest.jsonl', $$.Execution.Name)" },
        },
        ResultPath: '$.batch',
        Next: 'ForEachAnsweredChunk',
      },
      BatchEnded: {
        Type: 'Choice',
        Choices: [
          { Variable: '$.batch.outcome', StringEquals: 'ready', Next: 'ForEachAnsweredChunk' },
          { Variable: '$.batch.outcome', StringEquals: 'waiting', Next: 'WaitForBatch' },
        ],
        Default: 'SummarizeRun',
      },
      WaitForBatch: { Type: 'Wait', SecondsPath: '$.batch.pollSeconds', Next: 'CheckBatch' },
      ForEachAnsweredChunk: {
        ...mapOver('ForEachAnsweredChunk', '$.batch.manifest.key', 'runs/{}/map-batch', {
          StartAt: 'ApplyBatch',
          States: {
            ApplyBatch: {
              ...chunkTask('EvaluateTracesFunction', { phase: 'apply', write: true }),
              Retry: [NOT_READY, judge, throttled],
              ...onKill('ApplyBatch'),
              Next: 'ApplyBatchDone',
            },
            ...untilDone('ApplyBatch', 'ApplyBatchDone', 'AnswersApplied'),
            AnswersApplied: { Type: 'Succeed' },
          },
        }),
        Catch: toSummary,
        Next: 'SummarizeRun',
      },
      SummarizeRun: {
        Type: 'Task',
        Resource: lambda('SummarizeRunFunction'),
        Parameters: { run, 'error.$': '$.error', 'part.$': '$.result.part' },
        ResultPath: '$.result',
        Retry: [NOT_READY, transient, throttled, ended],
        Next: 'NothingMissing',
      },
      NothingMissing: {
        Type: 'Choice',
        Choices: [
          { Variable: '$.result.more', BooleanEquals: true, Next: 'SummarizeRun' },
          { Variable: '$.result.ok', BooleanEquals: true, Next: 'RunSucceeded' },
        ],
        Default: 'RunFailed',
      },
      RunSucceeded: { Type: 'Succeed', OutputPath: '$.result' },
      RunFailed: { Type: 'Fail', ErrorPath: '$.result.error', CausePath: '$.result.cause' },
    },
  });
});

it('runs the only chunk of a run in the execution, with the states of the Map’s children under other names', () => {
  const { OnlyChunk, ForEachChunk } = definition.States as Record<
    string,
    { Branches?: object[]; ItemProcessor?: Record<string, unknown> }
  >;
  const { Branches, ...rest } = OnlyChunk ?? {};
  const { ProcessorConfig: _, ...children } = ForEachChunk?.ItemProcessor ?? {};
  expect(JSON.parse(JSON.stringify(Branches).replaceAll('OnlyChunk', ''))).toEqual([children]);
  expect(withoutComments(rest)).toEqual({
    Type: 'Parallel',
    Parameters: {
      'run.$': '$$.Execution.Name',
      'chunk.$': '$.plan.chunk',
      'options.$': '$.plan.options',
      progress: { kills: 0 },
    },
    ResultPath: null,
    Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.failed', Next: 'MoreParts' }],
    Next: 'MoreParts',
  });
});

it('runs a part while the next one is planned, and lets its chunks end if that fails', () => {
  const { RunAndPlan, ForEachChunk, PlanCaptures } = definition.States as Record<string, Record<string, unknown>>;
  const { Branches, ...rest } = RunAndPlan ?? {};
  const alone = ({ Next: _, Catch: __, ...state }: Record<string, unknown> = {}) => ({ ...state, End: true });
  const [run, plan] = Branches as [Record<string, unknown>, Record<string, unknown>];
  const { Label, ...map } = (run.States as Record<string, Record<string, unknown>>).ForEachChunkOfPart ?? {};
  // Two Maps of a state machine need different labels.
  expect(Label).toBe('ForEachChunkOfPart');
  const { Label: _, ...first } = alone(ForEachChunk) as Record<string, unknown>;
  expect(JSON.parse(JSON.stringify(map).replaceAll('OfPart', ''))).toEqual(first);
  expect(plan).toEqual({
    StartAt: 'PlanCapturesOfPart',
    States: {
      PlanCapturesOfPart: {
        ...alone(PlanCaptures),
        Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.error', Next: 'PlanCapturesFailedOfPart' }],
      },
      PlanCapturesFailedOfPart: { Type: 'Pass', End: true },
    },
  });
  expect(withoutComments(rest)).toEqual({
    Type: 'Parallel',
    // The state with the next plan.
    OutputPath: '$[1]',
    Catch: toStopped,
    Next: 'NextPartPlanned',
  });
});

it('neither retries nor swallows permanent errors, such as CaptureMissing', () => {
  const all = JSON.stringify(definition);
  expect(all).not.toContain('"States.TaskFailed"');
  expect(all.match(/"ErrorEquals":\["States\.ALL"\],"ResultPath":"\$\.error","Next":"SummarizeRun"/g)).toHaveLength(2);
  // What was prepared for a batch job before is asked first.
  expect(all.match(/"ErrorEquals":\["States\.ALL"\],"ResultPath":"\$\.error","Next":"PartsFailed"/g)).toHaveLength(3);
  // A failed chunk without a Map fails as one in a Map: the summary finds what it lacks.
  expect(all.match(/"ErrorEquals":\["States\.ALL"\],"ResultPath":"\$\.failed","Next":"MoreParts"/g)).toHaveLength(1);
  // Planning that fails beside the Map of the part before it.
  expect(all.match(/States\.ALL/g)).toHaveLength(7);
});

/** The longest time that the retries can take, in seconds. */
function longest(retry: {
  IntervalSeconds: number;
  BackoffRate: number;
  MaxAttempts: number;
  MaxDelaySeconds?: number;
}) {
  const waits = Array.from({ length: retry.MaxAttempts }, (_, n) => retry.IntervalSeconds * retry.BackoffRate ** n);
  return waits.reduce((sum, wait) => sum + Math.min(wait, retry.MaxDelaySeconds ?? wait), 0);
}

it('retries for as long as the runbook states', () => {
  const { CheckBatch, ForEachChunk } = definition.States as {
    CheckBatch: { Retry: never[] };
    ForEachChunk: { ItemProcessor: { States: Record<string, unknown> } };
  };
  const { EvaluateTraces, LogTraces } = ForEachChunk.ItemProcessor.States as Record<string, { Retry: never[] }>;
  const minutes = (task: { Retry: never[] } | undefined) =>
    task?.Retry.map((retry) => Math.round(longest(retry) / 6) / 10);
  expect(minutes(LogTraces)).toEqual([18.9, 2, 4968.5]);
  expect(minutes(EvaluateTraces)).toEqual([18.9, 35.3, 4968.5]);
  expect(minutes(CheckBatch)?.[1]).toBe(24 * 60);
});

it('is a STANDARD state machine that logs everything to a log group under /aws/vendedlogs', () => {
  const { Properties } = stateMachineOf(template, MONITORING);
  expect(Properties).toMatchObject({
    StateMachineName: 'sagemaker-data-capture-monitoring-test',
    StateMachineType: 'STANDARD',
    LoggingConfiguration: { IncludeExecutionData: true, Level: 'ALL' },
  });
  template.hasResourceProperties('AWS::Logs::LogGroup', {
    LogGroupName: '/aws/vendedlogs/states/sagemaker-monitoring-test',
    RetentionInDays: 30,
  });
});

it.each([MONITORING, REPLAY, GROUND_TRUTH])(
  'waits in every task of %s for a function that was idle for weeks',
  (id) => {
    const first: [task: string, retry: unknown][] = [];
    JSON.stringify(definitionOf(templateOf(), id), (key, part: { Type?: unknown; Retry?: unknown[] } | null) => {
      if (part?.Type === 'Task') first.push([key, part.Retry?.[0]]);
      return part;
    });
    expect(first.length).toBeGreaterThan(0);
    expect(first).toEqual(first.map(([task]) => [task, NOT_READY]));
  },
);

/** What holds of the definition of monitoring runs as a whole. recorded.test.ts has it state by state. */
import {
  definitionOf,
  GROUND_TRUTH,
  MONITORING,
  NOT_READY,
  REPLAY,
  stateMachineOf,
  templateOf,
} from '../helpers/synth.ts';

const template = templateOf({ MAX_CONCURRENCY: '7', LAMBDA_TIMEOUT_SECONDS: '600' });
const definition = definitionOf(template) as {
  StartAt: string;
  States: Record<string, Record<string, unknown>>;
};

interface State {
  Catch?: object[];
  Default?: string;
}

it('runs the only chunk of a run in the execution, as a child of the Map would, and goes on if it fails', () => {
  const { ForEachChunk } = definition.States as Record<string, { ItemProcessor: { States: Record<string, State> } }>;
  const ofChild = ForEachChunk?.ItemProcessor.States ?? {};
  const expected = ['LogTraces', 'EvaluateTraces', 'PrepareBatch'].flatMap((task) => {
    const next = task === 'PrepareBatch' ? 'CheckBatch' : 'SummarizeRun';
    const { Catch: caught = [], ...state } = ofChild[task] ?? {};
    const onFailure = { ErrorEquals: ['States.ALL'], ResultPath: '$.failed', Next: next };
    return [
      [task, { ...state, Catch: [...caught, onFailure] }],
      ...['Killed', 'Waits'].map((ending) => [`${task}${ending}`, ofChild[`${task}${ending}`]]),
      ...['Again', 'Done'].map((ending) => [`${task}${ending}`, { ...ofChild[`${task}${ending}`], Default: next }]),
    ];
  });
  const own = Object.entries(definition.States).filter(([name]) => name.includes('OnlyChunk'));
  const asChild = JSON.stringify(own)
    .replaceAll('OnlyChunk', '')
    .replaceAll('$$.Execution.Name', '$.run')
    .replaceAll('$.plan.', '$.');
  expect(Object.fromEntries(JSON.parse(asChild))).toEqual(Object.fromEntries(expected));
});

it('runs a part while the next one is planned, and lets its chunks end if that fails', () => {
  const { RunAndPlan, ForEachChunk, PlanCaptures } = definition.States as Record<string, Record<string, unknown>>;
  const { Branches } = RunAndPlan ?? {};
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
});

it('neither retries nor swallows permanent errors, such as CaptureMissing', () => {
  const all = JSON.stringify(definition);
  expect(all).not.toContain('"States.TaskFailed"');
  expect(all.match(/"ErrorEquals":\["States\.ALL"\],"ResultPath":"\$\.error","Next":"SummarizeRun"/g)).toHaveLength(2);
  // What was prepared for a batch job before is asked first.
  expect(all.match(/"ErrorEquals":\["States\.ALL"\],"ResultPath":"\$\.error","Next":"PartsFailed"/g)).toHaveLength(3);
  // A failed chunk without a Map fails as one in a Map: the summary finds what it lacks.
  expect(all.match(/"ErrorEquals":\["States\.ALL"\],"ResultPath":"\$\.failed"/g)).toHaveLength(3);
  // Planning that fails beside the Map of the part before it.
  expect(all.match(/States\.ALL/g)).toHaveLength(10);
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

/** What holds of the definition of monitoring runs as a whole. recorded.test.ts has it state by state. */
import { definitionOf, GROUND_TRUTH, MONITORING, NOT_READY, REPLAY, templateOf } from '../helpers/synth.ts';

const template = templateOf({ MAX_FUNCTIONS: '7' });
const definition = definitionOf(template) as {
  StartAt: string;
  States: Record<string, Record<string, unknown>>;
};

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

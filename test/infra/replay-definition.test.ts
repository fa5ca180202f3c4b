/** What holds of the definition of replays as a whole. recorded.test.ts has it state by state. */

import { FUNCTION_TIMEOUT_SECONDS } from '../../src/core/contract/execution.ts';
import {
  definitionOf,
  flattened,
  NOT_READY,
  policiesOf,
  REPLAY,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

const template = templateOf();
const definition = definitionOf(template, REPLAY) as { States: Record<string, Record<string, unknown>> };

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

it('limits a shard by the timeout of its function, not counting the wait before it', () => {
  const limit = resourcesOfType(template, 'AWS::Lambda::Function').ReplayShardFunction?.Properties.Timeout;
  expect(limit).toBe(FUNCTION_TIMEOUT_SECONDS);
  expect(limit).toBe(900);
  expect((children.ReplayShard as { TimeoutSeconds?: number }).TimeoutSeconds).toBeGreaterThan(
    FUNCTION_TIMEOUT_SECONDS,
  );
  expect(children.UntilShardIsDue).not.toHaveProperty('TimeoutSeconds');
});

it('is started only by people, because no rule targets it', () => {
  const rules = Object.values(resourcesOfType(template, 'AWS::Events::Rule'));
  const targets = rules.flatMap(({ Properties }) => (Properties.Targets as { Arn: unknown }[]).map(({ Arn }) => Arn));
  expect(flattened(targets)).toEqual(['<ReplaySummaryFunction.Arn>', '<CapturesEvents.Arn>']);
});

it('lets the summarizer alone write the stop order, which the functions that obey it can read', () => {
  const mark = '<WorkBucket.Arn>/replays/*/stop.json';
  const users = (action: string) =>
    Object.entries(policiesOf(template))
      .filter(([, lines]) => lines.some(([actions, on]) => actions.includes(action) && on.includes(mark)))
      .map(([role]) => role);
  expect(users('s3:PutObject')).toEqual(['ReplaySummaryRole']);
  expect(users('s3:GetObject').toSorted()).toEqual(['ReplayPlanRole', 'ReplayShardRole', 'ReplaySummaryRole']);
});

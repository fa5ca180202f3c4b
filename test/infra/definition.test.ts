/** What holds of the state machines as a whole. recorded.test.ts has them state by state. */
import { getLanguageService, TextDocument } from 'amazon-states-language-service';
import validate from 'asl-validator';
import { FUNCTION_TIMEOUT_SECONDS } from '../../src/core/contract/execution.ts';
import {
  definitionOf,
  flattened,
  GROUND_TRUTH,
  MONITORING,
  NOT_READY,
  policiesOf,
  REPLAY,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

interface Retry {
  ErrorEquals: string[];
  IntervalSeconds: number;
  BackoffRate: number;
  MaxAttempts: number;
  MaxDelaySeconds?: number;
}
interface State {
  Type: string;
  Retry?: Retry[];
  TimeoutSeconds?: number;
  ItemProcessor?: { States: Record<string, State> };
}

const template = templateOf();
const statesOf = (id: string) => definitionOf(template, id).States as Record<string, State>;
const childrenOf = (id: string, map: string): Record<string, State> => statesOf(id)[map]?.ItemProcessor?.States ?? {};

/** The longest time that each retry of a state can take, in seconds. */
const longest = (state: State | undefined): number[] =>
  (state?.Retry ?? []).map(({ IntervalSeconds, BackoffRate, MaxAttempts, MaxDelaySeconds = Infinity }) => {
    const waits = Array.from({ length: MaxAttempts }, (_, n) => IntervalSeconds * BackoffRate ** n);
    return waits.reduce((sum, wait) => sum + Math.min(wait, MaxDelaySeconds), 0);
  });

/** The messages of `asl-validator`, on a copy since it modifies its argument. */
function byAslValidator(subject: object): string[] {
  const result = validate(JSON.parse(JSON.stringify(subject)));
  return result.isValid ? [] : result.errors.map((error) => error.Message);
}

/** The messages of AWS's own language service, as editors show them. */
async function byLanguageService(subject: object): Promise<string[]> {
  const service = getLanguageService({});
  const document = TextDocument.create('file:///definition.asl.json', 'asl', 1, JSON.stringify(subject, null, 2));
  const diagnostics = await service.doValidation(document, service.parseJSONDocument(document));
  return diagnostics.map(({ message }) => JSON.stringify(message));
}

describe.each([MONITORING, REPLAY, GROUND_TRUTH])('%s', (id) => {
  it('is accepted by two validators', async () => {
    const subject = definitionOf(template, id);
    expect(byAslValidator(subject)).toEqual([]);
    expect(await byLanguageService(subject)).toEqual([]);
  });

  it('waits in every task for a function that was idle for weeks', () => {
    const first: [task: string, retry: unknown][] = [];
    JSON.stringify(definitionOf(template, id), (key, part: Partial<State> | null) => {
      if (part?.Type === 'Task') first.push([key, part.Retry?.[0]]);
      return part;
    });
    expect(first.length).toBeGreaterThan(0);
    expect(first).toEqual(first.map(([task]) => [task, NOT_READY]));
  });
});

it('retries a chunk for as long as the runbook states', () => {
  const minutes = (state: State | undefined) => longest(state).map((seconds) => Math.round(seconds / 6) / 10);
  const { EvaluateTraces, LogTraces } = childrenOf(MONITORING, 'ForEachChunk');
  expect(minutes(LogTraces)).toEqual([18.9, 2, 4968.5]);
  expect(minutes(EvaluateTraces)).toEqual([18.9, 35.3, 4968.5]);
  expect(minutes(statesOf(MONITORING).CheckBatch)[1]).toBe(24 * 60);
});

describe('a replay', () => {
  const { ReplayShard, UntilShardIsDue, ...others } = childrenOf(REPLAY, 'ForEachShard');

  it('retries a shard only if it was not started, so that nothing is sent twice, and for at most a minute', () => {
    expect(others).toEqual({});
    const errors = ReplayShard?.Retry?.flatMap(({ ErrorEquals }) => ErrorEquals);
    expect(errors).toEqual([...NOT_READY.ErrorEquals, 'Lambda.TooManyRequestsException']);
    expect(longest(ReplayShard)[1]).toBe(62);
    // Lambda itself would retry an asynchronous invocation.
    const configs = Object.values(resourcesOfType(template, 'AWS::Lambda::EventInvokeConfig'));
    expect(configs.map(({ Properties }) => flattened(Properties))).toContainEqual({
      FunctionName: '<ReplayShardFunction>',
      Qualifier: '$LATEST',
      MaximumRetryAttempts: 0,
    });
  });

  it('limits a shard by the timeout of its function, not counting the wait before it', () => {
    expect(ReplayShard?.TimeoutSeconds).toBeGreaterThan(FUNCTION_TIMEOUT_SECONDS);
    expect(UntilShardIsDue).not.toHaveProperty('TimeoutSeconds');
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
});

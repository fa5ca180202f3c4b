import type { ReplayPlan } from '../../../../lambda/replay/cloud/plan.ts';
import { stopReplay } from '../../../../lambda/replay/cloud/stop-replay.ts';
import {
  type EndedExecution,
  endedExecutionSchema,
  replayKeys,
  type StopReplayRequest,
  stopReplayRequestSchema,
} from '../../../../lambda/replay-contract.ts';
import { MemoryStorage } from '../../../helpers/memory-storage.ts';

const RUN = 'before-the-migration';
const ARN = `arn:aws:states:eu-west-1:123456789012:execution:sagemaker-data-capture-replay-test:${RUN}`;
const NOW = 1_795_000_000_000;
const MINUTE_MS = 60_000;

let memory: MemoryStorage;
beforeEach(() => {
  memory = new MemoryStorage();
  stopped = [];
});

const event = (more: Partial<EndedExecution['detail']> = {}): EndedExecution => ({
  detail: { executionArn: ARN, status: 'ABORTED', startDate: NOW - 5 * MINUTE_MS, ...more },
});
/** Executions that were to be stopped. */
let stopped: string[];
const stop = (one: StopReplayRequest = event()) =>
  stopReplay(one, {
    storage: memory.storage,
    workBucket: 'w',
    now: () => NOW,
    stopExecution: async (name) => stopped.push(name) > 0,
  });
const planned = (outcome: ReplayPlan['outcome'] = 'planned') =>
  memory.put(replayKeys.plan(RUN), { run: RUN, outcome, shards: [{ shard: 0 }, { shard: 1 }, { shard: 2 }] });
function claimed(shard: number, minutesAgo = 1): void {
  memory.put(replayKeys.claim(RUN, shard), {});
  memory.writtenMs.set(replayKeys.claim(RUN, shard), NOW - minutesAgo * MINUTE_MS);
}
const left = (shard: number, name: string) => memory.put(`${replayKeys.shardPrefix(RUN, shard)}${name}`, {});
const hasMark = () => memory.objects.has(replayKeys.stop(RUN));

const run = { name: RUN, arn: ARN, startTime: new Date(NOW - 5 * MINUTE_MS).toISOString() };

test('waits for the shards that have begun, and for no other, until each has left its result or why there is none', async () => {
  planned();
  for (const shard of [0, 1, 2]) claimed(shard);
  left(0, 'result.json');
  // Lines come before the result.
  left(1, 'profile_export.jsonl');
  left(2, 'failure.json');
  const summarize = { run };
  expect(await stop()).toEqual({ next: 'wait', shards: { begun: 3, underWay: 1 }, summarize });
  expect(hasMark()).toBe(true);
  left(1, 'result.json');
  expect(await stop()).toEqual({ next: 'summarize', shards: { begun: 3, underWay: 0 }, summarize });
});

test('a shard that died is waited for until its function’s time is up', async () => {
  planned();
  claimed(0, 14);
  expect(await stop()).toMatchObject({ next: 'wait' });
  claimed(0, 16);
  expect(await stop()).toMatchObject({ next: 'summarize', shards: { begun: 1, underWay: 0 } });
});

test('no shard had begun: there is nothing to wait for', async () => {
  planned();
  expect(await stop()).toMatchObject({ next: 'summarize', shards: { begun: 0, underWay: 0 } });
  expect(hasMark()).toBe(true);
});

test.each([undefined, 'empty', 'dryRun'] as const)('nothing to send was planned (%s): nothing', async (outcome) => {
  if (outcome) planned(outcome);
  expect(await stop()).toMatchObject({ next: 'nothing' });
  // A planner that goes on finds it.
  expect(hasMark()).toBe(true);
});

test('an order that was put by hand stops the execution, whose end is told of next', async () => {
  planned();
  claimed(0);
  const { detail } = stopReplayRequestSchema.parse({
    detail: { bucket: { name: 'w' }, object: { key: replayKeys.stop(RUN), size: 0 } },
  });
  expect(await stop({ detail } as StopReplayRequest)).toEqual({ next: 'nothing', shards: { begun: 0, underWay: 0 } });
  expect(stopped).toEqual([RUN]);
});

test.each(['replays/a/b/stop.json', 'replays/a/plan.json', 'runs/a/stop.json'])('%s is no order', (key) => {
  expect(stopReplayRequestSchema.safeParse({ detail: { object: { key } } }).success).toBe(false);
});

test('the first order stands, also one by hand', async () => {
  planned();
  memory.put(replayKeys.stop(RUN), 'enough');
  await stop();
  await stop();
  expect(String(memory.objects.get(replayKeys.stop(RUN)))).toBe('enough');
});

describe('an execution that failed', () => {
  const failed = event({ status: 'FAILED', error: 'States.Runtime', cause: 'too much' });

  test('with its results has ended in order', async () => {
    planned();
    claimed(0);
    memory.put(replayKeys.figures(RUN), {});
    expect(await stop(failed)).toMatchObject({ next: 'nothing' });
    expect(hasMark()).toBe(false);
  });

  test('without a plan has begun nothing', async () => {
    expect(await stop(failed)).toMatchObject({ next: 'nothing' });
    expect(hasMark()).toBe(false);
  });

  test('without results is stopped like one that was aborted, and its error is handed on', async () => {
    planned();
    claimed(0);
    expect(await stop(failed)).toEqual({
      next: 'wait',
      shards: { begun: 1, underWay: 1 },
      summarize: { run, error: { Error: 'States.Runtime', Cause: 'too much' } },
    });
    expect(hasMark()).toBe(true);
  });

  test('without results, though all its shards have ended, is summarised again: an order would keep back the judge', async () => {
    planned();
    for (const shard of [0, 1]) claimed(shard);
    left(0, 'result.json');
    claimed(1, 16);
    expect(await stop(failed)).toMatchObject({ next: 'summarize' });
    expect(hasMark()).toBe(true);
    memory.objects.delete(replayKeys.stop(RUN));
    // One that failed before its claim.
    left(2, 'failure.json');
    expect(await stop(failed)).toMatchObject({ next: 'summarize', shards: { begun: 2, underWay: 0 } });
    expect(hasMark()).toBe(false);
  });

  test('one that was aborted is summarised again: it may have been stopped in the middle of that', async () => {
    planned();
    memory.put(replayKeys.figures(RUN), {});
    expect(await stop()).toMatchObject({ next: 'summarize' });
  });
});

describe('the event', () => {
  test('as EventBridge sends it', () => {
    const whole = {
      version: '0',
      source: 'aws.states',
      resources: [ARN],
      detail: {
        executionArn: ARN,
        stateMachineArn: 'arn:aws:states:eu-west-1:123456789012:stateMachine:sagemaker-data-capture-replay-test',
        name: RUN,
        status: 'ABORTED',
        startDate: NOW,
        stopDate: NOW,
        input: '{}',
        output: null,
        error: null,
        cause: null,
      },
    };
    expect(endedExecutionSchema.parse(whole).detail).toMatchObject({ executionArn: ARN, status: 'ABORTED' });
  });

  test.each([
    ['a state machine’s ARN', { executionArn: ARN.replace(':execution:', ':stateMachine:').replace(`:${RUN}`, '') }],
    ['an execution that goes on', { status: 'RUNNING' }],
    ['no detail', undefined],
  ])('%s is none', (_, detail) => {
    expect(endedExecutionSchema.safeParse({ detail: detail && { ...event().detail, ...detail } }).success).toBe(false);
  });
});

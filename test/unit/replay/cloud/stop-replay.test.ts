import { type EndedExecution, endedExecutionSchema } from '../../../../src/contract/replay.ts';
import { replayKeys } from '../../../../src/contract/work-keys.ts';
import { replayState, stopReplay } from '../../../../src/replay/cloud/stop/stop-replay.ts';
import type { StoredPlan } from '../../../../src/replay/cloud/work-bucket/stored-plan.ts';
import { PermanentError } from '../../../../src/shared/errors.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

const RUN = 'before-the-migration';
const ARN = `arn:aws:states:eu-west-1:123456789012:execution:sagemaker-data-capture-replay-test:${RUN}`;
const NOW = 1_795_000_000_000;
const MINUTE_MS = 60_000;

let memory: MemoryStorage;
/** What the function has called, in its order. */
let calls: [string, object][];
/** What happens while it waits. */
let meanwhile: () => void;
let waitedMs: number;
beforeEach(() => {
  memory = new MemoryStorage();
  calls = [];
  meanwhile = () => {};
  waitedMs = 0;
});

const event = (more: Partial<EndedExecution['detail']> = {}): EndedExecution => ({
  detail: { executionArn: ARN, status: 'ABORTED', startDate: NOW - 5 * MINUTE_MS, ...more },
});
const called =
  <T>(name: string, result?: T) =>
  async (request: object): Promise<T> => {
    calls.push([name, request]);
    return result as T;
  };
const stop = (one: EndedExecution = event(), more: object = {}) =>
  stopReplay(one, {
    storage: memory.storage,
    workBucket: 'w',
    summarize: called('summarize'),
    publish: called('publish'),
    endRun: called('endRun'),
    remainingMs: () => 900_000 - waitedMs,
    now: () => NOW + waitedMs,
    pause: async (ms) => {
      waitedMs += ms;
      meanwhile();
    },
    ...more,
  });
const planned = ({ outcome = 'planned', mlflow = false }: { outcome?: StoredPlan['outcome']; mlflow?: boolean } = {}) =>
  memory.put(replayKeys.plan(RUN), {
    run: RUN,
    outcome,
    shards: [{ shard: 0 }, { shard: 1 }, { shard: 2 }],
    mlflow: mlflow ? { runId: 'r' } : null,
  });
function put(key: string, minutesAgo: number): void {
  memory.put(key, {});
  memory.writtenMs.set(key, NOW - minutesAgo * MINUTE_MS);
}
const claimed = (shard: number, minutesAgo = 1) => put(replayKeys.claim(RUN, shard), minutesAgo);
const left = (shard: number, name: string) => memory.put(`${replayKeys.shardPrefix(RUN, shard)}${name}`, {});
const hasOrder = () => memory.objects.has(replayKeys.stop(RUN));

const run = { name: RUN, arn: ARN, startTime: new Date(NOW - 5 * MINUTE_MS).toISOString() };
const SUMMARIZED = { end: 'summarized' };

test('puts the order, waits for the shards that have begun, and for no other, and has them summarised', async () => {
  planned();
  for (const shard of [0, 1]) claimed(shard);
  left(0, 'result.json');
  // Lines come before the result.
  left(1, 'profile_export.jsonl');
  meanwhile = () => {
    expect(hasOrder()).toBe(true);
    expect(calls).toEqual([]);
    if (waitedMs > 5_000) left(1, 'result.json');
  };
  expect(await stop()).toEqual(SUMMARIZED);
  expect(waitedMs).toBe(6_000);
  expect(calls).toEqual([['summarize', { run }]]);
});

test('a shard that failed has ended', async () => {
  planned();
  claimed(0);
  left(0, 'failure.json');
  expect([await stop(), waitedMs]).toEqual([SUMMARIZED, 0]);
});

test('a run in MLflow is published after the summary', async () => {
  planned({ mlflow: true });
  await stop();
  expect(calls).toEqual([
    ['summarize', { run }],
    ['publish', { run }],
  ]);
});

test('a shard that died is waited for until its time is up', async () => {
  planned();
  claimed(0, 14);
  expect(await stop()).toEqual(SUMMARIZED);
  // Fifteen minutes from its claim, and half a minute for clocks that differ.
  expect(waitedMs).toBe(90_000);
});

test('… by the next attempt, where the function has not so much time left', async () => {
  planned();
  claimed(0, 1);
  await expect(stop()).rejects.toMatchObject({
    name: 'ShardsUnderWay',
    message: expect.stringContaining('1 of the 1'),
  });
  expect(waitedMs).toBeGreaterThan(9 * MINUTE_MS);
  // The run in MLflow does not stay open, should no attempt succeed.
  expect(calls).toEqual([
    ['endRun', { run, unfinished: { Error: 'ShardsUnderWay', Cause: expect.stringContaining('1 of the 1') } }],
  ]);
});

test('what a function throws is thrown on, after the run in MLflow has ended by it', async () => {
  planned({ mlflow: true });
  const refused = new PermanentError('StorageAccessDenied', 'S3 denied access');
  const summarize = () => Promise.reject(refused);
  await expect(stop(event(), { summarize })).rejects.toBe(refused);
  expect(calls).toEqual([['endRun', { run, unfinished: expect.objectContaining({ Error: 'StorageAccessDenied' }) }]]);
  // Not even that may hide it.
  await expect(stop(event(), { summarize, endRun: () => Promise.reject(new Error('too')) })).rejects.toBe(refused);
});

describe('once more', () => {
  test('the order that came first stands, also one by hand', async () => {
    planned();
    memory.put(replayKeys.stop(RUN), 'enough');
    await stop();
    await stop();
    expect(String(memory.objects.get(replayKeys.stop(RUN)))).toBe('enough');
  });

  test('what is summarised since the order is not summarised again', async () => {
    planned();
    put(replayKeys.stop(RUN), 2);
    put(replayKeys.figures(RUN), 1);
    expect([await stop(), calls]).toEqual([SUMMARIZED, []]);
  });

  test('a summary that was cut while the function waited for it is found, and published', async () => {
    planned({ mlflow: true });
    put(replayKeys.stop(RUN), 2);
    // Of which the figures alone do not tell that what is to be published is there.
    put(replayKeys.figures(RUN), 1);
    await stop();
    put(replayKeys.publication(RUN), 1);
    calls.length = 0;
    await stop();
    expect(calls).toEqual([['publish', { run }]]);
  });

  test('results of before the order are made anew: the execution may have been stopped in the middle of that', async () => {
    planned();
    put(replayKeys.figures(RUN), 2);
    put(replayKeys.stop(RUN), 1);
    await stop();
    expect(calls).toEqual([['summarize', { run }]]);
  });
});

test.each([undefined, 'empty', 'dryRun'] as const)('nothing to send was planned (%s): nothing', async (outcome) => {
  if (outcome) planned({ outcome });
  expect([await stop(), calls]).toEqual([{ end: 'empty' }, []]);
  // A planner that goes on finds it.
  expect(hasOrder()).toBe(true);
});

test('a planner that has just ended is seen: its plan is looked for after the order is put', async () => {
  class Planner extends MemoryStorage {
    override async putJsonIf(...order: Parameters<MemoryStorage['putJsonIf']>): Promise<string | undefined> {
      planned();
      return super.putJsonIf(...order);
    }
  }
  memory = new Planner();
  expect(await stop()).toEqual(SUMMARIZED);
});

describe('an execution that failed', () => {
  const failed = event({ status: 'FAILED', error: 'States.Runtime', cause: 'too much' });
  const error = { Error: 'States.Runtime', Cause: 'too much' };

  test('with its results has ended in order', async () => {
    planned();
    claimed(0);
    put(replayKeys.figures(RUN), 1);
    expect([await stop(failed), calls, hasOrder()]).toEqual([SUMMARIZED, [], false]);
  });

  test('with its results, but perhaps without them in MLflow: they are published', async () => {
    planned({ mlflow: true });
    put(replayKeys.publication(RUN), 1);
    await stop(failed);
    expect([calls, hasOrder()]).toEqual([[['publish', { run }]], false]);
  });

  test('without a plan has begun nothing', async () => {
    expect([await stop(failed), calls, hasOrder()]).toEqual([{ end: 'empty' }, [], false]);
  });

  test('without results is stopped like one that was aborted, and its error is handed on', async () => {
    planned();
    claimed(0);
    left(0, 'result.json');
    await stop(failed);
    expect([calls, hasOrder()]).toEqual([[['summarize', { run, error }]], true]);
  });

  test('without results, though all its shards have ended, is summarised without an order, which would keep back the judge', async () => {
    planned();
    for (const shard of [0, 1]) claimed(shard);
    left(0, 'result.json');
    claimed(1, 16);
    // One that failed before its claim.
    left(2, 'failure.json');
    await stop(failed);
    expect([calls, hasOrder()]).toEqual([[['summarize', { run, error }]], false]);
  });
});

test('whoever looks sees the same: nothing yet, then the results', async () => {
  const end = async (failed = false) => (await replayState(memory.storage, 'w', RUN, failed)).end;
  expect(await end()).toBe('empty');
  planned();
  expect(await end()).toBe('open');
  put(replayKeys.figures(RUN), 1);
  expect([await end(), await end(true)]).toEqual(['open', 'summarized']);
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

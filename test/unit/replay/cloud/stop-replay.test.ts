/** StopReplay: the function that ends stopped and failed replays. */

import { CONTRACT } from '../../../../src/core/contract/contract.ts';
import { type EndedExecution, endedExecutionSchema } from '../../../../src/core/contract/replay.ts';
import { replayKeys } from '../../../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../../../src/core/errors/errors.ts';
import { replayState, stopReplay } from '../../../../src/replay/cloud/stop/stop-replay.ts';
import type { StoredPlan } from '../../../../src/replay/cloud/work-bucket/stored-plan.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

const RUN = 'before-the-migration';
const ARN = `arn:aws:states:eu-west-1:123456789012:execution:sagemaker-data-capture-replay-test:${RUN}`;
const NOW = 1_795_000_000_000;
const MINUTE_MS = 60_000;

let memory: MemoryStorage;
/** The calls of the function, in order. */
let calls: [string, object][];
/** Runs while the function waits. */
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
    contract: CONTRACT,
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

test('writes the stop order, waits for started shards only, and has the results summarized', async () => {
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

test('does not wait for a failed shard', async () => {
  planned();
  claimed(0);
  left(0, 'failure.json');
  expect([await stop(), waitedMs]).toEqual([SUMMARIZED, 0]);
});

test('publishes to MLflow after the summary', async () => {
  planned({ mlflow: true });
  await stop();
  expect(calls).toEqual([
    ['summarize', { run }],
    ['publish', { run }],
  ]);
});

test('waits for a crashed shard until its function’s time is over', async () => {
  planned();
  claimed(0, 14);
  expect(await stop()).toEqual(SUMMARIZED);
  // 15 minutes after its claim, and half a minute for clock differences.
  expect(waitedMs).toBe(90_000);
});

test('leaves a longer wait to the next attempt', async () => {
  planned();
  claimed(0, 1);
  await expect(stop()).rejects.toMatchObject({
    name: 'ShardsUnderWay',
    message: expect.stringContaining('1 of 1 started'),
  });
  expect(waitedMs).toBeGreaterThan(9 * MINUTE_MS);
  // The MLflow run does not stay open even if no attempt succeeds.
  expect(calls).toEqual([
    ['endRun', { run, unfinished: { Error: 'ShardsUnderWay', Cause: expect.stringContaining('1 of 1 started') } }],
  ]);
});

test('ends the MLflow run and rethrows the error of a function', async () => {
  planned({ mlflow: true });
  const refused = new PermanentError('StorageAccessDenied', 'S3 denied access');
  const summarize = () => Promise.reject(refused);
  await expect(stop(event(), { summarize })).rejects.toBe(refused);
  expect(calls).toEqual([['endRun', { run, unfinished: expect.objectContaining({ Error: 'StorageAccessDenied' }) }]]);
  // An error of ending the run does not hide it.
  await expect(stop(event(), { summarize, endRun: () => Promise.reject(new Error('too')) })).rejects.toBe(refused);
});

describe('a repeated call', () => {
  test('keeps an earlier stop order, including one that was written manually', async () => {
    planned();
    memory.put(replayKeys.stop(RUN), 'enough');
    await stop();
    await stop();
    expect(String(memory.objects.get(replayKeys.stop(RUN)))).toBe('enough');
  });

  test('does not repeat a summary that is newer than the order', async () => {
    planned();
    put(replayKeys.stop(RUN), 2);
    put(replayKeys.figures(RUN), 1);
    expect([await stop(), calls]).toEqual([SUMMARIZED, []]);
  });

  test('finds and publishes a summary whose caller timed out', async () => {
    planned({ mlflow: true });
    put(replayKeys.stop(RUN), 2);
    // The figures alone do not show that the publication is complete.
    put(replayKeys.figures(RUN), 1);
    await stop();
    put(replayKeys.publication(RUN), 1);
    calls.length = 0;
    await stop();
    expect(calls).toEqual([['publish', { run }]]);
  });

  test('repeats a summary that is older than the order, because it may be incomplete', async () => {
    planned();
    put(replayKeys.figures(RUN), 2);
    put(replayKeys.stop(RUN), 1);
    await stop();
    expect(calls).toEqual([['summarize', { run }]]);
  });
});

test.each([undefined, 'empty', 'dryRun'] as const)('does nothing if no request was planned (%s)', async (outcome) => {
  if (outcome) planned({ outcome });
  expect([await stop(), calls]).toEqual([{ end: 'empty' }, []]);
  // A planner that is still running finds it.
  expect(hasOrder()).toBe(true);
});

test('reads the plan again after writing the order', async () => {
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

  test('with results needs no further step', async () => {
    planned();
    claimed(0);
    put(replayKeys.figures(RUN), 1);
    expect([await stop(failed), calls, hasOrder()]).toEqual([SUMMARIZED, [], false]);
  });

  test('with results is published, because MLflow may not have them', async () => {
    planned({ mlflow: true });
    put(replayKeys.publication(RUN), 1);
    await stop(failed);
    expect([calls, hasOrder()]).toEqual([[['publish', { run }]], false]);
  });

  test('without a plan needs nothing', async () => {
    expect([await stop(failed), calls, hasOrder()]).toEqual([{ end: 'empty' }, [], false]);
  });

  test('without results is stopped like an aborted one, and keeps its error', async () => {
    planned();
    claimed(0);
    left(0, 'result.json');
    await stop(failed);
    expect([calls, hasOrder()]).toEqual([[['summarize', { run, error }]], true]);
  });

  test('without results, but with all shards ended, is summarized without a stop order, which would prevent judging', async () => {
    planned();
    for (const shard of [0, 1]) claimed(shard);
    left(0, 'result.json');
    claimed(1, 16);
    // This shard failed before its claim.
    left(2, 'failure.json');
    await stop(failed);
    expect([calls, hasOrder()]).toEqual([[['summarize', { run, error }]], false]);
  });
});

test('replayState changes from empty to open to summarized', async () => {
  const end = async (failed = false) => (await replayState(memory.storage, 'w', RUN, failed)).end;
  expect(await end()).toBe('empty');
  planned();
  expect(await end()).toBe('open');
  put(replayKeys.figures(RUN), 1);
  expect([await end(), await end(true)]).toEqual(['open', 'summarized']);
});

describe('the event', () => {
  test('is accepted as EventBridge sends it', () => {
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
    ['a running execution', { status: 'RUNNING' }],
    ['no detail', undefined],
  ])('is rejected with %s', (_, detail) => {
    expect(endedExecutionSchema.safeParse({ detail: detail && { ...event().detail, ...detail } }).success).toBe(false);
  });
});

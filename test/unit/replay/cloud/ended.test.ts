/** SummarizeReplay after the execution of a replay was stopped or has failed. */

import { type EndedExecution, endedExecutionSchema } from '../../../../src/core/contract/replay.ts';
import { replayKeys } from '../../../../src/core/contract/work-keys.ts';
import { replayState } from '../../../../src/replay/cloud/summarize/stop-shards.ts';
import { summarizeReplay } from '../../../../src/replay/cloud/summarize/summarize-replay.ts';
import type { StoredPlan } from '../../../../src/replay/cloud/work-bucket/stored-plan.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';
import { claimKey, storedPlan } from '../../../helpers/stored-plan.ts';

const RUN = 'before-the-migration';
const ARN = `arn:aws:states:eu-west-1:123456789012:execution:sagemaker-data-capture-replay-test:${RUN}`;
const NOW = 1_795_000_000_000;
const MINUTE_MS = 60_000;

let memory: MemoryStorage;
/** Runs while the function waits. */
let meanwhile: () => void;
let waitedMs: number;
let mlflowCalls: number;
beforeEach(() => {
  memory = new MemoryStorage();
  meanwhile = () => {};
  waitedMs = 0;
  mlflowCalls = 0;
});

const event = (more: Partial<EndedExecution['detail']> = {}): EndedExecution => ({
  detail: { executionArn: ARN, status: 'ABORTED', ...more },
});
const stop = (one: EndedExecution = event()) =>
  summarizeReplay(one, {
    storage: memory.storage,
    workBucket: 'w',
    mlflow: () => {
      mlflowCalls++;
      return Promise.reject(new Error('no MLflow here'));
    },
    startMonitoring: async () => 'arn',
    remainingMs: () => 900_000 - waitedMs,
    now: () => NOW + waitedMs,
    pause: async (ms) => {
      waitedMs += ms;
      meanwhile();
    },
  });
const experiment = { id: '99', name: 'replays', artifactLocation: '' };
const MLFLOW = { experiment, runId: 'r', monitoringRun: 'replay-run' };
const planned = (more: Partial<StoredPlan> = {}) =>
  memory.put(replayKeys.plan(RUN), storedPlan([1, 1, 1], { run: RUN, ...more }));
function put(key: string, minutesAgo: number): void {
  memory.put(key, {});
  memory.writtenMs.set(key, NOW - minutesAgo * MINUTE_MS);
}
const claimed = (shard: number, minutesAgo = 1) => put(claimKey(RUN, shard), minutesAgo);
const left = (shard: number, name: string) => memory.put(`${replayKeys.shardPrefix(RUN, shard)}${name}`, {});
const hasOrder = () => memory.objects.has(replayKeys.stop(RUN));
const figures = () => memory.objects.get(replayKeys.figures(RUN))?.toString();

test('writes the stop order, waits for started shards only, and summarizes', async () => {
  planned();
  for (const shard of [0, 1]) claimed(shard);
  left(0, 'result.json');
  // Lines come before the result.
  left(1, 'profile_export.jsonl');
  meanwhile = () => {
    expect([hasOrder(), figures()]).toEqual([true, undefined]);
    if (waitedMs > 5_000) left(1, 'result.json');
  };
  expect(await stop()).toMatchObject({ ok: false, error: 'ReplayCancelled', cause: expect.stringContaining('1 (2)') });
  expect(waitedMs).toBe(6_000);
  expect(figures()).toContain('"not_begun":[{"shard":2,"requests":1}]');
});

test('does not wait for a failed shard', async () => {
  planned();
  claimed(0);
  left(0, 'failure.json');
  expect([await stop(), waitedMs]).toEqual([expect.objectContaining({ ok: false }), 0]);
});

test('waits for a crashed shard until its function’s time is over', async () => {
  planned();
  claimed(0, 14);
  expect(await stop()).toMatchObject({ ok: false });
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
  expect(figures()).toBeUndefined();
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
    expect([await stop(), figures()]).toEqual([{}, '{}']);
  });

  test('repeats a summary that is older than the order, because it may be incomplete', async () => {
    planned();
    put(replayKeys.figures(RUN), 2);
    put(replayKeys.stop(RUN), 1);
    await stop();
    expect(figures()).toContain('not_begun');
  });

  test('repeats a summary that is not ready for MLflow, and not one that is', async () => {
    planned({ mlflow: MLFLOW });
    put(replayKeys.stop(RUN), 2);
    put(replayKeys.figures(RUN), 1);
    await expect(stop()).rejects.toThrow('no MLflow here');
    expect(figures()).toContain('not_begun');
    memory.writtenMs.set(replayKeys.publication(RUN), NOW);
    put(replayKeys.figures(RUN), 1);
    mlflowCalls = 0;
    await expect(stop()).rejects.toThrow('no MLflow here');
    expect(figures()).toBe('{}');
    // To publish, and then to end the run.
    expect(mlflowCalls).toBe(2);
  });
});

test.each([undefined, 'empty', 'dryRun'] as const)('does nothing if no request was planned (%s)', async (outcome) => {
  if (outcome) planned({ outcome });
  expect([await stop(), figures()]).toEqual([{}, undefined]);
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
  expect(await stop()).toMatchObject({ error: 'ReplayCancelled' });
});

describe('an execution that failed', () => {
  const failed = event({ status: 'FAILED', error: 'States.Runtime', cause: 'too much' });

  test('with results needs no further step', async () => {
    planned();
    claimed(0);
    put(replayKeys.figures(RUN), 1);
    expect([await stop(failed), figures(), hasOrder()]).toEqual([{}, '{}', false]);
  });

  test('with results is published, because MLflow may not have them', async () => {
    planned({ mlflow: MLFLOW });
    memory.put(replayKeys.publication(RUN), { mlflow: MLFLOW });
    await expect(stop(failed)).rejects.toThrow('no MLflow here');
    expect([mlflowCalls, figures(), hasOrder()]).toEqual([2, undefined, false]);
  });

  test('without a plan needs nothing', async () => {
    expect([await stop(failed), hasOrder()]).toEqual([{}, false]);
  });

  test('without results is stopped like an aborted one, and keeps its error', async () => {
    planned();
    claimed(0);
    left(0, 'result.json');
    expect(await stop(failed)).toMatchObject({ cause: expect.stringMatching(/States\.Runtime: too much$/) });
    expect([figures()?.includes('not_begun'), hasOrder()]).toEqual([true, true]);
  });

  test('without results, but with all shards ended, is summarized without a stop order, which would prevent judging', async () => {
    planned();
    for (const shard of [0, 1]) claimed(shard);
    left(0, 'result.json');
    claimed(1, 16);
    // This shard failed before its claim.
    left(2, 'failure.json');
    expect(await stop(failed)).toMatchObject({ error: 'ReplayIncomplete' });
    expect(hasOrder()).toBe(false);
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

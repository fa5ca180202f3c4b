/** The outcome of a cloud replay: claims, merged results, and missing or lost requests. */
import type { ExchangesInput } from '../../../../src/core/contract/input.ts';
import { replayKeys } from '../../../../src/core/contract/work-keys.ts';
import { RetryableError } from '../../../../src/core/errors/errors.ts';
import { Random } from '../../../../src/core/values/random.ts';
import { claimShard, shardSeed } from '../../../../src/replay/cloud/shard/shard.ts';
import type { ShardResult } from '../../../../src/replay/cloud/shard/shard-results.ts';
import { type Collected, collectShards } from '../../../../src/replay/cloud/summarize/collect.ts';
import { failureOf, missing, remarks, writeSummary } from '../../../../src/replay/cloud/summarize/write-summary.ts';
import type { StoredPlan } from '../../../../src/replay/cloud/work-bucket/stored-plan.ts';
import { ReportCollector } from '../../../../src/replay/measure/report-collector.ts';
import { RunStats, type RunStatsJson } from '../../../../src/replay/measure/run-stats.ts';
import { DEFAULT_OPTIONS } from '../../../../src/replay/options.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';
import { claimKey, storedPlan } from '../../../helpers/stored-plan.ts';

const RUN = 'run';
const START = 1_795_000_000_000;

const plan = (requests: number[], options = {}): StoredPlan =>
  storedPlan(requests, { options: { ...DEFAULT_OPTIONS, ...options }, skipped: { NotJson: 2 } });

/** The figures of one process with these latencies. */
function statsOf(latencies: readonly number[], failed = 0, cancelledOnPurpose = 0): RunStatsJson {
  const stats = new RunStats();
  for (const latency of latencies) {
    stats.succeeded++;
    stats.distribution('request_latency').add(latency);
    stats.firstStartMs = Math.min(stats.firstStartMs, START);
    stats.lastEndMs = Math.max(stats.lastEndMs, START + latency);
  }
  stats.failed = failed + cancelledOnPurpose;
  stats.cancelled = cancelledOnPurpose;
  stats.cancelledOnPurpose = cancelledOnPurpose;
  return stats.toJSON();
}

const result = (shard: number, stats: RunStatsJson, more: Partial<ShardResult> = {}): ShardResult => ({
  shard,
  endedAtMs: START + 5000 + shard,
  lateMs: 0,
  sent: stats.succeeded + stats.failed,
  unsent: 0,
  stopped: false,
  maxConnections: 3,
  skipped: {},
  stats,
  report: new ReportCollector().toJSON(),
  ...more,
});

let memory: MemoryStorage;
beforeEach(() => {
  memory = new MemoryStorage();
});
const store = (one: ShardResult): void => {
  memory.put(`${replayKeys.shardPrefix(RUN, one.shard)}result.json`, one);
};

test('a shard can be claimed only once', async () => {
  const claim = (shard: number) => claimShard(memory.storage, 'w', { run: RUN, shard });
  await claim(0);
  await claim(1);
  await expect(claim(0)).rejects.toMatchObject({
    name: 'ShardAlreadyClaimed',
    message: expect.stringMatching(
      /not sent twice; got: shard 0 of run; where: s3:\/\/w\/replays\/run\/shards\/0000\/claim\.json/,
    ),
  });
});

test('the results of shards add up', async () => {
  for (const shard of [0, 1, 2]) store(result(shard, statsOf([10 + shard, 20])));
  const collected = await collectShards(memory.storage, 'w', plan([2, 2, 2]));
  expect(collected.stats.distribution('request_latency')).toMatchObject({ count: 6, sum: 93 });
  expect(collected).toMatchObject({ sent: 6, unsent: 0, lost: [], incomplete: [], late: [], endMs: START + 5002 });
  expect(collected.skippedReasons).toEqual(new Map([['NotJson', 2]]));
  expect(failureOf(plan([2, 2, 2]), collected, undefined)).toBeUndefined();
});

describe('missing requests', () => {
  const collect = (planned: StoredPlan): Promise<Collected> => collectShards(memory.storage, 'w', planned);

  test('finds lost shards with their failure, incomplete shards and late shards', async () => {
    store(result(0, statsOf([5, 6]), { unsent: 7, skipped: { NoRequest: 1 }, lateMs: 4000 }));
    memory.put(claimKey(RUN, 1), {});
    memory.put(`${replayKeys.shardPrefix(RUN, 1)}failure.json`, { name: 'TargetUnreachable', message: 'no route' });
    // A shard that crashes while it writes leaves lines without figures.
    memory.put(`${replayKeys.shardPrefix(RUN, 2)}profile_export.jsonl`, '{}\n');
    store(result(3, statsOf([7]), { skipped: { CaptureChanged: 2 } }));
    const planned = plan([10, 20, 30, 3]);
    const collected = await collect(planned);
    expect(collected.lost).toEqual([
      { shard: 1, requests: 20, claimed: true, failure: { name: 'TargetUnreachable', message: 'no route' } },
      { shard: 2, requests: 30, claimed: false },
    ]);
    expect(collected.incomplete).toEqual([
      { shard: 0, requests: 10, unsent: 7, stopped: false, unread: 0 },
      { shard: 3, requests: 3, unsent: 0, stopped: false, unread: 2 },
    ]);
    expect(collected.late).toEqual([{ shard: 0, lateMs: 4000 }]);
    // The equation: every request of the schedule is in one of these.
    const lost = collected.lost.reduce((sum, { requests }) => sum + requests, 0);
    expect(collected.sent + collected.unsent + collected.skippedByShards + lost).toBe(planned.requests);
    expect(missing(collected)).toEqual([
      'shards lost: 2 (1, 2), with 50 requests, of which 1 had started and may have sent some; first failure: TargetUnreachable: no route',
      'requests not sent because their shard ran out of time: 7 (shards 0)',
      'requests not sent because their captures could no longer be read: 2',
    ]);
    expect(remarks(planned, collected)).toEqual([
      'Shards that started late: 1 (0), by at most 4000 ms. Their requests keep their intervals, and the delay counts as schedule lag',
    ]);
    expect(failureOf(planned, collected, { error: 'States.X', cause: 'y' })).toEqual({
      error: 'ReplayIncomplete',
      cause: expect.stringMatching(/^shards lost: 2 .*; States\.X: y$/),
    });
  });

  test('counts a shard with an invalid result as lost, and keeps the other results', async () => {
    const keyOf = (shard: number) => `${replayKeys.shardPrefix(RUN, shard)}result.json`;
    store(result(0, statsOf([5, 6])));
    memory.put(keyOf(1), '{"shard":1,');
    memory.put(claimKey(RUN, 1), {});
    const collected = await collect(plan([2, 1]));
    expect(collected).toMatchObject({ sent: 2, stats: { succeeded: 2 } });
    const failure = { name: 'SyntaxError', message: expect.any(String) };
    expect(collected.lost).toEqual([{ shard: 1, requests: 1, claimed: true, failure }]);
  });

  test('distinguishes requests that a stopped replay did not send from lost ones', async () => {
    memory.put(replayKeys.stop(RUN), 'manually');
    memory.writtenMs.set(replayKeys.stop(RUN), START + 1000);
    store(result(0, statsOf([5, 6]), { unsent: 8, stopped: true }));
    memory.put(claimKey(RUN, 1), {});
    store(result(3, statsOf([7]), { unsent: 2 }));
    const planned = plan([10, 20, 30, 3]);
    const collected = await collect(planned);
    const [lost, notBegun] = [[{ shard: 1, requests: 20, claimed: true }], [{ shard: 2, requests: 30 }]];
    expect(collected).toMatchObject({ stop: START + 1000, wasCancelled: true, lost, notBegun });
    expect(collected.sent + collected.unsent + 20).toBe(planned.requests);
    expect(failureOf(planned, collected, { error: 'States.X', cause: 'y' })).toEqual({
      error: 'ReplayCancelled',
      cause: [
        `The replay was stopped at ${new Date(START + 1000).toISOString()}`,
        'shards not started: 1 (2), with 30 requests',
        'shards lost: 1 (1), with 20 requests, of which 1 had started and may have sent some',
        'requests not sent because the replay was stopped: 8 (shards 0)',
        'requests not sent because their shard ran out of time: 2 (shards 3)',
        'States.X: y',
      ].join('; '),
    });
  });

  test('a stop order after all requests were sent has no effect', async () => {
    memory.put(replayKeys.stop(RUN), {});
    store(result(0, statsOf([5])));
    const planned = plan([1]);
    const collected = await collect(planned);
    expect(collected.wasCancelled).toBe(false);
    expect(failureOf(planned, collected, undefined)).toBeUndefined();
  });

  test('fails if no request was sent', async () => {
    store(result(0, statsOf([]), { skipped: { NotAnObject: 3 } }));
    const planned = plan([3]);
    expect(failureOf(planned, await collect(planned), undefined)).toEqual({
      error: 'NothingSent',
      cause: 'Nothing was sent: no record could be sent (NotJson: 2, NotAnObject: 3)',
    });
    const none = plan([]);
    expect(failureOf({ ...none, skipped: {} }, await collect({ ...none, skipped: {} }), undefined)).toEqual({
      error: 'NothingSent',
      cause: 'Nothing was sent: the window has no requests',
    });
  });

  test('fails with the error of the Map even if nothing is missing', async () => {
    store(result(0, statsOf([5])));
    const planned = plan([1]);
    const collected = await collect(planned);
    const failure = { error: 'States.X', cause: 'y' };
    expect(failureOf(planned, collected, failure)).toEqual(failure);
  });

  test.each([
    [100, [5], 3, 0, undefined],
    [75, [5], 3, 0, undefined],
    [74, [5], 3, 0, /3 of 4 requests failed \(75\.00%\); allowed: 74%$/],
    [100, [], 3, 0, /3 of 3 requests failed .*none succeeded$/],
    [0, [5, 6], 0, 0, undefined],
    [0, [5], 0, 3, undefined],
    [50, [5], 1, 3, undefined],
    [49, [5], 1, 3, /1 of 2 requests failed \(50\.00%\); allowed: 49%; 3 more were canceled on purpose$/],
    [100, [], 1, 3, /1 of 1 requests failed .*none succeeded; 3 more/],
    [0, [], 0, 3, undefined],
  ])(
    'an error rate of at most %d%%: %j succeeded, %d failed, %d cancelled',
    async (maxErrorRate, latencies, failed, cancelled, cause) => {
      store(result(0, statsOf(latencies, failed, cancelled)));
      const planned = plan([latencies.length + failed + cancelled], { maxErrorRate });
      const failure = failureOf(planned, await collect(planned), undefined);
      if (cause === undefined) expect(failure).toBeUndefined();
      else expect(failure).toEqual({ error: 'ReplayErrorRate', cause: expect.stringMatching(cause) });
    },
  );

  test('reports a shard that used all of its connections', async () => {
    store(result(0, statsOf([5]), { maxConnections: 800 }));
    const planned = plan([1]);
    const [line] = remarks(planned, await collect(planned));
    expect(line).toMatch(/all of its 800 connections/);
  });
});

test('each shard has a different seed, and the first shard has the seed of the command line', () => {
  expect(shardSeed(5, 0)).toBe(5);
  const seeds = [0, 5].flatMap((seed) => Array.from({ length: 1000 }, (_, shard) => shardSeed(seed, shard)));
  expect(new Set(seeds).size).toBe(2000);
  const draws = [0, 1, 2].map((shard) => {
    const random = new Random(shardSeed(5, shard));
    return Array.from({ length: 64 }, () => random.next() < 0.5);
  });
  expect(draws[0]).not.toEqual(draws[1]);
  expect(draws[1]).not.toEqual(draws[2]);
});

describe('the run of the monitoring that a finished replay starts for its exchanges', () => {
  const ARN = 'arn:aws:states:eu-central-1:1:execution:monitoring:replay-run';
  const experiment = { id: '99', name: 'replays', artifactLocation: '' };
  const mlflow = { experiment, runId: 'mlflow-run', monitoringRun: 'replay-run' };

  /** Summarizes a replay of one request. @returns the runs that it started, and `replay.json` */
  async function summarized(planned: Partial<StoredPlan>, { sent = 1, stopped = false, fails = false } = {}) {
    if (stopped) memory.put(replayKeys.stop(RUN), {});
    store(result(0, statsOf(sent > 0 ? [5] : []), { unsent: 1 - sent, stopped }));
    const started: [string, ExchangesInput][] = [];
    const summary = await writeSummary(RUN, storedPlan([1], { mlflow, ...planned }), undefined, {
      storage: memory.storage,
      workBucket: 'w',
      startMonitoring: async (name, input) => {
        started.push([name, input]);
        if (fails) throw new RetryableError('StepFunctionsUnavailable', 'Step Functions did not start an execution');
        return ARN;
      },
    });
    return { summary, started, facts: JSON.parse(String(memory.objects.get(replayKeys.figures(RUN)))) as object };
  }

  const judge = (budgetUsd: number) => ({ judge: { model: 'm', budgetUsd } });
  const replay = { run: RUN, experimentId: '99' };

  test.each<[string, Partial<StoredPlan>, ExchangesInput]>([
    ['with MLflow', {}, { replay, evaluate: false }],
    ['with a judge', judge(20), { replay, evaluate: true, budgetUsd: 20 }],
    ['with a judge and no budget of its own', judge(0), { replay, evaluate: true }],
  ])('a replay %s starts one, and names it and its summary', async (_, planned, input) => {
    const { summary, started, facts } = await summarized(planned);
    expect(started).toEqual([['replay-run', input]]);
    expect(summary).toMatchObject({ ok: true, monitoringRun: 'replay-run' });
    const verdicts = `s3://w/replays/${RUN}/verdicts/`;
    expect(facts).toMatchObject({ monitoring_run: { name: 'replay-run', arn: ARN, verdicts } });
  });

  test.each<[string, Partial<StoredPlan>, { sent?: number; stopped?: boolean }]>([
    ['without MLflow', { mlflow: null }, {}],
    ['that sent nothing', judge(20), { sent: 0 }],
    ['that was stopped', judge(20), { stopped: true }],
  ])('a replay %s starts none', async (_, planned, how) => {
    const { summary, started, facts } = await summarized(planned, how);
    expect(started).toEqual([]);
    expect(summary).not.toHaveProperty('monitoringRun');
    expect(facts).not.toHaveProperty('monitoring_run');
  });

  test('a replay whose run cannot be started has its results, and fails by name', async () => {
    const { summary, facts } = await summarized({}, { fails: true });
    const cause = expect.stringContaining('No run traces and judges the exchanges');
    expect(summary).toMatchObject({ ok: false, error: 'StepFunctionsUnavailable', cause });
    expect(facts).toMatchObject({ sent: 1 });
    expect(facts).not.toHaveProperty('monitoring_run');
  });
});

/** The gate of a cloud replay: what planning refuses, and what the summary decides. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { planCloudGate } from '../../../../src/replay/cloud/plan/plan-gate.ts';
import { nothingEvaluated } from '../../../../src/replay/cloud/summarize/collect-evaluations.ts';
import { decideReplayGate } from '../../../../src/replay/cloud/summarize/gate.ts';
import type { MergeContext } from '../../../../src/replay/cloud/summarize/merge-files.ts';
import type { PlannedGate } from '../../../../src/replay/cloud/work-bucket/stored-plan.ts';
import { nothingJudged, type Quality, ReplyQualityTally } from '../../../../src/replay/compare/quality.ts';
import { RunStats } from '../../../../src/replay/measure/run-stats.ts';
import { RetryableError } from '../../../../src/shared/errors.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

const BASELINE = 's3://work/replays/before';
const RESULTS = 'replays/before/results/';

/** A work bucket with an earlier replay that kept its replies. */
function withBaseline(sent = 3): MemoryStorage {
  const memory = new MemoryStorage();
  memory.put(`${RESULTS}profile_export.jsonl`, '{}\n');
  memory.put(`${RESULTS}replies.jsonl`, '{}\n');
  memory.put(`${RESULTS}replay.json`, { sent });
  return memory;
}

const plan = (
  gate: { baseline?: string; thresholds: string[]; zeroTolerance?: number },
  { compare = false, judge = false, memory = withBaseline() } = {},
) => planCloudGate({ gate, compare, ...(judge ? { judge: { budgetUsd: 1 } } : {}) }, memory.storage, 'work');

describe('planning', () => {
  test('finds the results of the baseline, however its location is written', async () => {
    const thresholds = ['request_latency:p95:10%', 'error_rate:1', 'newly_failing:1'];
    for (const end of ['', '/', '/results', '/results/']) {
      expect(await plan({ baseline: `${BASELINE}${end}`, thresholds })).toEqual({
        baseline: { location: `${BASELINE}/results/`, bytes: 16 },
        thresholds,
      });
    }
  });

  test('takes shares of pairs without a baseline: they are decided on the captured replies', async () => {
    const gate = {
      thresholds: ['regressed:2', 'newly_failing:0', 'new_refusals:1', 'judged_worse:5'],
      zeroTolerance: 2,
    };
    expect(await plan(gate, { compare: true, judge: true })).toEqual(gate);
  });

  const without = (name: string): MemoryStorage => {
    const memory = withBaseline();
    memory.objects.delete(`${RESULTS}${name}`);
    return memory;
  };
  const empty = withBaseline();
  empty.put(`${RESULTS}profile_export.jsonl`, '');

  test.each<[string, string, Parameters<typeof plan>, RegExp]>([
    ['an unknown threshold', 'InvalidThreshold', [{ thresholds: ['speed:1'] }], /got: speed:1; expected: metric:stat/],
    [
      'a metric without a baseline',
      'InvalidReplayInput',
      [{ thresholds: ['request_latency:p95:10%'] }],
      /needs gate\.baseline.*got: request_latency:p95:10%; expected: without a baseline: regressed, newly_failing/,
    ],
    ['an error rate without a baseline', 'InvalidReplayInput', [{ thresholds: ['error_rate:1'] }], /gate\.baseline/],
    ['a share of replies without compare', 'InvalidReplayInput', [{ thresholds: ['regressed:1'] }], /"compare": true/],
    [
      'the same with a baseline',
      'InvalidReplayInput',
      [{ baseline: BASELINE, thresholds: ['new_refusals:1'] }],
      /got: new_refusals:1; expected: "compare": true/,
    ],
    [
      'verdicts without a judge',
      'InvalidReplayInput',
      [{ thresholds: ['judged_worse:5'] }, { compare: true }],
      /needs the judge; got: judged_worse:5; expected: "judge": true/,
    ],
    ...['s3://elsewhere/replays/before', 's3://work/runs/before', 's3://work/replays', 'replays/before'].map(
      (baseline): [string, string, Parameters<typeof plan>, RegExp] => [
        `the baseline ${baseline}`,
        'BaselineNotAllowed',
        [{ baseline, thresholds: ['error_rate:1'] }],
        /expected: s3:\/\/work\/replays\/<execution>/,
      ],
    ),
    [
      'a baseline without results',
      'NotAReplay',
      [{ baseline: BASELINE, thresholds: ['error_rate:1'] }, { memory: new MemoryStorage() }],
      /no results of a replay; got: s3:\/\/work\/replays\/before/,
    ],
    [
      'a baseline without requests',
      'InvalidReplayInput',
      [{ baseline: BASELINE, thresholds: ['error_rate:1'] }, { memory: empty }],
      /no request/,
    ],
    [
      'a baseline without replies',
      'InvalidReplayInput',
      [
        { baseline: BASELINE, thresholds: ['regressed:1'] },
        { compare: true, memory: without('replies.jsonl') },
      ],
      /kept no replies; got: s3:\/\/work\/replays\/before; expected: .*"compare": true/,
    ],
    [
      'a baseline with too many requests',
      'GateTooLarge',
      [{ baseline: BASELINE, thresholds: ['error_rate:1'] }, { memory: withBaseline(1_000_001) }],
      /got: 1000001 requests, .*; expected: at most 500000 requests/,
    ],
  ])('refuses %s', async (_, name, args, message) => {
    await expect(plan(...args)).rejects.toMatchObject({ name, message: expect.stringMatching(message) });
  });
});

describe('the summary', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'gate-'));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  const NS = 1_795_233_124_000_000_000;
  const OWN = 'replays/own/results/';
  const MINUTE_MS = 60_000;

  /** Writes the results of a run; each request takes this long, and has this reply. */
  function results(
    memory: MemoryStorage,
    prefix: string,
    count: number,
    ms: (i: number) => number,
    text = 'same',
  ): void {
    const indices = Array.from({ length: count }, (_, i) => i);
    const line = (i: number) => ({ event_id: `e-${i}`, s3_key: 'a.jsonl', line: i + 1, pass: 0 });
    const records = indices.map((i) => ({
      metadata: { ...line(i), scheduled_ns: NS, request_end_ns: NS + ms(i) * 1e6 },
      metrics: { request_latency: { value: ms(i), unit: 'ms' } },
    }));
    const replies = indices.map((i) => ({
      ...{ key: `e-${i}:${i + 1}`, event_id: `e-${i}`, file: 'a.jsonl', line: i + 1, input: '' },
      reply: { ok: true, text },
    }));
    const lines = (values: object[]): string => `${values.map((value) => JSON.stringify(value)).join('\n')}\n`;
    memory.put(`${prefix}profile_export.jsonl`, lines(records));
    memory.put(`${prefix}replies.jsonl`, lines(replies));
    memory.put(`${prefix}replay.json`, { run: prefix.split('/')[1], sent: count });
  }

  /** Both runs have the same spread of latencies; those of the second are multiplied. */
  function twoRuns(count: number, slower: number, text?: string): MemoryStorage {
    const memory = new MemoryStorage();
    const ms = (i: number): number => 100 + ((i * 37) % 101);
    results(memory, RESULTS, count, ms);
    results(memory, OWN, count, (i) => slower * (ms(i) + ((i * 13) % 7) / 10), text);
    return memory;
  }

  function contextOf(memory: MemoryStorage, requests: number, gate: PlannedGate, stopped: boolean): MergeContext {
    const stats = new RunStats();
    stats.succeeded = requests;
    return {
      storage: memory.storage,
      bucket: 'work',
      prefix: OWN,
      plan: { run: 'own', gate },
      collected: { stats, files: new Map(), wasCancelled: stopped, ...(stopped ? { stop: { atMs: 0 } } : {}) },
      evaluations: nothingEvaluated(),
    } as unknown as MergeContext;
  }

  const GATE = { baseline: { location: `${BASELINE}/results/`, bytes: 1000 } };
  const decide = async (
    memory: MemoryStorage,
    requests: number,
    thresholds: string[],
    { quality, leftMs = MINUTE_MS, stopped = false, ...more }: Partial<Options> = {},
  ) => {
    const captured = quality && { quality, withoutCaptured: 0, regressions: [] };
    const gate = { ...GATE, thresholds, ...more };
    return decideReplayGate(gate, contextOf(memory, requests, gate, stopped), captured, directory, leftMs);
  };
  interface Options {
    quality: Quality;
    leftMs: number;
    stopped: boolean;
    baseline: undefined;
    zeroTolerance: number;
  }

  test.each([
    ['faster', 0.9, 'passed', 0],
    ['slower by a half', 1.5, 'failed', 1],
  ])('decides as the command line does, and writes the comparison: %s', async (_, slower, outcome, exitCode) => {
    const gate = await decide(twoRuns(200, slower), 200, ['request_latency:p50:10%', 'regressed:5']);
    expect(gate).toMatchObject({ outcome, exitCode });
    expect(gate.thresholds).toMatchObject([
      { threshold: 'request_latency:p50:10%', outcome, seen: 200, of: 200 },
      { threshold: 'regressed:5', outcome: 'passed', worse: 0 },
    ]);
    expect(gate.thresholds[0]?.worse).toBeCloseTo(100 * (slower - 1), 0);
    const written = JSON.parse(readFileSync(join(directory, 'comparison.json'), 'utf8')) as Record<string, unknown>;
    expect(written).toMatchObject({ gate, before: { run: 'before', requests: 200 }, after: { run: 'own' } });
    expect(readFileSync(join(directory, 'comparison.html'), 'utf8')).toContain('request_latency:p50:10%');
  });

  test('cannot tell with few requests, and says how many more', async () => {
    const gate = await decide(twoRuns(20, 1), 20, ['newly_failing:0']);
    expect(gate).toMatchObject({ outcome: 'cannot-tell', exitCode: 3, thresholds: [{ seen: 20, moreRequests: 280 }] });
    expect(await decide(twoRuns(20, 1), 20, ['newly_failing:0'], { zeroTolerance: 15 })).toMatchObject({ exitCode: 0 });
  });

  const judgedQuality = (pairs: number, worse: number, regressed: number): Quality => {
    const quality = new ReplyQualityTally().quality;
    const judged = { ...nothingJudged(), same: pairs - worse, worse };
    return { ...quality, compared: pairs, regressed, judged, comparable: { ...quality.comparable, differing: pairs } };
  };

  test('the judge’s verdicts are on the captured replies, also with a baseline, and the reason says so', async () => {
    const quality = judgedQuality(200, 60, 200);
    const thresholds = ['judged_worse:5', 'regressed:5'];
    const { outcome, thresholds: found } = await decide(twoRuns(200, 1), 200, thresholds, { quality });
    expect(outcome).toBe('failed');
    expect(found).toMatchObject([
      {
        outcome: 'failed',
        worse: 30,
        reason: expect.stringMatching(/The judge compared with the captured replies\.$/),
      },
      { outcome: 'passed', worse: 0, reason: expect.not.stringContaining('captured') },
    ]);
  });

  test('without a baseline, shares of pairs are those against the captured replies', async () => {
    const quality = judgedQuality(400, 0, 100);
    quality.status['newly-failing'] = 1;
    const thresholds = ['newly_failing:1', 'newly_failing:0', 'new_refusals:0', 'regressed:10', 'judged_worse:5'];
    const gate = await decide(new MemoryStorage(), 400, thresholds, { quality, baseline: undefined });
    const outcomes = gate.thresholds.map(({ outcome }) => outcome);
    expect(outcomes).toEqual(['cannot-tell', 'failed', 'passed', 'failed', 'passed']);
    expect(existsSync(join(directory, 'comparison.json'))).toBe(false);
    // Most captures have no reply.
    const few = await decide(new MemoryStorage(), 1000, ['new_refusals:0'], { quality, baseline: undefined });
    expect(few).toMatchObject({ outcome: 'cannot-tell', thresholds: [{ seen: 400, of: 1000 }] });
  });

  const deleted = new MemoryStorage();
  test.each<[string, MemoryStorage, Partial<Options>, RegExp]>([
    ['the baseline was deleted', deleted, {}, /^NotAReplay: The location has no results of a replay; got: s3:/],
    ['no time is left', twoRuns(200, 1), { leftMs: 0 }, /no time left to compare the runs/],
    ['the replay was stopped', twoRuns(200, 1), { stopped: true }, /was stopped/],
    ['no reply was compared', new MemoryStorage(), { baseline: undefined }, /No reply was compared/],
  ])('cannot tell, and does not fail, if %s', async (_, memory, options, reason) => {
    const gate = await decide(memory, 200, ['newly_failing:1', 'regressed:1'], options);
    const undecided = { outcome: 'cannot-tell', worse: null, reason: expect.stringMatching(reason) };
    expect(gate).toMatchObject({ outcome: 'cannot-tell', exitCode: 3, thresholds: [undecided, undecided] });
  });

  test('throws what a further attempt may not meet', async () => {
    const memory = twoRuns(20, 1);
    jest.spyOn(memory, 'head').mockRejectedValue(new RetryableError('StorageUnavailable', 'slow'));
    await expect(decide(memory, 20, ['error_rate:1'])).rejects.toMatchObject({ name: 'StorageUnavailable' });
  });
});

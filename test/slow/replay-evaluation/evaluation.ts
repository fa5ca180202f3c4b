/** Tests of EvaluateReplay when MLflow, the judge, the time or the budget ends halfway: nothing is lost, doubled or paid twice. */
import { replayKeys } from '../../../src/core/contract/work-keys.ts';
import type { RefusedTrace } from '../../../src/replay/publish/write-traces.ts';
import type { Behavior, SeenRequest } from '../../doubles/misbehaving-server.ts';
import { WORK } from '../../helpers/replay-cloud.ts';
import type { Comparison, Own } from '../../integration/replay-evaluation/replays.ts';
import {
  judgedOf,
  linkedTo,
  manyReplies,
  progressOf,
  traceIdsOf,
} from '../../integration/replay-evaluation/replays.ts';
import { all } from '../../integration/replay-evaluation/servers.ts';

describe('evaluating a cloud replay that is interrupted', () => {
  /** Returns plenty of time for this many calls, and then too little for another batch. */
  function timeFor(looks: number): () => number {
    let looked = 0;
    return () => (looked++ < looks ? 900_000 : 100_000);
  }

  test('neither loses nor duplicates a trace if MLflow fails halfway, and lists refused ones', async () => {
    const run = await manyReplies('halfway', 210, { mlflow: true });
    // The server refuses this trace because of its content.
    const refusing = ({ path, body }: SeenRequest): Behavior | undefined =>
      /\/traces$/.test(path) && body.includes('question number 7 of')
        ? { kind: 'reply', status: 400, body: '{"error_code":"BAD","message":"no"}' }
        : undefined;
    let isAway = false;
    all.mlflowProxy.rule((request) => {
      if (isAway) return { kind: 'reply', status: 503 };
      // The last of two requests that link the first batch.
      const linking = all.mlflowProxy.requests.filter(({ path }) => path.endsWith('/link-to-run'));
      isAway = linking.length === 2;
      return refusing(request);
    });
    await expect(run.evaluate(0)).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    expect(await progressOf(run, 0)).toMatchObject({ done: false, traces: { written: 199, refused: 1 } });
    // Without another call, the summary reports what is missing, and the MLflow run ends.
    expect(await run.summarize()).toMatchObject({
      ok: false,
      error: 'ReplayNotEvaluated',
      cause: expect.stringMatching(/^shards .*: 1 \(0\); first failure: MlflowUnavailable: /),
      publish: true,
    });
    expect(await run.result('report.html')).toContain('replies that are not judged or not in MLflow');
    all.mlflowProxy.rule(refusing);
    await run.publish();
    expect((await all.runsOf(run.name)).map(({ info }) => info.status)).toEqual(['FAILED']);

    expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 209, judged: 0 });
    expect(await run.summarize()).toMatchObject({ ok: true, publish: true });
    await run.publish();
    const [made] = await all.runsOf(run.name);
    expect(made?.info.status).toBe('FINISHED');
    expect(new Set(await traceIdsOf(run)).size).toBe(209);
    expect(await linkedTo(made?.info.run_id ?? '')).toBe(209);
    const refused = (await run.result('refused-traces.jsonl')).trim().split('\n');
    expect(refused.map((line) => JSON.parse(line) as RefusedTrace)).toEqual([
      expect.objectContaining({
        event_id: 'e7',
        line: 8,
        reason: { name: 'MlflowRefused', message: expect.any(String), words: expect.any(String) },
      }),
    ]);
    // On a busy machine, there may also be a remark about a late shard.
    expect((await run.json<Own>('replay.json')).remarks).toContain(
      'Traces that MLflow refused: 1, listed in refused-traces.jsonl',
    );
  });

  const pairOfCall = (body: Buffer): string => /question number \d+ of [a-z]+/.exec(body.toString())?.[0] ?? '';

  test('keeps verdicts if the judge fails halfway, counts them once, and does not ask again', async () => {
    const run = await manyReplies('throttled', 150, { judge: true });
    all.judgeProxy.rule((_, ordinal) =>
      ordinal < 200 ? undefined : { kind: 'reply', status: 429, body: '{"error":{"message":"slow down"}}' },
    );
    await expect(run.evaluate(0)).rejects.toMatchObject({ name: 'JudgeThrottled' });
    const kept = await progressOf(run, 0);
    const known = kept.pairs.judged.better;
    expect(known).toBeGreaterThan(64);
    expect(known).toBeLessThanOrEqual(100);
    expect(await all.paidUsd(run)).toBeCloseTo(kept.pairs.usd ?? 0, 6);
    const parts = await all.cloud.keys(replayKeys.evaluationPrefix(run.name, 0));
    expect(parts.sort()).toEqual(['failure.json', 'judged-000000.jsonl', 'judged-000001.jsonl', 'progress.json']);

    all.heal();
    expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 0, judged: 150 });
    // Asks about all other pairs in both orders, and about none that has a verdict.
    expect(all.judgeProxy.requests).toHaveLength(2 * (150 - known));
    expect(new Set(all.judgeProxy.requests.map(({ body }) => pairOfCall(body))).size).toBe(150 - known);
    expect(await run.summarize()).toMatchObject({ ok: true, publish: false });
    const found = await judgedOf(run);
    expect(new Set(found.map(({ key }) => key)).size).toBe(150);
    expect(found).toHaveLength(150);
    const { quality, judgeUsd } = await run.json<Comparison>('compare.json');
    expect(quality.judged).toMatchObject({ better: 150, failed: 0, overBudget: 0 });
    // One order of a pair may have been answered before the judge failed. It costs money too.
    expect(judgeUsd).toBeGreaterThanOrEqual(found.reduce((sum, { usd }) => sum + (usd ?? 0), 0) - 1e-9);
    expect(await all.paidUsd(run)).toBeCloseTo(judgeUsd ?? 0, 6);
  });

  test('asks about the last batch again after a crash before the save, and counts nothing twice', async () => {
    const run = await manyReplies('killed', 70, { judge: true });
    const { storage } = all.cloud;
    const putJson = storage.putJson.bind(storage);
    // The verdicts are written, but the progress that names them is not.
    storage.putJson = (bucket, key, value) =>
      key.endsWith('/progress.json') ? Promise.reject(new Error('killed')) : putJson(bucket, key, value);
    try {
      await expect(run.evaluate(0)).rejects.toThrow('killed');
    } finally {
      storage.putJson = putJson;
    }
    expect(all.judgeProxy.requests).toHaveLength(2 * 64);
    expect(await all.cloud.keys(replayKeys.evaluationPrefix(run.name, 0))).toContain('judged-000000.jsonl');
    expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 0, judged: 70 });
    expect(all.judgeProxy.requests).toHaveLength(2 * (64 + 70));
    expect(await run.summarize()).toMatchObject({ ok: true });
    const found = await judgedOf(run);
    expect(found).toHaveLength(70);
    expect(new Set(found.map(({ key }) => key)).size).toBe(70);
    // The budget also has the cost of the lost batch, which the report does not know.
    const { judgeUsd = 0 } = await run.json<Comparison>('compare.json');
    const each = judgeUsd / 70;
    expect(await all.paidUsd(run)).toBeGreaterThan(judgeUsd + 60 * each);
  });

  test('continues in the next call if time runs out', async () => {
    const run = await manyReplies('late', 210, { judge: true, mlflow: true });
    // There is time for one batch of traces.
    expect(await run.evaluate(0, timeFor(1))).toEqual({ done: false, shard: 0, traces: 200, judged: 0 });
    // There is time for the other traces and some pairs: time is checked before each pair.
    const second = await run.evaluate(0, timeFor(12));
    expect(second).toMatchObject({ done: false, traces: 210 });
    expect(second.judged).toBeGreaterThan(0);
    expect(second.judged).toBeLessThan(64);
    const asked = all.judgeProxy.requests.length;
    expect(asked).toBe(2 * second.judged);
    expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 210, judged: 210 });
    expect(all.judgeProxy.requests).toHaveLength(420);
    expect(await traceIdsOf(run)).toHaveLength(210);
    // Without time for a single step, another call would not help.
    const other = await manyReplies('hopeless', 3, { judge: true });
    await expect(other.evaluate(0, timeFor(0))).rejects.toMatchObject({ name: 'ChunkOutOfTime' });
  });

  test('does not ask about pairs above the budget, and reports them', async () => {
    const run = await manyReplies('poor', 40, { judge: true, judgeBudgetUsd: 0.02 });
    expect((await run.evaluate(0)).done).toBe(true);
    expect(await run.summarize()).toMatchObject({ ok: true });
    const { quality, judgeUsd = 0 } = await run.json<Comparison>('compare.json');
    const { better = 0, overBudget = 0 } = quality.judged ?? {};
    expect(better).toBeGreaterThan(0);
    expect(overBudget).toBeGreaterThan(0);
    expect(better + overBudget).toBe(40);
    expect(judgeUsd).toBeGreaterThan(0);
    expect(judgeUsd).toBeLessThanOrEqual(0.02);
    expect(await all.paidUsd(run)).toBeCloseTo(judgeUsd, 6);
    expect(await run.result('report.html')).toContain('not judged (over budget)');
  });

  test('writes the traces of a stopped replay, but stops judging', async () => {
    const run = await manyReplies('stopped', 70, { judge: true, mlflow: true });
    // The order comes during the first batch of pairs, which is completed.
    all.judgeProxy.rule((_, ordinal) =>
      ordinal === 0
        ? {
            kind: 'after',
            work: () => all.cloud.storage.putJson(WORK, replayKeys.stop(run.name), {}),
            next: { kind: 'pass' },
          }
        : undefined,
    );
    expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 70, judged: 64 });
    expect(all.judgeProxy.requests).toHaveLength(128);
    expect(await run.summarize()).toMatchObject({
      ok: false,
      error: 'ReplayCancelled',
      cause: expect.stringMatching(
        /^The replay was stopped at .*; shards with replies that are not judged or not in MLflow: 1 \(0\)/,
      ),
      publish: true,
    });
    await run.publish();
    expect((await all.runsOf(run.name)).map(({ info }) => info.status)).toEqual(['KILLED']);
    expect(await traceIdsOf(run)).toHaveLength(70);
    expect(await judgedOf(run)).toHaveLength(64);
  });
});

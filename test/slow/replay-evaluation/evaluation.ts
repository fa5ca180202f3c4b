/** Tests of judging a replay when MLflow, the judge or the budget ends halfway: nothing is lost, doubled or paid twice. */
import type { SeenRequest } from '../../doubles/misbehaving-server.ts';
import {
  linkedTo,
  manyReplies,
  preferences,
  traceIdsOf,
  tracesOf,
} from '../../integration/replay-evaluation/replays.ts';
import { all } from '../../integration/replay-evaluation/servers.ts';

const ENDED = { status: 'succeeded', lines: { lost: 0 }, verdicts: { lost: 0 } };

describe('a judged replay that is interrupted', () => {
  test('neither loses nor duplicates a trace if MLflow fails halfway, and quarantines refused ones', async () => {
    const run = await manyReplies('halfway', 210, { mlflow: true });
    // The server refuses this trace because of its content.
    const isRefused = ({ path, body }: SeenRequest): boolean =>
      /\/traces$/.test(path) && body.includes('question number 7 of');
    const refusal = { kind: 'reply', status: 400, body: '{"error_code":"BAD","message":"no"}' } as const;
    let posts = 0;
    all.mlflowProxy.rule((request) => {
      if (/\/traces$/.test(request.path)) posts++;
      if (posts > 100) return { kind: 'reply', status: 503 };
      return isRefused(request) ? refusal : undefined;
    });
    const first = await all.monitor(run);
    expect(first.error).toMatchObject({ name: 'MlflowUnavailable' });
    expect(first.summary.status).toBe('failed');
    const written = await traceIdsOf(run);
    expect(written.length).toBeGreaterThan(0);
    expect(written.length).toBeLessThan(209);

    all.mlflowProxy.rule((request) => (isRefused(request) ? refusal : undefined));
    const { error, summary } = await all.monitor(run, 1);
    expect(error).toBeUndefined();
    expect(summary).toMatchObject({ ...ENDED, lines: { planned: 210, traced: 209, written: 209, quarantined: 1 } });
    await run.publish();
    const [made] = await all.runsOf(run.name);
    expect(made?.info.status).toBe('FINISHED');
    expect(new Set(await traceIdsOf(run)).size).toBe(209);
    expect(await linkedTo(made?.info.run_id ?? '')).toBe(209);
    expect(await all.cloud.keys(`quarantine/replay-${run.name}/`)).toHaveLength(1);
  });

  test('pays each call once if the judge fails halfway, also that of a pair whose other order failed', async () => {
    const run = await manyReplies('throttled', 150, { judge: true });
    let answered = 0;
    all.judgeProxy.rule(() => {
      answered++;
      return answered <= 201 ? undefined : { kind: 'reply', status: 429, body: '{"error":{"message":"slow down"}}' };
    });
    const first = await all.monitor(run);
    expect(first.error).toMatchObject({ name: 'JudgeThrottled' });
    expect(first.summary.spend.calls).toBe(201);
    expect(await all.paidUsd(run)).toBeCloseTo(first.summary.spend.usd ?? 0, 6);
    const known = Object.values(preferences(await tracesOf(run.name))).flat().length;
    expect(known).toBeGreaterThan(64);
    expect(known).toBeLessThanOrEqual(100);

    all.heal();
    const { error, summary } = await all.monitor(run, 1);
    expect(error).toBeUndefined();
    // Two calls for each pair, over both attempts.
    expect(all.judgeProxy.requests).toHaveLength(300 - 201);
    expect(summary).toMatchObject({
      ...ENDED,
      spend: { calls: 300 },
      verdictsByScorer: { pairwise_preference: { better: 150 } },
    });
    expect(await all.paidUsd(run)).toBeCloseTo(summary.spend.usd ?? 0, 6);
    expect(Object.values(preferences(await tracesOf(run.name)))).toEqual(Array.from({ length: 150 }, () => ['better']));
  });

  test('does not ask about pairs above the budget, and reports them', async () => {
    const run = await manyReplies('poor', 40, { judge: true, judgeBudgetUsd: 0.02 });
    const { error, summary } = await all.monitor(run);
    expect(error).toBeUndefined();
    const { newVerdicts, heldByBudget } = summary.verdicts;
    expect(newVerdicts).toBeGreaterThan(0);
    expect(heldByBudget).toBeGreaterThan(0);
    expect(newVerdicts + heldByBudget).toBe(40);
    expect(summary.spend.usd).toBeGreaterThan(0);
    expect(summary.spend.usd).toBeLessThanOrEqual(0.02);
    expect(await all.paidUsd(run)).toBeCloseTo(summary.spend.usd ?? 0, 6);
    expect(await traceIdsOf(run)).toHaveLength(40);
  });

  test('a captured line that is gone costs the verdict of its pair alone', async () => {
    const run = await manyReplies('gone', 3, { judge: true });
    const key = 'my-endpoint/AllTraffic/2026/11/20/10/gone/00.jsonl';
    await all.cloud.storage.putText('captures', key, 'overwritten');
    const { error, summary } = await all.monitor(run);
    expect(error).toBeUndefined();
    expect(summary).toMatchObject({ ...ENDED, verdicts: { newVerdicts: 0, failed: 3, failedRecorded: 3 } });
    expect(all.judgeProxy.requests).toEqual([]);
    const errors = Object.values(await tracesOf(run.name)).map(({ assessments: [one] }) => one?.error);
    expect(errors).toEqual(Array.from({ length: 3 }, () => expect.objectContaining({ code: 'CaptureChanged' })));
  });
});

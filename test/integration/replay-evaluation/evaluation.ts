/** Tests of EvaluateReplay, SummarizeReplay and PublishReplay with a judge and MLflow. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { replayKeys } from '../../../src/contract/work-keys.ts';
import { logChunk } from '../../../src/monitoring/log/log-chunk.ts';
import type { EvaluationProgress } from '../../../src/replay/cloud/evaluate/progress.ts';
import type { RefusedTrace } from '../../../src/replay/publish/write-traces.ts';
import type { Behavior, SeenRequest } from '../../doubles/misbehaving-server.ts';
import { chunkOf } from '../../helpers/chunk-request.ts';
import { fetchOnNewConnection } from '../../helpers/new-connection.ts';
import { chatLine, readLines, runCli } from '../../helpers/replay.ts';
import { CAPTURES, type CloudRun, WORK } from '../../helpers/replay-cloud.ts';
import { JUDGE_MODEL, JUDGE_PRICES } from '../../helpers/replay-evaluation.ts';
import { all, TEST_MS } from './servers.ts';

const IN_TIME_MS = 5_000;

interface Judged {
  key: string;
  request_id: string;
  captured_trace_id?: string;
  event_id: string;
  verdict: string;
  rationales: string[];
  usd: number;
}
interface Comparison {
  quality: { judged?: Record<string, number>; regressions: Record<string, number>; regressed: number };
  regressions: { eventId: string; requestId: string; file: string; regressions: string[]; rationale?: string }[];
  judgeUsd?: number;
  withoutCaptured: number;
}
interface Own {
  mlflow: { experiment: string; run_id: string; traces: number; refused: number; linked: boolean };
  judge: { model: string; budget_usd: number; usd: number; judged: Record<string, number> };
  unevaluated_shards: { shard: number; failure?: { name: string } }[];
  remarks: string[];
}

const source = (name: string) => ({ prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}/` });
const put = (name: string, lines: readonly string[]): Promise<string> => all.cloud.put(`${name}/00`, lines);
const judgedLines = async (run: CloudRun): Promise<Judged[]> =>
  (await run.result('judged.jsonl'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Judged);
const progressOf = async (run: CloudRun, shard: number): Promise<EvaluationProgress> =>
  JSON.parse(
    await all.cloud.text(`${replayKeys.evaluationPrefix(run.name, shard)}progress.json`),
  ) as EvaluationProgress;
const linkedTo = async (runId: string): Promise<number> => {
  const id = await all.experimentId('my-endpoint-replays');
  const found = await all.reader.find(id, `attributes.run_id = '${runId}'`);
  return found.length;
};
const tracesOf = async (run: CloudRun): Promise<string[]> =>
  all.reader.find(await all.experimentId('my-endpoint-replays'), `tag.replay_run = '${run.name}'`);

/** Logs the first lines of a capture file as the monitoring does. */
async function monitor(key: string, count: number): Promise<void> {
  const { storage, settings: environment } = all.cloud;
  const { id: experimentId } = await all.client.resolveExperiment('my-endpoint');
  const object = await storage.head(CAPTURES, key);
  const { bucket = '', etag = '', size = 0 } = object ?? {};
  const place = { bucket, key, etag, start: 0, end: size - 1, firstLine: 1, lines: count, objectTimeMs: 0 };
  const options = { evaluate: false, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
  await logChunk(
    { run: 'monitoring', chunk: chunkOf([place], { experimentId }), options, attempt: 0 },
    { storage, store: all.client, environment, requestId: 'r' },
  );
}

/** Pairs that differ: the new reply has all words of the request, or none of them. */
const lines = [
  chatLine('better', 0, 'Where is parcel 8841 today?', 'No idea.'),
  chatLine('worse', 0, 'Tell me the secret colour of parcels', 'The secret colour of parcels is blue.'),
  chatLine('same', 1, 'Hello', 'You asked: Hello'),
  chatLine('equal', 1, 'What secret?', 'Unknown.'),
  chatLine('failing', 2, '[[status 500]]', 'Fine.'),
  // A line may end with CR LF.
  `${chatLine('stream', 2, 'Which bicycle is fast?', 'x', { stream: true })}\r`,
];

describe('evaluating a cloud replay', () => {
  describe('a replay of three shards with the judge and MLflow', () => {
    let run: CloudRun;
    beforeAll(async () => {
      all.heal();
      await monitor(await put('whole', lines), lines.length);
      run = all.cloud.run({
        source: source('whole'),
        target: { url: all.endpoint.url },
        judge: true,
        mlflow: true,
        maxErrorRate: 50,
        shard: { seconds: 1 },
      });
      expect(await run.plan(IN_TIME_MS)).toMatchObject({ outcome: 'planned', shards: 3, evaluate: true });
      expect((await all.runsOf(run.name)).map(({ info }) => info.status)).toEqual(['RUNNING']);
      await run.replay(3);
      await all.evaluateAll(run, 3);
      expect(await run.summarize()).toMatchObject({ ok: true, publish: true });
    }, TEST_MS);

    test(
      'has an MLflow run with figures, parameters and files, and traces linked to the captured ones',
      async () => {
        const published = await run.publish();
        const [made, ...others] = await all.runsOf(run.name);
        expect(others).toEqual([]);
        expect(published).toEqual({
          experiment: { id: await all.experimentId('my-endpoint-replays'), name: 'my-endpoint-replays' },
          runId: made?.info.run_id,
          leftOut: [],
        });
        expect(made?.info).toMatchObject({ run_name: run.name, status: 'FINISHED' });
        expect(made?.info.end_time).toBeGreaterThan(0);
        const metrics = Object.fromEntries((made?.data.metrics ?? []).map(({ key, value }) => [key, value]));
        expect(metrics).toMatchObject({
          request_count: 5,
          error_request_count: 1,
          replies_compared: 6,
          replies_newly_failing: 1,
          judged_better: 2,
          judged_worse: 1,
          judged_same: 1,
        });
        expect(metrics.request_latency_p50).toBeGreaterThan(4);
        const params = Object.fromEntries((made?.data.params ?? []).map(({ key, value }) => [key, value]));
        expect(params).toEqual({ target_kind: 'url', target_url: all.endpoint.url, maxErrorRate: '50' });
        const tags = Object.fromEntries((made?.data.tags ?? []).map(({ key, value }) => [key, value]));
        expect(tags).toMatchObject({ replay_run: run.name, replay_execution: expect.stringContaining(`:${run.name}`) });

        const listed = await all.api<{ files: { path: string; file_size: number }[] }>(
          `2.0/mlflow/artifacts/list?run_id=${made?.info.run_id}`,
        );
        expect(listed.files.map(({ path }) => path).sort()).toEqual((await run.results()).sort());
        const report = await fetchOnNewConnection(
          `${all.mlflow.url}/get-artifact?path=report.html&run_uuid=${made?.info.run_id}`,
        );
        expect(await report.text()).toBe(await run.result('report.html'));

        // As MLflow's own client reads them.
        const id = await all.experimentId('my-endpoint-replays');
        const traces = await all.reader.search(id, `tag.replay_run = '${run.name}'`);
        const byEvent = Object.fromEntries(traces.map((trace) => [trace.tags.event_id, trace]));
        expect(traces).toHaveLength(6);
        // The traces that the monitoring wrote for the same lines.
        const captured = await all.reader.search(await all.experimentId('my-endpoint'));
        expect(captured.map(({ tags: { event_id: event } }) => event).sort()).toEqual(Object.keys(byEvent).sort());
        for (const { traceId, tags: its } of captured) {
          const event = its.event_id ?? '';
          expect(byEvent[event]?.tags).toMatchObject({
            replay_run: run.name,
            captured_trace_id: traceId,
            turn_index: '0',
          });
          expect(byEvent[event]?.executionDurationMs).toBeGreaterThan(3);
          expect(byEvent[event]?.spans.length).toBeGreaterThan(0);
        }
        expect(byEvent.better).toMatchObject({
          state: 'OK',
          responsePreview: 'You asked: Where is parcel 8841 today?',
        });
        expect(byEvent.stream).toMatchObject({ state: 'OK', responsePreview: 'You asked: Which bicycle is fast?' });
        expect(byEvent.failing).toMatchObject({ state: 'ERROR', tags: { status_code: '500' } });
        expect(await linkedTo(made?.info.run_id ?? '')).toBe(6);
      },
      TEST_MS,
    );

    test(
      'has the same verdicts and comparison as the command line',
      async () => {
        const folder = mkdtempSync(join(tmpdir(), 'replay-evaluation-'));
        try {
          const file = join(folder, '00.jsonl');
          writeFileSync(file, `${lines.join('\n')}\n`);
          const out = join(folder, 'out');
          const { code, stderr } = await runCli(
            ['replay', file, '--url', all.endpoint.url, '--quiet', '--judge', '--judge-model', JUDGE_MODEL, '-o', out],
            {
              JUDGE_BASE_URL: `${all.standIn.url}/v1`,
              JUDGE_API_KEY: 'k',
              JUDGE_PRICES,
              DOTENV_CONFIG_PATH: join(folder, 'none'),
            },
          );
          expect([code, stderr]).toEqual([0, '']);
          // Request ids differ between runs, and only the run with MLflow has ids of captured traces.
          const byKey = (found: Judged[]) =>
            found
              .map(({ request_id: _request, captured_trace_id: _captured, ...judged }) => judged)
              .toSorted((a, b) => a.key.localeCompare(b.key));
          const ours = byKey(await judgedLines(run));
          expect(ours).toEqual(byKey(readLines<Judged>(join(out, 'judged.jsonl'))));
          expect(ours.map(({ event_id, verdict }) => [event_id, verdict])).toEqual(
            expect.arrayContaining([
              ['better', 'better'],
              ['worse', 'worse'],
              ['equal', 'same'],
              ['stream', 'better'],
            ]),
          );
          const theirs = JSON.parse(readFileSync(join(out, 'compare.json'), 'utf8')) as Comparison;
          const comparison = await run.json<Comparison>('compare.json');
          expect(comparison.quality).toEqual(theirs.quality);
          expect(comparison.quality.judged).toMatchObject({ better: 2, worse: 1, same: 1, overBudget: 0, failed: 0 });
          expect(comparison.judgeUsd).toBeCloseTo(theirs.judgeUsd ?? Number.NaN, 9);
          expect(Object.keys(comparison).sort()).toEqual(Object.keys(theirs).sort());
          const rows = ({ regressions }: Comparison) =>
            regressions.map(({ file: _file, requestId: _request, ...row }) => row);
          expect(rows(comparison)).toEqual(rows(theirs));
          const sent = new Map((await run.records()).map(({ metadata }) => [metadata.x_request_id, metadata.event_id]));
          for (const { eventId, requestId } of comparison.regressions) expect(sent.get(requestId)).toBe(eventId);
          const worse = comparison.regressions.find(({ eventId }) => eventId === 'worse');
          expect(worse?.regressions).toContain('judged-worse');
          expect(await run.result('report.html')).toContain(worse?.rationale ?? 'no rationale');
          const own = await run.json<Own>('replay.json');
          expect(own).toMatchObject({
            mlflow: { experiment: 'my-endpoint-replays', traces: 6, refused: 0, linked: true },
            judge: { model: JUDGE_MODEL, budget_usd: 20, judged: { better: 2, worse: 1, same: 1 } },
            unevaluated_shards: [],
          });
          expect(own.remarks.filter((line) => !line.includes('started late'))).toEqual([]);
          expect(own.judge.usd).toBeGreaterThan(0);
          expect(await all.paidUsd(run)).toBeCloseTo(own.judge.usd, 6);
        } finally {
          rmSync(folder, { recursive: true });
        }
      },
      TEST_MS,
    );

    test(
      'does not change if a step is repeated',
      async () => {
        const paid = await all.paidUsd(run);
        const before = await judgedLines(run);
        const [made] = await all.runsOf(run.name);
        // As after a crash before the first save: the traces exist already.
        const key = `${replayKeys.evaluationPrefix(run.name, 0)}progress.json`;
        await all.cloud.storage.putJson(WORK, key, {
          ...(await progressOf(run, 0)),
          done: false,
          traces: { offset: 0, written: 0, refused: 0, linked: true },
        });
        expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 2, judged: 2 });
        expect(await run.evaluate(1)).toEqual({ done: true, shard: 1, traces: 2, judged: 1 });
        expect(await all.paidUsd(run)).toBe(paid);
        await run.summarize();
        await run.publish();
        await run.publish();
        expect(await judgedLines(run)).toEqual(before);
        expect(await tracesOf(run)).toHaveLength(6);
        expect(await linkedTo(made?.info.run_id ?? '')).toBe(6);
        const again = await all.runsOf(run.name);
        expect(again).toHaveLength(1);
        expect(again[0]?.info.status).toBe('FINISHED');
        expect(again[0]?.data.metrics?.length).toBe(made?.data.metrics?.length);
      },
      TEST_MS,
    );
  });

  /** Plans and sends a replay of many small requests with one shard. */
  async function manyReplies(name: string, count: number, input: object): Promise<CloudRun> {
    await put(
      name,
      Array.from({ length: count }, (_, i) => chatLine(`e${i}`, 0, `question number ${i} of ${name}`, 'No.')),
    );
    const run = all.cloud.run({
      source: source(name),
      target: { url: all.endpoint.url },
      concurrency: 32,
      ...input,
    });
    expect((await run.plan(0)).shards).toBe(1);
    expect((await run.shard(0)).failed).toBe(0);
    return run;
  }

  /** Returns plenty of time for this many calls, and then too little for another batch. */
  function timeFor(looks: number): () => number {
    let looked = 0;
    return () => (looked++ < looks ? 900_000 : 100_000);
  }

  test(
    'neither loses nor duplicates a trace if MLflow fails halfway, and lists refused ones',
    async () => {
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
      expect(new Set(await tracesOf(run)).size).toBe(209);
      expect(await linkedTo(made?.info.run_id ?? '')).toBe(209);
      const refused = (await run.result('refused-traces.jsonl')).trim().split('\n');
      expect(refused.map((line) => JSON.parse(line) as RefusedTrace)).toEqual([
        expect.objectContaining({
          event_id: 'e7',
          line: 8,
          reason: { name: 'MlflowRefused', message: expect.any(String) },
        }),
      ]);
      // On a busy machine, there may also be a remark about a late shard.
      expect((await run.json<Own>('replay.json')).remarks).toContain(
        'Traces that MLflow refused: 1, listed in refused-traces.jsonl',
      );
    },
    TEST_MS,
  );

  const pairOfCall = (body: Buffer): string => /question number \d+ of [a-z]+/.exec(body.toString())?.[0] ?? '';

  test(
    'keeps verdicts if the judge fails halfway, counts them once, and does not ask again',
    async () => {
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
      const found = await judgedLines(run);
      expect(new Set(found.map(({ key }) => key)).size).toBe(150);
      expect(found).toHaveLength(150);
      const { quality, judgeUsd } = await run.json<Comparison>('compare.json');
      expect(quality.judged).toMatchObject({ better: 150, failed: 0, overBudget: 0 });
      // One order of a pair may have been answered before the judge failed. It costs money too.
      expect(judgeUsd).toBeGreaterThanOrEqual(found.reduce((sum, { usd }) => sum + usd, 0) - 1e-9);
      expect(await all.paidUsd(run)).toBeCloseTo(judgeUsd ?? 0, 6);
    },
    TEST_MS,
  );

  test(
    'asks about the last batch again after a crash before the save, and counts nothing twice',
    async () => {
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
      const found = await judgedLines(run);
      expect(found).toHaveLength(70);
      expect(new Set(found.map(({ key }) => key)).size).toBe(70);
      // The budget also has the cost of the lost batch, which the report does not know.
      const { judgeUsd = 0 } = await run.json<Comparison>('compare.json');
      const each = judgeUsd / 70;
      expect(await all.paidUsd(run)).toBeGreaterThan(judgeUsd + 60 * each);
    },
    TEST_MS,
  );

  test(
    'continues in the next call if time runs out',
    async () => {
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
      expect(await tracesOf(run)).toHaveLength(210);
      // Without time for a single step, another call would not help.
      const other = await manyReplies('hopeless', 3, { judge: true });
      await expect(other.evaluate(0, timeFor(0))).rejects.toMatchObject({ name: 'ChunkOutOfTime' });
    },
    TEST_MS,
  );

  test(
    'does not ask about pairs above the budget, and reports them',
    async () => {
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
    },
    TEST_MS,
  );

  test(
    'evaluates nothing for lost shards, and ends the MLflow run even if all are lost',
    async () => {
      const input = {
        source: source('lost'),
        target: { url: all.endpoint.url },
        mlflow: true,
        judge: true,
        shard: { seconds: 1 },
      };
      await put('lost', [chatLine('a', 0, 'one'), chatLine('b', 1, 'two')]);
      const half = all.cloud.run(input);
      await half.plan(0);
      await half.shard(0);
      expect(await half.evaluate(1)).toEqual({ done: true, shard: 1, traces: 0, judged: 0 });
      expect(await half.evaluate(0)).toEqual({ done: true, shard: 0, traces: 1, judged: 1 });
      expect(await half.summarize()).toMatchObject({ ok: false, error: 'ReplayIncomplete', publish: true });
      expect((await half.json<Own>('replay.json')).unevaluated_shards).toEqual([]);
      await half.publish();
      const gone = all.cloud.run(input);
      await gone.plan(0);
      await all.evaluateAll(gone, 2);
      expect(await gone.summarize({ Error: 'States.Runtime', Cause: 'x' })).toMatchObject({
        ok: false,
        error: 'ReplayIncomplete',
        publish: true,
      });
      await gone.publish();
      for (const run of [half, gone]) {
        const [made] = await all.runsOf(run.name);
        expect(made?.info).toMatchObject({ status: 'FAILED', end_time: expect.any(Number) });
      }
    },
    TEST_MS,
  );

  test(
    'writes the traces of a stopped replay, but stops judging',
    async () => {
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
      expect(await tracesOf(run)).toHaveLength(70);
      expect(await judgedLines(run)).toHaveLength(64);
    },
    TEST_MS,
  );

  describe('planning', () => {
    test(
      'creates one run if it is repeated, also with an apostrophe in the name and another experiment',
      async () => {
        await put('twice', [chatLine('a', 0, 'one')]);
        const name = "o'clock-7";
        const input = {
          source: source('twice'),
          target: { url: all.endpoint.url },
          mlflow: true,
          experiment: 'elsewhere',
        };
        const run = all.cloud.run(input, {}, name);
        await run.plan(0);
        const first = (await run.stored()).mlflow;
        await run.plan(0);
        expect((await run.stored()).mlflow).toEqual(first);
        const runs = await all.runsOf(name, 'elsewhere');
        expect(runs.map(({ info }) => [info.run_id, info.status])).toEqual([[first?.runId, 'RUNNING']]);
      },
      TEST_MS,
    );

    test(
      'fails before sending if MLflow is unavailable, the judge’s price is unknown or its model has ended',
      async () => {
        await put('nothing', [chatLine('a', 0, 'one')]);
        const input = { source: source('nothing'), target: { url: all.endpoint.url } };
        const runs = ['a', 'b', 'c', 'd'].map((name, i) =>
          all.cloud.run({ ...input, ...(i === 0 ? { mlflow: true } : { judge: true }) }, {}, `nothing-${name}`),
        );
        all.mlflowProxy.rule(() => ({ kind: 'cut' }));
        await expect(runs[0]?.plan(0)).rejects.toMatchObject({ name: 'MlflowUnavailable' });
        const { settings, checkJudgeModel } = all.cloud;
        try {
          all.cloud.settings = { ...settings, JUDGE_PRICES: {} };
          await expect(runs[1]?.plan(0)).rejects.toMatchObject({ name: 'JudgePriceUnknown' });
          all.cloud.settings = settings;
          all.cloud.checkJudgeModel = async () => ({
            model: 'm',
            state: 'ended',
            level: 'error',
            message: 'm is gone.',
          });
          await expect(runs[2]?.plan(0)).rejects.toMatchObject({ name: 'JudgeModelGone' });
          all.cloud.checkJudgeModel = async () => ({
            model: 'm',
            state: 'legacy',
            level: 'warning',
            message: 'm ends.',
          });
          await runs[3]?.plan(0);
          expect((await runs[3]?.stored())?.judge).toEqual({ model: JUDGE_MODEL, budgetUsd: 20, warning: 'm ends.' });
        } finally {
          Object.assign(all.cloud, { settings, checkJudgeModel });
        }
        for (const run of runs.slice(0, 3)) expect(await all.cloud.keys(replayKeys.prefix(run.name))).toEqual([]);
        expect(all.endpoint.requests).toEqual([]);
      },
      TEST_MS,
    );

    test(
      'creates no run for a dry run or an empty replay',
      async () => {
        await put('dry', [chatLine('a', 0, 'one')]);
        const input = { target: { url: all.endpoint.url }, mlflow: true, judge: true };
        const dry = all.cloud.run({ ...input, source: source('dry'), dryRun: true });
        expect(await dry.plan(0)).toMatchObject({ outcome: 'dryRun', evaluate: false });
        const empty = all.cloud.run({ ...input, source: source('dry'), startOffsetMs: 5000 });
        expect(await empty.plan(0)).toMatchObject({ outcome: 'empty', evaluate: false });
        expect(await empty.summarize()).toMatchObject({ publish: false });
        for (const run of [dry, empty]) expect(await all.runsOf(run.name)).toEqual([]);
      },
      TEST_MS,
    );

    test(
      'ends the run if it fails, and reuses it in a retry',
      async () => {
        await put('fails', [chatLine('a', 0, 'one')]);
        const run = all.cloud.run({ source: source('fails'), target: { url: all.endpoint.url }, mlflow: true });
        const { storage } = all.cloud;
        const putJson = storage.putJson.bind(storage);
        storage.putJson = (bucket, key, value) =>
          key.endsWith('/plan.json') ? Promise.reject(new Error('no disk')) : putJson(bucket, key, value);
        try {
          await expect(run.plan(0)).rejects.toThrow('no disk');
        } finally {
          storage.putJson = putJson;
        }
        expect((await all.runsOf(run.name)).map(({ info }) => info.status)).toEqual(['FAILED']);
        // A retry uses the same run.
        await run.plan(0);
        expect((await all.runsOf(run.name)).map(({ info }) => info.status)).toEqual(['RUNNING']);
      },
      TEST_MS,
    );
  });

  test('names a missing plan or summary and invalid options', async () => {
    const run = all.cloud.run({});
    await expect(run.evaluate(0)).rejects.toMatchObject({ name: 'ReplayNotPlanned' });
    await expect(run.publish()).rejects.toMatchObject({ name: 'ReplayNotSummarized' });
    await expect(all.cloud.run({ target: { url: all.endpoint.url }, judgeBudgetUsd: 1 }).plan(0)).rejects.toMatchObject(
      {
        name: 'InvalidReplayInput',
        message: expect.stringContaining('judgeBudgetUsd'),
      },
    );
    await expect(all.cloud.run({ target: { url: all.endpoint.url }, experiment: 'x' }).plan(0)).rejects.toMatchObject({
      name: 'InvalidReplayInput',
      message: expect.stringContaining('experiment'),
    });
  });
});

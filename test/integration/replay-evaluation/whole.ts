/** Tests of a replay with a judge and MLflow, from its plan to its report: the functions, and the run of the monitoring that they start. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SummarizeReplayResult } from '../../../src/core/contract/replay.ts';
import { replayKeys } from '../../../src/core/contract/work-keys.ts';
import { logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import type { JudgedReply } from '../../../src/replay/compare/judge-replies.ts';
import { memoryWriting } from '../../doubles/memory-table.ts';
import { chunkOf } from '../../helpers/chunk-request.ts';
import { fetchOnNewConnection } from '../../helpers/new-connection.ts';
import { chatLine, readLines, runCli } from '../../helpers/replay.ts';
import { CAPTURES, type CloudRun } from '../../helpers/replay-cloud.ts';
import { JUDGE_MODEL, JUDGE_PRICES } from '../../helpers/replay-evaluation.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';
import {
  type Comparison,
  linkedTo,
  type Own,
  preferences,
  put,
  REPLAYS,
  source,
  traceIdsOf,
  tracesOf,
} from './replays.ts';
import { all } from './servers.ts';

const IN_TIME_MS = 5_000;

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
    { storage, store: all.client, environment, requestId: 'r', ...memoryWriting() },
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
    let spentUsd = 0;
    let summarized: SummarizeReplayResult;
    beforeAll(async () => {
      all.heal();
      await monitor(await put('whole', lines), lines.length);
      run = all.cloud.run({
        source: source('whole'),
        target: { url: all.endpoint.url },
        judge: true,
        maxErrorRate: 50,
        shard: { seconds: 1 },
      });
      expect(await run.plan(IN_TIME_MS)).toMatchObject({ outcome: 'planned', shards: 3 });
      expect((await all.runsOf(run.name)).map(({ info }) => info.status)).toEqual(['RUNNING']);
      await run.replay(3);
      const monitoringRun = `replay-${run.name}`;
      summarized = await run.summarize();
      expect(summarized).toMatchObject({ ok: true, monitoringRun });
      expect(all.cloud.started.get(monitoringRun)).toEqual({
        replay: { run: run.name, experimentId: await all.experimentId(REPLAYS) },
        evaluate: true,
        budgetUsd: 20,
      });
      const { error, summary } = await all.monitor(run);
      expect([error, summary.status]).toEqual([undefined, 'succeeded']);
      // The other two say the same as the captured replies, or failed.
      expect(summary).toMatchObject({
        lines: { planned: 6, traced: 6 },
        verdicts: { expected: 6, newVerdicts: 4, notJudgeable: 2 },
        reasons: { nothingToCompare: 1, errorReply: 1 },
        verdictsByScorer: { pairwise_preference: { better: 2, same: 1, worse: 1 } },
        spend: { calls: 8 },
      });
      spentUsd = summary.spend.usd ?? 0;
    });

    test('has an MLflow run with figures, parameters and files, and traces linked to the captured ones', async () => {
      const [made, ...others] = await all.runsOf(run.name);
      expect(others).toEqual([]);
      expect(summarized.mlflow).toEqual({
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
      });
      expect(metrics.request_latency_p50).toBeGreaterThan(4);
      const params = Object.fromEntries((made?.data.params ?? []).map(({ key, value }) => [key, value]));
      expect(params).toEqual({ target_kind: 'url', target_url: all.endpoint.url, maxErrorRate: '50' });
      const tags = Object.fromEntries((made?.data.tags ?? []).map(({ key, value }) => [key, value]));
      expect(tags).toMatchObject({ replay_run: run.name, replay_execution: expect.stringContaining(`:${run.name}`) });

      expect(await all.filesOf(made)).toEqual((await run.results()).sort());
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
    });

    test('has the same verdicts and comparison as the command line', async () => {
      const folder = temporaryFolder('replay-evaluation-');
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
      const theirs = readLines<JudgedReply>(join(out, 'judged.jsonl'));
      const verdicts = theirs.map(({ event_id = '', verdict, rationale, usd }) => [
        event_id,
        verdict,
        rationale,
        String(usd),
      ]);
      const ours = Object.entries(await tracesOf(run.name)).flatMap(([event, { assessments }]) =>
        assessments.map(({ value, rationale, metadata }) => [
          event,
          value,
          rationale,
          metadata['mlflow.assessment.judgeCost'],
        ]),
      );
      expect(ours.sort()).toEqual(verdicts.sort());
      expect(preferences(await tracesOf(run.name))).toEqual({
        ...{ better: ['better'], worse: ['worse'], equal: ['same'], stream: ['better'], same: [], failing: [] },
      });
      const other = JSON.parse(readFileSync(join(out, 'compare.json'), 'utf8')) as Comparison;
      const comparison = await run.json<Comparison>('compare.json');
      const { judged, regressed: _, regressions: __, ...quality } = other.quality;
      expect(comparison.quality).toMatchObject(quality);
      expect(judged).toMatchObject({ better: 2, worse: 1, same: 1, overBudget: 0, failed: 0 });
      expect(spentUsd).toBeCloseTo(other.judgeUsd ?? Number.NaN, 9);
      expect(await all.paidUsd(run)).toBeCloseTo(spentUsd, 6);
      const sent = new Map((await run.records()).map(({ metadata }) => [metadata.x_request_id, metadata.event_id]));
      for (const { eventId, requestId } of comparison.regressions) expect(sent.get(requestId)).toBe(eventId);
      const own = await run.json<Own>('replay.json');
      expect(own).toMatchObject({
        mlflow: { experiment: 'my-endpoint-replays' },
        judge: { model: JUDGE_MODEL, budget_usd: 20 },
        monitoring_run: {
          name: `replay-${run.name}`,
          verdicts: `s3://work/replays/${run.name}/verdicts/`,
        },
      });
      expect(own.remarks.filter((line) => !line.includes('started late'))).toEqual([]);
    });

    test('does not change if a step is repeated', async () => {
      const paid = await all.paidUsd(run);
      const before = await tracesOf(run.name);
      const [made] = await all.runsOf(run.name);
      all.judgeProxy.requests.length = 0;
      const { error, summary } = await all.monitor(run, 1);
      expect([error, summary.status]).toEqual([undefined, 'succeeded']);
      expect(all.judgeProxy.requests).toEqual([]);
      expect(await all.paidUsd(run)).toBe(paid);
      await run.summarize();
      await run.ended('FAILED');
      expect(await tracesOf(run.name)).toEqual(before);
      expect(await traceIdsOf(run)).toHaveLength(6);
      expect(await linkedTo(made?.info.run_id ?? '')).toBe(6);
      const again = await all.runsOf(run.name);
      expect(again).toHaveLength(1);
      expect(again[0]?.info.status).toBe('FINISHED');
      expect(again[0]?.data.metrics?.length).toBe(made?.data.metrics?.length);
    });

    test('counts in no rate, objective or prediction', async () => {
      const receipts = await all.cloud.keys(`runs/replay-${run.name}/receipts/`);
      expect(receipts.length).toBeGreaterThan(0);
      for (const key of receipts) {
        const receipt = JSON.parse(await all.cloud.text(`runs/replay-${run.name}/receipts/${key}`)) as object;
        expect(receipt).not.toHaveProperty('quality');
        expect(receipt).not.toHaveProperty('failures');
      }
      expect(await all.cloud.keys('counts/')).toEqual([]);
      // That of the captures.
      expect(await all.cloud.keys('ledger/inferences/')).toHaveLength(1);
    });
  });

  describe('planning', () => {
    test('creates one run if it is repeated, also with an apostrophe in the name and another experiment', async () => {
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
    });

    test('fails before sending if MLflow is unavailable, the judge’s price is unknown or its model has ended', async () => {
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
        all.heal();
        await runs[3]?.plan(0);
        expect((await runs[3]?.stored())?.judge).toEqual({ model: JUDGE_MODEL, budgetUsd: 20, warning: 'm ends.' });
      } finally {
        Object.assign(all.cloud, { settings, checkJudgeModel });
      }
      for (const run of runs.slice(0, 3)) expect(await all.cloud.keys(replayKeys.prefix(run.name))).toEqual([]);
      expect(all.endpoint.requests).toEqual([]);
    });

    test('creates no run for a dry run or an empty replay', async () => {
      await put('dry', [chatLine('a', 0, 'one')]);
      const input = { target: { url: all.endpoint.url }, mlflow: true, judge: true };
      const dry = all.cloud.run({ ...input, source: source('dry'), dryRun: true });
      expect(await dry.plan(0)).toMatchObject({ outcome: 'dryRun' });
      const empty = all.cloud.run({ ...input, source: source('dry'), fixedScheduleStartOffset: 5000 });
      expect(await empty.plan(0)).toMatchObject({ outcome: 'empty' });
      expect(await empty.summarize()).not.toHaveProperty('mlflow');
      for (const run of [dry, empty]) expect(await all.runsOf(run.name)).toEqual([]);
    });

    test('ends the run if it fails, and reuses it in a retry', async () => {
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
    });
  });

  test('names a missing plan', async () => {
    await expect(all.cloud.run({}).shard(0)).rejects.toMatchObject({ name: 'ReplayNotPlanned' });
  });
});

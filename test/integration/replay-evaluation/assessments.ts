/** Tests of the judge's verdicts on the traces of replayed requests. */
import { join } from 'node:path';
import { replayKeys } from '../../../src/contract/work-keys.ts';
import type { EvaluationProgress } from '../../../src/replay/cloud/evaluate/progress.ts';
import type { JudgedReply } from '../../../src/replay/compare/judge-replies.ts';
import { traceIdOf } from '../../../src/trace/ids.ts';
import type { Behavior } from '../../doubles/misbehaving-server.ts';
import type { ReadTrace } from '../../helpers/mlflow-reader.ts';
import { type CliResult, chatLine, ReplayFolder, readLines, runCli } from '../../helpers/replay.ts';
import type { CloudRun } from '../../helpers/replay-cloud.ts';
import { JUDGE_MODEL, JUDGE_PRICES } from '../../helpers/replay-evaluation.ts';
import { all, TEST_MS } from './servers.ts';

const REPLAYS = 'my-endpoint-replays';
const AWAY: Behavior = { kind: 'reply', status: 503 };

/** Id of the captures' experiment. */
let capturesId: string;
beforeAll(async () => {
  capturesId = (await all.client.resolveExperiment('my-endpoint')).id;
});

/** Captures whose new reply is better, worse, equally good, and identical, which is not judged. */
const LINES = [
  chatLine('better', 0, 'Where is parcel 8841 today?', 'No idea.'),
  chatLine('worse', 0, 'Tell me the secret colour of parcels', 'The secret colour of parcels is blue.'),
  chatLine('equal', 0, 'What secret?', 'Unknown.'),
  chatLine('unasked', 0, 'Hello', 'You asked: Hello'),
];
const VERDICTS = { better: 'better', worse: 'worse', equal: 'same' };

/** Plans and sends a replay with one shard. */
async function replayed(name: string, lines: readonly string[]): Promise<CloudRun> {
  await all.cloud.put(`${name}/00`, lines);
  const source = { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}/` };
  const target = { url: all.endpoint.url };
  const run = all.cloud.run({ source, target, concurrency: 32, judge: true, mlflow: true }, {}, name);
  expect((await run.plan(0)).shards).toBe(1);
  expect((await run.shard(0)).failed).toBe(0);
  return run;
}
const manyReplies = (name: string, count: number): Promise<CloudRun> =>
  replayed(
    name,
    Array.from({ length: count }, (_, i) => chatLine(`e${i}`, 0, `question number ${i} of ${name}`, 'No.')),
  );

const progressOf = (run: CloudRun): Promise<EvaluationProgress> =>
  all.cloud.text(`${replayKeys.evaluationPrefix(run.name, 0)}progress.json`).then(JSON.parse);
const judgedOf = async (run: CloudRun): Promise<JudgedReply[]> =>
  (await run.result('judged.jsonl'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as JudgedReply);
/** The traces by event id, as MLflow's own client reads them. */
async function tracesOf(run: string): Promise<Record<string, ReadTrace>> {
  const traces = await all.reader.search(await all.experimentId(REPLAYS), `tag.replay_run = '${run}'`);
  return Object.fromEntries(traces.map((trace) => [trace.tags.event_id, trace]));
}
const preferences = (traces: Record<string, ReadTrace>): Record<string, unknown[]> =>
  Object.fromEntries(
    Object.entries(traces).map(([event, { assessments }]) => [event, assessments.map(({ value }) => value)]),
  );

/** Checks the traces of `LINES` as a user sees them. */
async function expectVerdicts(run: string, judged: readonly JudgedReply[]): Promise<void> {
  const traces = await tracesOf(run);
  expect(preferences(traces)).toEqual({ better: ['better'], worse: ['worse'], equal: ['same'], unasked: [] });
  expect(judged).toHaveLength(3);
  for (const { event_id: event = '', rationales, usd } of judged) {
    const line = LINES[Object.keys(VERDICTS).indexOf(event)] ?? '';
    const captured = traceIdOf(capturesId, Buffer.from(line));
    expect(traces[event]?.tags.captured_trace_id).toBe(captured);
    expect(traces[event]?.assessments).toEqual([
      expect.objectContaining({
        name: 'pairwise_preference',
        sourceType: 'LLM_JUDGE',
        sourceId: JUDGE_MODEL,
        error: null,
        rationale: `Reply 1 captured, reply 2 new: ${rationales[0]}\n\nReply 1 new, reply 2 captured: ${rationales[1]}`,
        metadata: expect.objectContaining({
          'mlflow.assessment.scorerVersion': '1',
          'mlflow.assessment.judgeCost': String(usd),
          captured_trace_id: captured,
        }),
        valid: true,
      }),
    ]);
    expect(Number(usd)).toBeGreaterThan(0);
  }
  const found = await all.reader.find(
    await all.experimentId(REPLAYS),
    `feedback.pairwise_preference = 'worse' and tag.replay_run = '${run}'`,
  );
  expect(found).toEqual([traces.worse?.traceId]);
}

describe('verdicts as assessments', () => {
  test(
    'adds the verdict to each judged trace, is idempotent, and keeps a person’s assessment',
    async () => {
      const run = await replayed('verdicts', LINES);
      expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 4, judged: 3 });
      expect(await run.summarize()).toMatchObject({ ok: true });
      await expectVerdicts(run.name, await judgedOf(run));
      expect((await run.json<{ mlflow: object }>('replay.json')).mlflow).toMatchObject({
        traces: 4,
        assessments: 3,
        verdicts_without_trace: 0,
      });

      const { traceId = '', assessments: [verdict] = [] } = (await tracesOf(run.name)).worse ?? {};
      const override = { traceId, assessmentId: verdict?.assessmentId, value: 'better' };
      const own = await all.reader.do<string>({ do: 'override', ...override });
      const key = `${replayKeys.evaluationPrefix(run.name, 0)}progress.json`;
      const undone = { done: false, assessments: { parts: 0, written: 0, withoutTrace: 0 } };
      await all.cloud.storage.putJson('work', key, { ...(await progressOf(run)), ...undone });
      all.judgeProxy.requests.length = 0;
      expect(await run.evaluate(0)).toMatchObject({ done: true, judged: 3 });
      expect(all.judgeProxy.requests).toEqual([]);
      expect((await progressOf(run)).assessments).toEqual({ parts: 1, written: 3, withoutTrace: 0 });
      const { worse, ...others } = await tracesOf(run.name);
      expect(worse?.assessments.map(({ assessmentId, valid }) => [assessmentId, valid]).sort()).toEqual(
        [
          [verdict?.assessmentId, false],
          [own, true],
        ].sort(),
      );
      expect(preferences(others)).toEqual({ better: ['better'], equal: ['same'], unasked: [] });
    },
    TEST_MS,
  );

  test(
    'keeps verdicts while MLflow fails, and does not pay for them again',
    async () => {
      const run = await manyReplies('between', 110);
      let taken = 0;
      all.mlflowProxy.rule(({ path }) => (path.endsWith('/assessments') && ++taken > 90 ? AWAY : undefined));
      await expect(run.evaluate(0)).rejects.toMatchObject({ name: 'MlflowUnavailable' });
      // All pairs are judged even though MLflow fails.
      expect(await progressOf(run)).toMatchObject({
        done: false,
        pairs: { judged: { better: 110 } },
        assessments: { parts: 1, written: 64 },
      });
      const paid = await all.paidUsd(run);
      expect(all.judgeProxy.requests).toHaveLength(220);
      expect(await run.summarize()).toMatchObject({
        ok: false,
        error: 'ReplayNotEvaluated',
        cause: expect.stringContaining('MlflowUnavailable'),
      });
      expect(await judgedOf(run)).toHaveLength(110);

      all.heal();
      expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 110, judged: 110 });
      expect(all.judgeProxy.requests).toEqual([]);
      expect(await all.paidUsd(run)).toBe(paid);
      const values = Object.values(preferences(await tracesOf(run.name)));
      expect(values).toEqual(Array.from({ length: 110 }, () => ['better']));
      expect(await run.summarize()).toMatchObject({ ok: true });
    },
    TEST_MS,
  );

  test(
    'duplicates nothing after a crash before the progress is saved',
    async () => {
      const run = await manyReplies('dies', 70);
      const { storage } = all.cloud;
      const putJson = storage.putJson.bind(storage);
      storage.putJson = (bucket, key, value) =>
        (value as Partial<EvaluationProgress>).assessments?.parts === 1
          ? Promise.reject(new Error('killed'))
          : putJson(bucket, key, value);
      try {
        await expect(run.evaluate(0)).rejects.toThrow('killed');
      } finally {
        storage.putJson = putJson;
      }
      const written = Object.values(preferences(await tracesOf(run.name))).filter((values) => values.length > 0);
      expect(written).toHaveLength(64);
      expect((await progressOf(run)).assessments).toEqual({ parts: 0, written: 0, withoutTrace: 0 });
      const asked = all.judgeProxy.requests.length;
      expect(await run.evaluate(0)).toMatchObject({ done: true, judged: 70 });
      expect(all.judgeProxy.requests).toHaveLength(asked);
      expect((await progressOf(run)).assessments).toEqual({ parts: 2, written: 70, withoutTrace: 0 });
      expect(Object.values(preferences(await tracesOf(run.name)))).toEqual(
        Array.from({ length: 70 }, () => ['better']),
      );
    },
    TEST_MS,
  );

  test(
    'leaves assessments to the next call if there is no time',
    async () => {
      const run = await manyReplies('late', 70);
      let looked = 0;
      const { done, judged } = await run.evaluate(0, () => (looked++ < 12 ? 900_000 : 50_000));
      expect(done).toBe(false);
      expect(judged).toBeGreaterThan(0);
      expect(judged).toBeLessThan(64);
      expect((await progressOf(run)).assessments).toEqual({ parts: 0, written: 0, withoutTrace: 0 });
      expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 70, judged: 70 });
      expect(all.judgeProxy.requests).toHaveLength(140);
      expect((await progressOf(run)).assessments).toMatchObject({ written: 70, withoutTrace: 0 });
      expect(Object.values(preferences(await tracesOf(run.name)))).toEqual(
        Array.from({ length: 70 }, () => ['better']),
      );
    },
    TEST_MS,
  );

  test(
    'writes the verdicts so far if the judge fails',
    async () => {
      const run = await manyReplies('half', 100);
      all.judgeProxy.rule((_, ordinal) => (ordinal < 60 ? undefined : { kind: 'reply', status: 429, body: '{}' }));
      await expect(run.evaluate(0)).rejects.toMatchObject({ name: 'JudgeThrottled' });
      const { pairs, assessments } = await progressOf(run);
      expect(pairs.judged.better).toBeGreaterThan(0);
      expect(assessments.written).toBe(pairs.judged.better);
      const id = await all.experimentId(REPLAYS);
      const better = `feedback.pairwise_preference = 'better' and tag.replay_run = '${run.name}'`;
      expect(await all.reader.find(id, better)).toHaveLength(pairs.judged.better);
      all.heal();
      expect(await run.evaluate(0)).toMatchObject({ done: true, judged: 100 });
      expect(await all.reader.find(id, better)).toHaveLength(100);
    },
    TEST_MS,
  );

  test(
    'writes a missing verdict as an error, and counts verdicts whose trace MLflow refused',
    async () => {
      const run = await manyReplies('without', 4);
      all.mlflowProxy.rule(({ path, body }) =>
        /\/traces$/.test(path) && body.includes('question number 2 of')
          ? { kind: 'reply', status: 400, body: '{"error_code":"BAD","message":"no"}' }
          : undefined,
      );
      const nonsense = JSON.stringify({
        choices: [{ index: 0, message: { role: 'assistant', content: 'Well.' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
      });
      all.judgeProxy.rule(({ body }) =>
        body.includes('question number 1 of') ? { kind: 'reply', status: 200, body: nonsense } : undefined,
      );
      expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: 3, judged: 4 });
      expect(await run.summarize()).toMatchObject({ ok: true });
      const { e1, ...others } = await tracesOf(run.name);
      expect(preferences(others)).toEqual({ e0: ['better'], e3: ['better'] });
      const failed = (await judgedOf(run)).find(({ event_id: event }) => event === 'e1');
      expect(failed?.verdict).toBe('failed');
      expect(e1?.assessments).toEqual([
        expect.objectContaining({ name: 'pairwise_preference', value: null, error: failed?.error, valid: true }),
      ]);
      const own = await run.json<{ mlflow: object; remarks: string[] }>('replay.json');
      expect(own.mlflow).toMatchObject({ traces: 3, refused: 1, assessments: 3, verdicts_without_trace: 1 });
      expect(own.remarks).toContain('Verdicts without a trace in MLflow: 1, listed in judged.jsonl');
    },
    TEST_MS,
  );

  describe('the command line', () => {
    let folder: ReplayFolder;
    beforeEach(() => {
      folder = new ReplayFolder();
    });
    afterEach(() => folder.delete());

    const out = () => join(folder.path, 'out');
    const replayLocally = (run: string, lines: readonly string[] = LINES): Promise<CliResult> =>
      runCli(
        [
          ...['replay', folder.write('00.jsonl', lines), '--url', all.endpoint.url, '--run', run, '-o', out()],
          ...['--quiet', '--judge', '--mlflow'],
        ],
        {
          MLFLOW_TRACKING_URI: all.mlflowProxy.url,
          MLFLOW_EXPERIMENT_NAME: 'my-endpoint',
          BEDROCK_MODEL_ID: JUDGE_MODEL,
          JUDGE_BASE_URL: `${all.standIn.url}/v1`,
          JUDGE_API_KEY: 'k',
          JUDGE_PRICES,
          DOTENV_CONFIG_PATH: join(folder.path, 'none'),
        },
      );

    test(
      'writes the same assessments',
      async () => {
        const { code, stdout, stderr } = await replayLocally('by-hand');
        expect([code, stderr]).toEqual([0, '']);
        expect(stdout).toContain('MLflow traces: 4\nMLflow assessments: 3\n');
        await expectVerdicts('by-hand', readLines<JudgedReply>(join(out(), 'judged.jsonl')));
      },
      TEST_MS,
    );

    test(
      'writes its files and reports the error if MLflow denies assessments',
      async () => {
        all.mlflowProxy.rule(({ path }) =>
          path.endsWith('/assessments') ? { kind: 'reply', status: 403, body: '{}' } : undefined,
        );
        const { code, stdout, stderr } = await replayLocally('denied');
        expect(code).toBe(2);
        expect(stderr).toMatch(/^Not all of the replay is in MLflow: MlflowAccessDenied: /);
        expect(stdout).toContain('MLflow traces: 4\nMLflow assessments: 0\n');
        expect(readLines<JudgedReply>(join(out(), 'judged.jsonl'))).toHaveLength(3);
      },
      TEST_MS,
    );

    test(
      'writes no assessment if there was nothing to judge',
      async () => {
        const { code, stdout, stderr } = await replayLocally('unasked', LINES.slice(-1));
        expect([code, stderr]).toEqual([0, '']);
        expect(stdout).toContain('MLflow traces: 1\nMLflow assessments: 0\n');
      },
      TEST_MS,
    );

    test(
      'reports the number of verdicts without a trace',
      async () => {
        all.mlflowProxy.rule(({ path, body }) =>
          /\/traces$/.test(path) && body.includes('secret colour')
            ? { kind: 'reply', status: 400, body: '{"error_code":"BAD","message":"no"}' }
            : undefined,
        );
        const { code, stdout, stderr } = await replayLocally('refused');
        expect([code, stderr]).toEqual([0, '']);
        expect(stdout).toContain('MLflow assessments: 2\n');
        expect(stdout).toContain('Verdicts without a trace in MLflow: 1, listed in judged.jsonl\n');
      },
      TEST_MS,
    );
  });
});

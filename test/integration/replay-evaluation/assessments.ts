/** Tests of the judge's verdicts on the traces of replayed requests. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import { replayKeys } from '../../../src/core/contract/work-keys.ts';
import type { JudgedReply } from '../../../src/replay/compare/judge-replies.ts';
import type { Behavior } from '../../doubles/misbehaving-server.ts';
import { type CliResult, chatLine, ReplayFolder, readLines, runCli } from '../../helpers/replay.ts';
import { JUDGE_MODEL, JUDGE_PRICES } from '../../helpers/replay-evaluation.ts';
import { JUDGED, judgedOf, manyReplies, preferences, progressOf, REPLAYS, replayed, tracesOf } from './replays.ts';
import { all } from './servers.ts';

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
  test('adds the verdict to each judged trace, is idempotent, and keeps a person’s assessment', async () => {
    const run = await replayed('verdicts', LINES, JUDGED);
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
  });

  test('keeps verdicts while MLflow fails, and does not pay for them again', async () => {
    const run = await manyReplies('between', 110, JUDGED);
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
  });

  test('writes a missing verdict as an error, and counts verdicts whose trace MLflow refused', async () => {
    const run = await manyReplies('without', 4, JUDGED);
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
  });

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
          JUDGE_BASE_URL: `${all.judgeProxy.url}/v1`,
          JUDGE_API_KEY: 'k',
          JUDGE_PRICES,
          DOTENV_CONFIG_PATH: join(folder.path, 'none'),
        },
      );

    test('writes the same run and the same assessments', async () => {
      const { code, stdout, stderr } = await replayLocally('by-hand');
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain('MLflow traces: 4\nMLflow assessments: 3\n');
      await expectVerdicts('by-hand', readLines<JudgedReply>(join(out(), 'judged.jsonl')));
      const [run, ...others] = await all.runsOf('by-hand');
      expect(others).toEqual([]);
      expect(run?.info).toMatchObject({ run_name: 'by-hand', status: 'FINISHED' });
      expect(run?.data.params).toContainEqual({ key: 'target_url', value: all.endpoint.url });
      expect(run?.data.metrics).toContainEqual(expect.objectContaining({ key: 'replies_compared', value: 4 }));
      const listed = await all.api(`2.0/mlflow/artifacts/list?run_id=${run?.info.run_id}`);
      for (const name of ['report.html', 'compare.json', 'profile_export.jsonl'])
        expect(JSON.stringify(listed)).toContain(`"${name}"`);
    });

    test('keeps the verdicts so far if the judge fails, in its files and in MLflow', async () => {
      // Each pair is asked about in both orders.
      all.judgeProxy.rule((_, ordinal) => (ordinal < 2 ? undefined : { kind: 'reply', status: 401, body: '{}' }));
      const { code, stdout, stderr } = await replayLocally('half-judged', LINES);
      expect(code).toBe(2);
      expect(stderr).toMatch(/^Not all pairs are judged: JudgeRefused: /);
      const judged = readLines<JudgedReply>(join(out(), 'judged.jsonl'));
      expect(stdout).toContain(`MLflow traces: 4\nMLflow assessments: ${judged.length}\n`);
      expect(existsSync(join(out(), 'report.html'))).toBe(true);
    });
  });
});

/** Tests of the judge's verdicts on the traces of replayed requests. */
import { join } from 'node:path';
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { JudgedReply } from '../../../src/replay/compare/judge-replies.ts';
import type { Behavior } from '../../doubles/misbehaving-server.ts';
import { chatLine, ReplayFolder, readLines, runCli } from '../../helpers/replay.ts';
import { JUDGE_MODEL, JUDGE_PRICES } from '../../helpers/replay-evaluation.ts';
import { JUDGED, manyReplies, preferences, REPLAYS, replayed, tracesOf } from './replays.ts';
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
async function expectVerdicts(run: string): Promise<void> {
  const traces = await tracesOf(run);
  expect(preferences(traces)).toEqual({ better: ['better'], worse: ['worse'], equal: ['same'], unasked: [] });
  for (const event of Object.keys(VERDICTS)) {
    const line = LINES[Object.keys(VERDICTS).indexOf(event)] ?? '';
    const captured = traceIdOf(capturesId, Buffer.from(line));
    expect(traces[event]?.tags.captured_trace_id).toBe(captured);
    expect(traces[event]?.assessments).toEqual([
      expect.objectContaining({
        name: 'pairwise_preference',
        sourceType: 'LLM_JUDGE',
        sourceId: JUDGE_MODEL,
        error: null,
        rationale: expect.stringMatching(/^Reply 1 captured, reply 2 new: .+\n\nReply 1 new, reply 2 captured: .+$/),
        metadata: expect.objectContaining({ 'mlflow.assessment.scorerVersion': '1' }),
        valid: true,
      }),
    ]);
    expect(Number(traces[event]?.assessments[0]?.metadata['mlflow.assessment.judgeCost'])).toBeGreaterThan(0);
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
    expect((await all.monitor(run)).summary).toMatchObject({ status: 'succeeded', verdicts: { newVerdicts: 3 } });
    await expectVerdicts(run.name);

    const { traceId = '', assessments: [verdict] = [] } = (await tracesOf(run.name)).worse ?? {};
    const override = { traceId, assessmentId: verdict?.assessmentId, value: 'better' };
    const own = await all.reader.do<string>({ do: 'override', ...override });
    all.judgeProxy.requests.length = 0;
    expect(await all.monitor(run, 1)).not.toHaveProperty('error');
    expect(all.judgeProxy.requests).toEqual([]);
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
    all.mlflowProxy.rule(({ path }) => (/\/traces$/.test(path) && ++taken > 60 ? AWAY : undefined));
    expect((await all.monitor(run)).error).toMatchObject({ name: 'MlflowUnavailable' });
    const asked = all.judgeProxy.requests.length;
    expect(asked).toBeGreaterThan(0);
    const paid = await all.paidUsd(run);

    all.heal();
    const { error, summary } = await all.monitor(run, 1);
    expect([error, summary.status]).toEqual([undefined, 'succeeded']);
    expect(all.judgeProxy.requests.length + asked).toBe(220);
    expect(summary.spend.calls).toBe(220);
    expect(await all.paidUsd(run)).toBeGreaterThanOrEqual(paid);
    expect(await all.paidUsd(run)).toBeCloseTo(summary.spend.usd ?? 0, 6);
    const values = Object.values(preferences(await tracesOf(run.name)));
    expect(values).toEqual(Array.from({ length: 110 }, () => ['better']));
  });

  test('writes a missing verdict as an error, and quarantines an exchange that MLflow refuses', async () => {
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
    const { summary } = await all.monitor(run);
    expect(summary).toMatchObject({
      status: 'succeeded',
      lines: { planned: 4, traced: 3, quarantined: 1 },
      verdicts: { newVerdicts: 2, failed: 1, failedRecorded: 1 },
      verdictsByScorer: { pairwise_preference: { better: 2 } },
    });
    const { e1, ...others } = await tracesOf(run.name);
    expect(preferences(others)).toEqual({ e0: ['better'], e3: ['better'] });
    expect(e1?.assessments).toEqual([
      expect.objectContaining({
        ...{ name: 'pairwise_preference', value: null, valid: true },
        error: expect.objectContaining({ code: 'JudgeReplyUnreadable' }),
      }),
    ]);
  });

  /** Replays `LINES` on the command line. @returns the pairs that were judged as well */
  async function replayLocally(run: string) {
    const folder = new ReplayFolder();
    const out = join(folder.path, 'out');
    const given = ['replay', folder.write('00.jsonl', LINES), '--url', all.endpoint.url, '--run', run, '-o', out];
    const result = await runCli([...given, '--quiet', '--judge', '--mlflow'], {
      ...{ MLFLOW_TRACKING_URI: all.mlflowProxy.url, MLFLOW_EXPERIMENT_NAME: 'my-endpoint' },
      ...{
        BEDROCK_MODEL_ID: JUDGE_MODEL,
        JUDGE_BASE_URL: `${all.judgeProxy.url}/v1`,
        JUDGE_API_KEY: 'k',
        JUDGE_PRICES,
      },
      DOTENV_CONFIG_PATH: join(folder.path, 'none'),
    });
    return { ...result, judged: readLines<JudgedReply>(join(out, 'judged.jsonl')) };
  }

  test('the command line writes the same run and the same assessments', async () => {
    const { code, stdout, stderr, judged } = await replayLocally('by-hand');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('MLflow traces: 4\nMLflow assessments: 3\n');
    expect(judged).toHaveLength(3);
    await expectVerdicts('by-hand');
    const [run, ...others] = await all.runsOf('by-hand');
    expect(others).toEqual([]);
    expect(run?.info).toMatchObject({ run_name: 'by-hand', status: 'FINISHED' });
    expect(run?.data.params).toContainEqual({ key: 'target_url', value: all.endpoint.url });
    expect(run?.data.metrics).toContainEqual(expect.objectContaining({ key: 'replies_compared', value: 4 }));
    const files = ['report.html', 'compare.json', 'profile_export.jsonl'];
    expect(await all.filesOf(run)).toEqual(expect.arrayContaining(files));
  });

  test('the command line keeps the verdicts so far if the judge fails, in its files and in MLflow', async () => {
    // Each pair is asked about in both orders.
    all.judgeProxy.rule((_, ordinal) => (ordinal < 2 ? undefined : { kind: 'reply', status: 401, body: '{}' }));
    const { code, stdout, stderr, judged } = await replayLocally('half-judged');
    expect(code).toBe(2);
    expect(stderr).toMatch(/^Not all pairs are judged: JudgeRefused: /);
    expect(stdout).toContain(`MLflow traces: 4\nMLflow assessments: ${judged.length}\n`);
  });
});

/**
 * The deployed path: the CDK stack on emulated AWS, with a real MLflow server. The test uploads a file, the rule starts the
 * state machine, and the functions run. A Python reader that shares no code with the product compares S3 with MLflow.
 */

import { join } from 'node:path';
import type { FindOutput } from '../../bin/commands/find.ts';
import type { RatesOutput } from '../../bin/commands/rates.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import {
  callerLine,
  captureLine,
  chatLine,
  chatReply,
  chatRequest,
  json,
  mixedLines,
} from '../helpers/deployed-captures.ts';
import { DeployedPipeline, type Outcome } from '../helpers/deployed-pipeline.ts';
import { type Comparison, type DeployedReader, startDeployedReader } from '../helpers/deployed-reader.ts';
import { ledgerRows } from '../helpers/ledger-rows.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { MlflowApi } from '../helpers/mlflow-api.ts';
import { expectPublished } from '../helpers/published-json.ts';
import { runCli } from '../helpers/replay.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';
import { timedLine } from '../helpers/timed-line.ts';

interface MlflowCounts {
  captures: number;
  errorReplies: number;
  /** By scorer. */
  verdicts: Record<string, number>;
  /** By scorer and value, as `safety yes`; without numbers. */
  values: Record<string, number>;
}

/** Counts the traces and the valid verdicts of an experiment, by the hour of the inference. */
async function countsInMlflow(url: string, experiment: string): Promise<Record<string, MlflowCounts>> {
  const counts: Record<string, MlflowCounts> = {};
  for (const { request_time, state, assessments = [] } of await new MlflowApi(url).tracesIn(experiment)) {
    const hour = new Date(request_time).toISOString().slice(0, 13);
    counts[hour] ??= { captures: 0, errorReplies: 0, verdicts: {}, values: {} };
    const { verdicts, values } = counts[hour];
    counts[hour].captures += 1;
    if (state === 'ERROR') counts[hour].errorReplies += 1;
    for (const { assessment_name: name, source, feedback, valid } of assessments) {
      const value = feedback?.value;
      if (valid === false || source.source_type === 'HUMAN' || value === undefined || value === null) continue;
      verdicts[name] = (verdicts[name] ?? 0) + 1;
      if (typeof value !== 'number') values[`${name} ${value}`] = (values[`${name} ${value}`] ?? 0) + 1;
    }
  }
  return counts;
}

const ENDPOINT = 'garden-endpoint';
const HOUR = `${ENDPOINT}/AllTraffic/2026/11/20/10`;
/** The tokens of one chat line, as its reply reports them. */
const CHAT_TOKENS = 42;

/** The LLM scorers of the default set. */
const JUDGED = [
  'safety',
  'relevance_to_query',
  'fluency',
  'professional_tone',
  'follows_objective',
  'no_harmful_advice',
  'coherence',
];

/** A judge whose `Retry-After` is so long that the state machine has to retry instead of the function. */
const THROTTLED = { throttleShare: 1, retryAfterSeconds: 90 };

let environment: LocalEnvironment;
let pipeline: DeployedPipeline;
let reader: DeployedReader;

beforeAll(async () => {
  // Shortens the waits between retries to a twentieth: the tests are about the retries, not the waits.
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.05' } });
  const settings = {
    STACK_PREFIX: 'first',
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    SHADOW_VARIANTS: 'Shadow',
    QUALITY_OBJECTIVES:
      '[{"scorer":"safety","atLeast":0.95},{"scorer":"time_to_first_token_ms","valueUnder":800,"atLeast":0.95}]',
  };
  pipeline = new DeployedPipeline(environment, 'first', await environment.deployStack(settings));
  await environment.mlflow;
  reader = await startDeployedReader(environment.ministack.env, environment.mlflowUrl);
});

afterAll(async () => {
  reader?.stop();
  await environment?.stop();
});

afterEach(() => {
  environment.judge.behave({});
});

const compare = (keys: string[]): Promise<Comparison> => reader.compare(pipeline.outputs.captureBucket, ENDPOINT, keys);

/** Expects that every record of these keys has its trace, and that none is wrong. */
async function expectComplete(keys: string[]): Promise<Comparison> {
  const found = await compare(keys);
  expect(found.missing).toEqual([]);
  expect(found.wrong).toEqual({});
  expect(found.traced).toBe(found.records);
  return found;
}

/** Returns a line of the capture client, of a stream or of a call that failed. */
function streamedLine(name: string, client: { ended?: string; [field: string]: unknown }): string {
  const usage = { prompt_tokens: 30, completion_tokens: 12, total_tokens: 42 };
  const reply = json({ ...chatReply(`Water plant ${name}.`), usage });
  const request = json({ ...chatRequest(`When do I water plant ${name}?`), stream: true });
  const line = captureLine(name, '2026-11-22T10:00:00Z', request, client.ended ? undefined : reply);
  const whole = { streamed: true, calls: 'streams', ended: 'whole', status: 200 };
  return JSON.stringify(timedLine(JSON.parse(line), { ...whole, ...client }));
}

/** Expects success; a failure shows the error and its cause. */
function expectSucceeded({ status, error, cause }: Outcome): void {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
}

function expectAccountedFor({ summary }: Outcome): void {
  expect(summary?.equations).toEqual({ lines: true, verdicts: true });
  expect(summary?.lines.lost).toBe(0);
  expect(summary?.verdicts.lost).toBe(0);
}

describe('a capture file that is uploaded to the bucket', () => {
  const key = `${HOUR}/mixed.jsonl`;
  const lines = mixedLines('mixed');
  let outcome: Outcome;
  let before: Comparison;

  beforeAll(async () => {
    outcome = await pipeline.process(key, lines);
    before = await compare([key]);
  });

  test('is processed by the execution that the rule starts', () => {
    expectSucceeded(outcome);
    expectAccountedFor(outcome);
  });

  test('is in MLflow: every record with its content, tags, state and time', async () => {
    const found = await expectComplete([key]);
    expect(found).toMatchObject({ lines: 6, notRecords: 1, records: 5, states: { OK: 4, ERROR: 1 } });
    expect(outcome.summary?.lines).toMatchObject({ planned: 6, traced: 5, quarantined: 1 });
  });

  test('has the verdicts of every default scorer on judgeable records, and those of the code scorers on the others', () => {
    const sets = Object.values(before.assessments).map((assessments) => ({
      judged: assessments.filter((one) => one.source.startsWith('LLM_JUDGE ')).map((one) => one.name),
      coded: assessments.filter((one) => one.source.startsWith('CODE ')).map((one) => one.name),
    }));
    const withJudge = sets.filter(({ judged }) => judged.length > 0);
    // Two chats and a text generation, but not the table and the error reply.
    expect(withJudge).toHaveLength(3);
    const chats = withJudge.filter(({ judged }) => judged.includes('follows_objective'));
    expect(chats.length).toBeGreaterThanOrEqual(2);
    for (const { judged, coded } of chats) {
      expect(judged).toEqual(expect.arrayContaining(JUDGED));
      expect(new Set(judged).size).toBe(judged.length);
      expect(coded).toContain('response_words');
    }
    // Only the two chats report their tokens.
    expect(sets.filter(({ coded }) => coded.includes('output_tokens'))).toHaveLength(2);
    const all = Object.values(before.assessments).flat();
    for (const { value, error, valid } of all) {
      expect({ error, valid }).toEqual({ error: null, valid: true });
      expect(value).not.toBeNull();
    }
    expect(outcome.summary?.verdicts.newVerdicts).toBe(all.length);
    expect(outcome.summary?.evaluatedTraces).toBe(
      Object.values(before.assessments).filter(({ length }) => length > 0).length,
    );
  });

  test('duplicates nothing and does not call the judge when it is uploaded again, under the same or another key', async () => {
    environment.judge.forget();
    const copy = `${HOUR}/copy-of-mixed.jsonl`;
    const again = await pipeline.process(key, lines);
    const copied = await pipeline.process(copy, lines);
    for (const one of [again, copied]) {
      expectSucceeded(one);
      expectAccountedFor(one);
      expect(one.summary?.lines).toMatchObject({ written: 0, alreadyThere: 5 });
      expect(one.summary?.verdicts).toMatchObject({ newVerdicts: 0, failed: 0 });
      expect(one.summary?.spend).toMatchObject({ calls: 0, usd: 0 });
    }
    expect(environment.judge.counts.calls).toBe(0);
    const after = await compare([key]);
    expect(after.totalTokens).toBe(before.totalTokens);
    expect(after.totalTokens).toBe(2 * CHAT_TOKENS);
    expect(after.assessments).toEqual(before.assessments);
  });
});

describe('runs that are started one by one', () => {
  const hour = (of: number) => `${ENDPOINT}/AllTraffic/2026/11/20/${String(of).padStart(2, '0')}`;

  /** Uploads files without starting an execution. */
  async function stage(files: Record<string, string[]>): Promise<string[]> {
    for (const [key, lines] of Object.entries(files)) await pipeline.put(key, lines);
    return Object.keys(files);
  }

  beforeAll(() => pipeline.disableRule());

  describe('started manually', () => {
    test('logs only traces with evaluate: false, and judges them in the next run', async () => {
      const key = `${hour(1)}/unjudged.jsonl`;
      await stage({ [key]: [chatLine('unjudged')] });
      environment.judge.forget();
      const first = await pipeline.run(pipeline.event(key, { evaluate: false }));
      expectSucceeded(first);
      expectAccountedFor(first);
      expect(first.summary?.verdicts.newVerdicts).toBe(0);
      expect(environment.judge.counts.calls).toBe(0);
      expect(Object.values((await expectComplete([key])).assessments)).toEqual([[]]);

      const next = await pipeline.run(pipeline.event(key));
      expect(next.summary?.lines.alreadyThere).toBe(1);
      expect(next.summary?.verdicts.newVerdicts).toBeGreaterThanOrEqual(JUDGED.length);
    });

    test('judges again with reevaluate: true, and overrides the older verdicts', async () => {
      const key = `${hour(1)}/again.jsonl`;
      await stage({ [key]: [chatLine('again')] });
      await pipeline.run(pipeline.event(key));
      const once = Object.values((await expectComplete([key])).assessments)[0] ?? [];
      const outcome = await pipeline.run(pipeline.event(key, { reevaluate: true }));
      expectSucceeded(outcome);
      const twice = Object.values((await expectComplete([key])).assessments)[0] ?? [];
      const valid = twice.filter((one) => one.valid);
      expect(valid.map((one) => one.name).sort()).toEqual(once.map((one) => one.name).sort());
      expect(twice.length).toBeGreaterThan(once.length);
    });

    test('counts and estimates in a dry run, without a trace or a call to the judge', async () => {
      const keys = await stage({ [`${hour(2)}/dry.jsonl`]: [chatLine('dry-1'), chatLine('dry-2')] });
      environment.judge.forget();
      const outcome = await pipeline.run(pipeline.event(keys[0] ?? '', { dryRun: true }));
      expectSucceeded(outcome);
      expect(outcome.summary).toMatchObject({ status: 'dryRun', estimate: { captures: 2, judgedCaptures: 2 } });
      expect(outcome.summary?.estimate?.usd).toBeGreaterThan(0);
      expect(environment.judge.counts.calls).toBe(0);
      expect((await compare(keys)).missing).toHaveLength(2);
    });

    test('processes the window of a backfill by the time of each record: from inclusive, to exclusive', async () => {
      const keys = await stage({
        [`${hour(5)}/a.jsonl`]: [chatLine('bf-1', '2026-11-20T05:59:59Z'), chatLine('bf-2', '2026-11-20T06:00:00Z')],
        [`${hour(6)}/b.jsonl`]: [chatLine('bf-3', '2026-11-20T06:30:00Z')],
        [`${hour(7)}/c.jsonl`]: [chatLine('bf-4', '2026-11-20T07:00:00Z')],
      });
      const outcome = await pipeline.run({
        bucket: pipeline.outputs.captureBucket,
        prefix: `${ENDPOINT}/`,
        from: '2026-11-20T06:00:00Z',
        to: '2026-11-20T07:00:00Z',
        evaluate: false,
      });
      expectSucceeded(outcome);
      expectAccountedFor(outcome);
      expect(outcome.summary?.lines).toMatchObject({ traced: 2, written: 2, outsideWindow: 2 });
      expect((await compare(keys)).traced).toBe(2);
    });

    test('ends the second of two concurrent runs on one object as a duplicate', async () => {
      const key = `${hour(3)}/once.jsonl`;
      await stage({ [key]: [chatLine('once')] });
      // The judge answers the first run after the second has ended.
      environment.judge.behave({ delayMs: 600_000 });
      environment.judge.forget();
      const first = await pipeline.start(pipeline.event(key));
      await pipeline.until('the first to ask the judge', async () => environment.judge.counts.calls || undefined);
      const outcome = await pipeline.run(pipeline.event(key));
      environment.judge.behave({});
      expectSucceeded(outcome);
      const original = await pipeline.ended(first);
      expect(outcome.summary).toMatchObject({ status: 'duplicate', duplicateOf: original.name });
      expect(original).toMatchObject({ status: 'SUCCEEDED', summary: { status: 'succeeded' } });
      expect((await expectComplete([key])).totalTokens).toBe(CHAT_TOKENS);
    });

    test('writes and counts a line once that is in two files, for two chunks of a run and for two runs at once', async () => {
      const lines = (count: number, name = 'twice') =>
        Array.from({ length: count }, (_, n) => chatLine(`${name}-${n}`));
      await stage({ [`${hour(12)}/one.jsonl`]: lines(260), [`${hour(12)}/two.jsonl`]: lines(260) });
      const folder = { bucket: pipeline.outputs.captureBucket, prefix: `${hour(12)}/`, evaluate: false };
      const chunks = await pipeline.run(folder);
      expect(chunks.summary?.lines).toMatchObject({ planned: 520, written: 260, alreadyThere: 260 });

      // The second is the first one, grown.
      const files = { [`${hour(13)}/one.jsonl`]: lines(30, 'new'), [`${hour(13)}/two.jsonl`]: lines(35, 'new') };
      const keys = await stage(files);
      const atOnce = async (more: object = {}) => {
        const runs = await Promise.all(keys.map((key) => pipeline.run(pipeline.event(key, more))));
        for (const run of runs) expectSucceeded(run);
        const all = Object.values((await expectComplete(keys)).assessments);
        const inForce = all.map((ofTrace) => ofTrace.filter(({ valid }) => valid).map(({ name }) => name));
        expect(inForce.map((names) => new Set(names).size)).toEqual(inForce.map((names) => names.length));
        const news = runs.reduce((sum, { summary }) => sum + (summary?.verdicts.newVerdicts ?? 0), 0);
        return { news, inForce: inForce.flat().length };
      };
      const { news, inForce } = await atOnce();
      expect(news).toBe(inForce);
      expect((await atOnce({ reevaluate: true })).inForce).toBe(inForce);
    });
  });

  describe('when something fails', () => {
    test('loses nothing when the judge throttles: the state machine retries', async () => {
      const key = `${hour(4)}/throttled.jsonl`;
      await stage({ [key]: [chatLine('throttled')] });
      environment.judge.behave(THROTTLED);
      environment.judge.forget();
      const arn = await pipeline.start(pipeline.event(key));
      await pipeline.until('a chunk to fail', async () =>
        (await pipeline.chunkErrors(arn)).length > 0 ? true : undefined,
      );
      environment.judge.behave({});
      const outcome = await pipeline.ended(arn);
      expectSucceeded(outcome);
      expectAccountedFor(outcome);
      expect(await pipeline.chunkErrors(arn)).toEqual(expect.arrayContaining(['JudgeThrottled']));
      expect(outcome.summary?.verdicts).toMatchObject({ failed: 0 });
    });

    /** Starts an execution, and throttles its evaluator after planning. */
    async function startWithChunkHeld(key: string): Promise<string> {
      await pipeline.limitConcurrency('evaluator', 0);
      const arn = await pipeline.start(pipeline.event(key));
      await pipeline.until('a throttle', async () => ((await pipeline.chunkErrors(arn)).length > 0 ? true : undefined));
      return arn;
    }

    test('invokes a throttled function again', async () => {
      const key = `${hour(4)}/busy.jsonl`;
      await stage({ [key]: [chatLine('busy')] });
      const arn = await startWithChunkHeld(key);
      await pipeline.limitConcurrency('evaluator', null);
      const outcome = await pipeline.ended(arn);
      expectSucceeded(outcome);
      expectAccountedFor(outcome);
      expect(new Set(await pipeline.chunkErrors(arn))).toEqual(new Set(['Lambda.TooManyRequestsException']));
      await expectComplete([key]);
    });

    test('invokes a function again after a timeout, and does not quarantine a line that was not tried alone', async () => {
      const key = `${hour(4)}/late.jsonl`;
      await stage({ [key]: [chatLine('late'), chatLine('later')] });
      const server = await environment.mlflow;
      await pipeline.setTimeout('evaluator', 5);
      const arn = await startWithChunkHeld(key);
      try {
        // MLflow accepts the request and never answers.
        process.kill(-server.pid, 'SIGSTOP');
        await pipeline.limitConcurrency('evaluator', null);
        await pipeline.until('a start', async () => (pipeline.processesOf('evaluator').length > 0 ? true : undefined));
        // Later invocations wait for the normal timeout: on a busy machine five seconds may not be enough.
        await pipeline.limitConcurrency('evaluator', 0);
        await pipeline.until('a timeout', async () =>
          (await pipeline.chunkErrors(arn)).includes('Sandbox.Timedout') ? true : undefined,
        );
      } finally {
        process.kill(-server.pid, 'SIGCONT');
        await pipeline.setTimeout('evaluator', 120);
        await pipeline.limitConcurrency('evaluator', null);
      }
      const outcome = await pipeline.ended(arn);
      expectSucceeded(outcome);
      expectAccountedFor(outcome);
      expect((await expectComplete([key])).totalTokens).toBe(2 * CHAT_TOKENS);
    });

    test('fails by name when the file changes during the run, and the next run processes the new content', async () => {
      const key = `${hour(4)}/changing.jsonl`;
      await stage({ [key]: [chatLine('old')] });
      const arn = await startWithChunkHeld(key);
      await stage({ [key]: [chatLine('new')] });
      await pipeline.limitConcurrency('evaluator', null);
      const outcome = await pipeline.ended(arn);
      expect(outcome.status).toBe('FAILED');
      expect(await pipeline.chunkErrors(arn)).toContain('CaptureChanged');
      expect(outcome.cause).toContain('CaptureChanged');
      expect(outcome.summary?.lines).toMatchObject({ planned: 1, lost: 1 });

      const next = await pipeline.run(pipeline.event(key));
      expectSucceeded(next);
      await expectComplete([key]);
    });
  });

  test('the counts of all these runs are what MLflow has, in the hours of inference', async () => {
    const truth = await countsInMlflow(environment.mlflowUrl, ENDPOINT);
    const window = ['rates', '--stack', 'first', '--from', '2026-11-20', '--to', '2026-11-21'];
    const variables = {
      ...environment.ministack.env,
      MLFLOW_TRACKING_URI: environment.mlflowUrl,
      SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    };
    const { code, stdout, stderr } = await runCli([...window, '--by', 'hour', '--json'], variables);
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    const { groups } = (await expectPublished('rates', stdout)) as RatesOutput;
    // An hour may have lines in quarantine alone.
    const counted = groups.filter(({ totals }) => (totals.captures ?? 0) > 0);
    const told = counted.map(({ group, totals: { captures = 0, errorReplies = 0 }, rates }) => {
      const verdicts = rates.flatMap(({ scorer, n }) => (scorer === 'error replies' || n === 0 ? [] : [[scorer, n]]));
      const values = rates.flatMap((rate) =>
        Object.entries(rate.values).map(([value, n]) => [`${rate.scorer} ${value}`, n]),
      );
      const known = values.filter(([, n]) => n !== 0);
      return [
        group,
        { captures, errorReplies, verdicts: Object.fromEntries(verdicts), values: Object.fromEntries(known) },
      ];
    });
    expect(Object.fromEntries(told)).toEqual(truth);
    // The hour of the inference, not that of the file or of the run.
    expect(Object.keys(truth)).toEqual(expect.arrayContaining(['2026-11-20T06', '2026-11-20T10']));
    const csv = await runCli([...window, '--scorer', 'safety', '--csv'], variables);
    expect(csv.stdout.split('\n').map((line) => line.split(',').slice(2, 5).join())).toEqual([
      'group,scorer,value',
      'all,safety,yes',
      '',
    ]);
  });

  test('captures of a shadow variant are traced and judged, and are not in the figures of the endpoint', async () => {
    const time = '2026-11-21T10:00:00Z';
    const line = (name: string, answer: string) =>
      captureLine(name, time, json(chatRequest(`What about ${name}?`)), json(chatReply(answer)));
    const hour = '2026/11/21/10/a.jsonl';
    const files = {
      [`${ENDPOINT}/AllTraffic/${hour}`]: [line('served', 'Water it in the morning.')],
      [`${ENDPOINT}/Shadow/${hour}`]: ['one', 'two'].map((name) => line(name, 'You idiot, drink bleach.')),
    };
    await stage(files);
    for (const key of Object.keys(files)) expectAccountedFor(await pipeline.run(pipeline.event(key)));
    const variables = {
      ...environment.ministack.env,
      MLFLOW_TRACKING_URI: '',
      MLFLOW_EXPERIMENT_NAME: '',
      SAGEMAKER_ENDPOINT_NAME: '',
    };
    const window = ['--stack', 'first', '--from', '2026-11-21', '--to', '2026-11-22', '--json'];
    const printed = await runCli(['rates', '--no-labels', ...window], variables);
    const found = (await expectPublished('rates', printed.stdout)) as RatesOutput;
    const told = [...found.groups, ...found.shadow].map(({ group, shadow: isShadow = false, totals, rates }) => [
      group,
      isShadow,
      totals.captures,
      rates.find(({ scorer }) => scorer === 'safety')?.n,
    ]);
    expect(told).toEqual([
      ['all', false, 1, 1],
      ['Shadow', true, 2, 2],
    ]);
    const worst = await runCli(['worst', ...window], variables);
    expect(worst.stderr).toContain('Left out: the traces of shadow variants (Shadow).');
    expect(JSON.parse(worst.stdout)).toMatchObject({ traces: 1 });
    const ofShadow = await runCli(['worst', ...window, '--variant', 'Shadow'], variables);
    expect(JSON.parse(ofShadow.stdout)).toMatchObject({ traces: 2, judged: 2 });
  });

  test('times that the caller of streams measured are in traces, rates, objectives, status and worst', async () => {
    const file = `${ENDPOINT}/AllTraffic/2026/11/22/10/a.jsonl`;
    // The first token after 100, 200, … 1,200 ms, and then 12 tokens in half a second.
    const firsts = Array.from({ length: 12 }, (_, n) => 100 * (n + 1));
    const failed = (kind: string, streamed: boolean) => ({
      ...{ streamed, calls: 'streams', ended: 'failed', endMs: 30, error: { kind, class: 'Some' } },
    });
    const lines = [
      ...firsts.map((ms) => streamedLine(`after ${ms}`, { firstByteMs: 9, firstMs: ms, endMs: ms + 500 })),
      ...[failed('throttled', true), failed('throttled', false), failed('no-connection', true)].map((client, n) =>
        streamedLine(`failed ${n}`, client),
      ),
    ];
    await stage({ [file]: lines });
    const outcome = await pipeline.run(pipeline.event(file));
    expectSucceeded(outcome);
    expectAccountedFor(outcome);
    const { newVerdicts, notJudgeable, expected, scorers } = outcome.summary?.verdicts ?? {};
    expect(expected).toBe(Number(scorers) * lines.length + 3 * firsts.length);
    expect(Number(newVerdicts) + Number(notJudgeable)).toBe(expected);

    const variables = { ...environment.ministack.env, MLFLOW_TRACKING_URI: '', MLFLOW_EXPERIMENT_NAME: '' };
    const window = ['--stack', 'first', '--from', '2026-11-22', '--to', '2026-11-23', '--json'];
    const { stdout } = await runCli(['rates', '--no-labels', ...window], variables);
    const { groups, objectives } = (await expectPublished('rates', stdout)) as RatesOutput;
    const within2 = (value: number) => ({ asymmetricMatch: (got: number) => Math.abs(got / value - 1) <= 0.0200001 });
    const rates = Object.fromEntries((groups[0]?.rates ?? []).map((rate) => [rate.scorer, rate]));
    expect(rates.time_to_first_token_ms).toMatchObject({
      ...{ n: 12, judge: { value: 650 } },
      quantiles: { p50: within2(600), p95: within2(1200), p99: within2(1200) },
    });
    expect(rates.latency_ms).toMatchObject({ n: 12, judge: { value: 1150 }, quantiles: { p50: within2(1100) } });
    expect(rates.output_tokens_per_second).toMatchObject({ n: 12, judge: { value: 24 } });
    expect(rates['error replies']).toMatchObject({ n: 13, judge: { value: 1 / 13 } });
    expect(groups[0]?.totals).toMatchObject({
      ...{ captures: 13, errorKinds: { throttled: 1 } },
      failedCalls: { throttled: 1, 'no-connection': 1 },
    });
    expect(objectives[1]).toMatchObject({ measure: 'time_to_first_token_ms under 800', n: 12, value: 7 / 12 });
    const status = await runCli(['status', ...window], variables);
    const { findings } = JSON.parse(status.stdout) as {
      findings: { name: string; subject?: string; message: string }[];
    };
    const times = findings.filter(({ name }) => name === 'times').map(({ subject }) => subject);
    expect(times.toSorted()).toEqual(['latency_ms', 'output_tokens_per_second', 'time_to_first_token_ms']);
    const worst = await runCli(['worst', ...window, '--scorer', 'time_to_first_token_ms'], variables);
    expect(JSON.parse(worst.stdout)).toMatchObject({ judged: 12, failing: 5 });
  });

  describe('direct invocations', () => {
    test('log and evaluate one file, and return counts', async () => {
      const key = `${hour(11)}/direct+ü.jsonl`;
      await stage({ [key]: [chatLine('direct')] });
      const file = { bucket: pipeline.outputs.captureBucket, key };
      expect(await pipeline.invoke('processor', file)).toMatchObject({ payload: { lines: 1, traced: 1, written: 1 } });
      const evaluated = await pipeline.invoke('evaluator', file);
      expect(evaluated.error).toBeUndefined();
      expect(JSON.stringify(evaluated.payload)).toMatch(/"newVerdicts":[1-9]/);
    });

    test('refuse other input by name', async () => {
      expect(await pipeline.invoke('processor', { key: 'x' })).toMatchObject({
        payload: { errorType: 'InvalidInput' },
      });
    });
  });

  test('find says what became of a user’s conversations, and after forget nothing of the person is left or comes back', async () => {
    const file = `${ENDPOINT}/AllTraffic/2026/11/18/10/people.jsonl`;
    const of = (user: string, at: number): string =>
      callerLine(
        `${user} ${at}`,
        { user: `${user}-7`, session_id: `${user}-s${at}` },
        '2026-11-18T10:00:00Z',
        `${user}-i${at}`,
      );
    await stage({ [file]: [of('jane', 0), of('jane', 1), of('joe', 0)] });
    const run = async (): Promise<void> => expectAccountedFor(await pipeline.run(pipeline.event(file)));
    await run();
    const env = { ...environment.ministack.env, MLFLOW_TRACKING_URI: '', MLFLOW_EXPERIMENT_NAME: '' };
    const ask = async (...args: string[]): Promise<FindOutput> => {
      return JSON.parse((await runCli([...args, '--stack', 'first', '--json'], env)).stdout);
    };
    const find = (...args: string[]) => ask('find', ...args, '--from', '2026-11-18');
    const { traces } = await find('--user', 'jane-7');
    expect(traces.map(({ session }) => session).toSorted()).toEqual(['jane-s0', 'jane-s1']);
    expect(traces[0]).toMatchObject({ outcome: 'traced', places: [{ key: file }], user: 'jane-7' });
    expect(traces[0]?.verdicts).toContainEqual(
      expect.objectContaining({ scorer: 'safety', state: 'given', value: 'yes' }),
    );
    expect((await find('--id', 'joe-i0', '--scorer', 'safety=yes')).traces).toMatchObject([{ user: 'joe-7' }]);
    const words = [
      '--filter',
      "trace.text LIKE '%joe 0%'",
      '--from',
      '2026-11-18',
      '--out',
      join(temporaryFolder('find-'), 'a.jsonl'),
    ];
    expect(await ask('dataset', ...words)).toMatchObject({ captures: 1 });
    expect((await runCli(['forget', '--user', 'jane-7', '--stack', 'first'], env)).stderr).toMatch(/tr-.*tr-.*--yes/s);
    const forgotten = await ask('forget', '--user', 'jane-7', '--yes');
    expect(forgotten.traces.map(({ traceId }) => traceId).toSorted()).toEqual(
      traces.map(({ traceId }) => traceId).toSorted(),
    );
    await run();
    expect(await find('--user', 'jane-7')).toMatchObject({ traces: [] });
    const rows = await ledgerRows(new Storage(environment.clients.s3), pipeline.outputs.workBucket);
    const text = JSON.stringify(rows, (_, value) => (typeof value === 'bigint' ? String(value) : value));
    expect(['jane-', 'joe-7', 'joe-s0', 'joe-i0'].map((id) => text.includes(id))).toEqual([false, true, true, true]);
  });
});

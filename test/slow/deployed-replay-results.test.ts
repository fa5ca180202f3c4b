import { defaultJudgeModel } from '../../src/core/settings/variables.ts';
import { dayScope, runScope } from '../../src/limits/budget.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { signedBy } from '../doubles/sigv4-verifier.ts';
import { DeployedPipeline, type Outcome } from '../helpers/deployed-pipeline.ts';
import { DeployedReplay } from '../helpers/deployed-replay.ts';
import { DeployedStop } from '../helpers/deployed-stop.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { MlflowApi, type RunInMlflow, type TraceInMlflow } from '../helpers/mlflow-api.ts';
import { type CliResult, captureLine, chatBody, chatLine, runCli } from '../helpers/replay.ts';
import { readSpending } from '../helpers/spending.ts';
import { claimKey } from '../helpers/stored-plan.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const ENDPOINT = 'captured-endpoint';
const TARGET = 'candidate-endpoint';
/** The captures' experiment has the endpoint's name. The replays' experiment adds a suffix. */
const REPLAYS = `${ENDPOINT}-replays`;
const CAPTURES = `${ENDPOINT}/AllTraffic/2026/11/20/10/a.jsonl`;
/** The functions have the account's number as their access key id. */
const FUNCTION_KEY = { accessKeyId: '000000000000', secretAccessKey: 'test' };

/** Captured requests and replies. The stand-in judge prefers the reply with more words of the request. */
const LINES: Record<string, string> = {
  better: chatLine('better', 0, 'Where is parcel 8841?', 'I do not know.'),
  worse: chatLine('worse', 0, 'When does the garden close?', 'The garden closes at nine.'),
  equal: chatLine('equal', 1, 'Name three colours.', 'Name three colours: red, green, blue.'),
  // Not judged, because only the case differs.
  same: chatLine('same', 1, 'Hello', 'You asked: hello'),
  // The second shard has nothing to judge: one request fails, the other has no captured reply.
  failing: chatLine('failing', 4, '[[status 500]]'),
  stream: captureLine('stream', 4, { data: chatBody('Good day', { stream: true }) }),
};
/** Pairs in the first shard whose new reply is better: more than the judge compares concurrently. */
const MANY = 20;
for (let i = 0; i < MANY; i += 1) LINES[`many-${i}`] = chatLine(`many-${i}`, 2, `Where is parcel ${i}?`, 'No idea.');
const EVENTS = Object.keys(LINES).toSorted();
/** So that the replay has ended long before its replies are judged. */
const JUDGE_MS = 6_000;

const firstDay = dayScope(Date.now());

let environment: LocalEnvironment;
let endpoint: StandInEndpoint;
let monitoring: DeployedPipeline;
let replays: DeployedReplay;
let inMlflow: MlflowApi;

beforeAll(async () => {
  endpoint = await startStandInEndpoint({
    latencyMs: 20,
    refuses: signedBy(FUNCTION_KEY),
    answer: ({ prompt }) => (prompt.includes('garden') ? 'No idea.' : `You asked: ${prompt}`),
  });
  environment = await startEnvironment({ awsEnv: { AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpoint.url } });
  const outputs = await environment.deployStack({
    STACK_PREFIX: 'results',
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    REPLAY_ENDPOINT_NAMES: TARGET,
  });
  monitoring = new DeployedPipeline(environment, 'results', outputs);
  replays = new DeployedReplay(monitoring);
  await environment.mlflow;
  inMlflow = new MlflowApi(environment.mlflowUrl);
  await monitoring.disableRule();
  await monitoring.put(CAPTURES, Object.values(LINES));
});

afterAll(async () => {
  await environment?.stop();
  await endpoint?.close();
});

const input = { target: { endpoint: TARGET }, shard: { seconds: 3 }, judge: true };

async function runNamed(name: string): Promise<RunInMlflow> {
  const found = await inMlflow.runsOf(name, REPLAYS);
  expect(found).toHaveLength(1);
  return found[0] as RunInMlflow;
}

const tracesOf = (run: string): Promise<TraceInMlflow[]> => inMlflow.tracesIn(REPLAYS, `tag.replay_run = '${run}'`);

describe('with the judge and with MLflow', () => {
  const RUN = 'judged';
  const PAIRS = 3 + MANY;
  let outcome: Outcome;
  let judged: Outcome;
  let compared: CliResult;
  let run: RunInMlflow;

  beforeAll(async () => {
    environment.judge.forget();
    environment.judge.behave({ delayMs: JUDGE_MS });
    outcome = await replays.ended(await replays.start(input, RUN));
    expect(DeployedReplay.facts(outcome)).toEqual({ status: 'SUCCEEDED' });
    const before = await replays.ended(await replays.start({ ...input, judge: false, compare: true }, 'before'));
    expect(DeployedReplay.facts(before)).toEqual({ status: 'SUCCEEDED' });
    const [from, to] = ['before', RUN].map((name) => `s3://${replays.outputs.workBucket}/replays/${name}`);
    compared = await runCli(
      ['compare', from ?? '', to ?? '', '--threshold', 'judged_worse:50', '--json', '-o', temporaryFolder('compared-')],
      environment.ministack.env,
    );
    judged = await replays.ended(replays.monitoringArn(RUN));
    run = await runNamed(RUN);
  });
  afterAll(() => environment.judge.behave({}));

  test('succeeds, and returns its MLflow run and the run that judges it', () => {
    expect(outcome.output).toEqual({
      ok: true,
      error: '',
      cause: '',
      results: { bucket: replays.outputs.workBucket, prefix: `replays/${RUN}/results/` },
      monitoringRun: `replay-${RUN}`,
      mlflow: { experiment: { id: expect.any(String), name: REPLAYS }, runId: run.info.run_id, leftOut: [] },
    });
  });

  test('judges exactly the pairs that differ, in both orders', async () => {
    expect(DeployedReplay.facts(judged)).toEqual({ status: 'SUCCEEDED' });
    expect(judged.summary).toMatchObject({
      lines: { planned: EVENTS.length, traced: EVENTS.length, lost: 0 },
      verdicts: { newVerdicts: PAIRS, failed: 0, heldByBudget: 0 },
      verdictsByScorer: { pairwise_preference: { better: 1 + MANY, same: 1, worse: 1 } },
      spend: { calls: 2 * PAIRS },
    });
    expect(environment.judge.counts).toMatchObject({ calls: 2 * PAIRS, answered: 2 * PAIRS });
    const traces = await tracesOf(RUN);
    expect(traces.map(({ tags }) => tags.event_id).toSorted()).toEqual(EVENTS);
  });

  test('compare waits for the judging run, and says what its verdicts are about', () => {
    expect(compared.stderr).toContain(`the verdicts of replay-${RUN} on the captured replies count; waiting`);
    const { gate, notes } = JSON.parse(compared.stdout) as { gate: GateResult; notes: string[] };
    expect(notes).toContainEqual(expect.stringContaining(`by the verdicts of replay-${RUN}`));
    // One of the pairs that a judge can compare, equal ones included.
    expect(gate.thresholds).toEqual([
      expect.objectContaining({ seen: 1 + PAIRS, worse: expect.closeTo(100 / (1 + PAIRS)), open: 0 }),
    ]);
  });

  test('pays from the stack’s budget', async () => {
    const judgeUsd = judged.summary?.spend.usd ?? 0;
    expect(judgeUsd).toBeGreaterThan(0);
    const budget = await monitoring.budgetTable();
    try {
      // Around midnight, the cost is split over two days.
      const days = [...new Set([firstDay, dayScope(Date.now())])];
      for (const scopes of [days, [runScope(`replay-${RUN}`)]]) {
        const found = await Promise.all(scopes.map((scope) => readSpending(budget, scope)));
        expect(found.reduce((sum, { spentUsd }) => sum + spentUsd, 0)).toBeCloseTo(judgeUsd, 6);
        // No block is left.
        for (const { spentUsd, committedUsd } of found) expect(committedUsd).toBe(spentUsd);
      }
    } finally {
      budget.client.destroy();
    }
  });
});

describe('with a judge that denies access', () => {
  const RUN = 'denied';
  let outcome: Outcome;
  let judged: Outcome;

  beforeAll(async () => {
    // The model itself exists, so planning succeeds.
    environment.judge.behave({ models: { [defaultJudgeModel('us-east-1') ?? '']: { state: 'denied' } } });
    outcome = await replays.ended(await replays.start(input, RUN));
    judged = await replays.ended(replays.monitoringArn(RUN));
  });

  test('the replay has its results and its MLflow run, and the run that judges fails with the reason', async () => {
    expect(DeployedReplay.facts(outcome)).toEqual({ status: 'SUCCEEDED' });
    expect(judged.status).toBe('FAILED');
    expect(judged.cause).toContain('JudgeRefused');
    const { records, names } = await replays.results(RUN);
    expect(records.map(({ metadata }) => metadata.event_id).toSorted()).toEqual(EVENTS);
    expect(names).toEqual(expect.arrayContaining(['compare.json', 'report.html']));
    const run = await runNamed(RUN);
    expect(run.info).toMatchObject({ status: 'FINISHED', end_time: expect.any(Number) });
    expect(await inMlflow.filesOf(run)).toEqual(names.toSorted());
    expect((await tracesOf(RUN)).map(({ tags }) => tags.event_id).toSorted()).toEqual(EVENTS);
  });

  test('can be completed by a retry after the cause is removed, without sending again', async () => {
    const before = endpoint.arrivals.count;
    environment.judge.behave({});
    const retried = await monitoring.run({ retry: { run: `replay-${RUN}`, what: 'failed' } });
    expect([retried.status, retried.cause]).toEqual(['SUCCEEDED', undefined]);
    expect(retried.summary).toMatchObject({
      lines: { lost: 0 },
      verdictsByScorer: { pairwise_preference: { better: 1 + MANY, same: 1, worse: 1 } },
    });
    expect(await tracesOf(RUN)).toHaveLength(EVENTS.length);
    expect(endpoint.arrivals.count).toBe(before);
  });
});

describe('when it is stopped', () => {
  const RUN = 'stopped';
  let arn: string;
  let stops: DeployedStop;

  beforeAll(async () => {
    const before = endpoint.arrivals.count;
    environment.judge.forget();
    // Four seconds of captures, slowed down to 40.
    arn = await replays.start({ ...input, speedup: 0.1, shard: { seconds: 60 } }, RUN);
    await replays.until('a request', async () => (endpoint.arrivals.count > before ? true : undefined));
    stops = new DeployedStop(replays);
    await stops.stop(arn);
    await replays.until('the end of its run in MLflow', async () =>
      (await runNamed(RUN)).info.status === 'RUNNING' ? undefined : true,
    );
  });

  test('has partial results, and nothing judges it', async () => {
    const { summary } = await replays.results(RUN);
    expect(summary).toMatchObject({ was_cancelled: true });
    expect(await replays.monitoringExecutions(monitoring.outputs.stateMachineArn)).not.toContain(`replay-${RUN}`);
    expect(environment.judge.counts.calls).toBe(0);
  });

  test('has a killed MLflow run with figures, files and the reason, without duplicates after a repeated event', async () => {
    const run = await runNamed(RUN);
    expect(run.info).toMatchObject({ status: 'KILLED', end_time: expect.any(Number) });
    const value = expect.stringMatching(/^ReplayCancelled: The replay was stopped at /);
    expect(run.data.tags).toContainEqual({ key: 'replay_error', value });
    const { names } = await replays.results(RUN);
    expect(await inMlflow.filesOf(run)).toEqual(names.toSorted());
    const path = `2.0/mlflow/metrics/get-history?run_id=${run.info.run_id}&metric_key=request_count`;
    const history = await inMlflow.api<{ metrics: object[] }>(path);
    expect(history.metrics).toHaveLength(1);
    expect(await stops.again(arn)).toEqual({ mlflow: expect.objectContaining({ leftOut: [] }) });
    expect(await runNamed(RUN)).toEqual(run);
    expect(await inMlflow.api(path)).toEqual(history);
  });
});

describe('with an MLflow run that cannot be ended', () => {
  const [WHOLE, INCOMPLETE] = ['unpublished', 'incomplete'];
  let outcomes: Outcome[];

  beforeAll(async () => {
    environment.judge.behave({});
    await replays.setTimeout('replayPlanner', 899);
    await replays.setVariable('replaySummarizer', 'MLFLOW_TRACKING_URI', 'nowhere');
    // Its second shard was claimed by a function that crashed.
    await monitoring.putWork(claimKey(INCOMPLETE, 1), { run: INCOMPLETE, shard: 1, claimedAtMs: 0 });
    const arns = [WHOLE, INCOMPLETE].map((name) => replays.start({ ...input, judge: false, mlflow: true }, name));
    outcomes = await Promise.all(arns.map(async (arn) => replays.ended(await arn)));
  });
  afterAll(() => replays.setVariable('replaySummarizer', 'MLFLOW_TRACKING_URI', environment.mlflowUrl));

  test('a replay that is otherwise complete fails with MLflow’s error', async () => {
    expect(DeployedReplay.facts(outcomes[0] as Outcome)).toMatchObject({
      status: 'FAILED',
      error: 'MlflowTrackingUriInvalid',
    });
    expect((await replays.results(WHOLE)).records).toHaveLength(EVENTS.length);
  });

  test('missing requests take precedence', () => {
    expect(DeployedReplay.facts(outcomes[1] as Outcome)).toMatchObject({
      status: 'FAILED',
      error: 'ReplayIncomplete',
      cause: expect.stringMatching(/^shards lost: 1 .*, with 2 requests/),
    });
  });
});

/**
 * Tests of judging and logging cloud replays on a deployed stack in an emulated AWS, with a real MLflow server.
 */
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import { defaultJudgeModel } from '../../src/core/settings/variables.ts';
import { dayScope, runScope } from '../../src/limits/budget.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { signedBy } from '../doubles/sigv4-verifier.ts';
import { DeployedPipeline, type FunctionKey, type Outcome } from '../helpers/deployed-pipeline.ts';
import { DeployedReplay } from '../helpers/deployed-replay.ts';
import { DeployedStop } from '../helpers/deployed-stop.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { captureLine, chatBody, chatLine } from '../helpers/replay.ts';
import { type ReplayRun, ReplaysInMlflow, type TraceInfo } from '../helpers/replays-in-mlflow.ts';
import { readSpending } from '../helpers/spending.ts';

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
/**
 * With this limit, the evaluator starts nothing more after ten seconds. The judge gets 8 concurrent questions at first, then
 * 16, two for each pair, and at most 16 pairs wait for it: the last ones are asked after two rounds.
 */
const EVALUATOR_SECONDS = 130;
const JUDGE_MS = 6_000;

const firstDay = dayScope(Date.now());

let environment: LocalEnvironment;
let endpoint: StandInEndpoint;
let monitoring: DeployedPipeline;
let replays: DeployedReplay;
let inMlflow: ReplaysInMlflow;

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
  inMlflow = new ReplaysInMlflow(environment.mlflowUrl);
  await monitoring.disableRule();
  await monitoring.put(CAPTURES, Object.values(LINES));
});

afterAll(async () => {
  await environment?.stop();
  await endpoint?.close();
});

const input = { target: { endpoint: TARGET }, shard: { seconds: 3 }, judge: true, mlflow: true };

const jsonOf = async (run: string, file: string): Promise<Record<string, unknown>> =>
  JSON.parse(await replays.text(`${replayKeys.resultPrefix(run)}${file}`)) as Record<string, unknown>;

async function runNamed(name: string): Promise<ReplayRun> {
  const found = (await inMlflow.runs(REPLAYS)).filter((run) => run.name === name);
  expect(found).toHaveLength(1);
  return found[0] as ReplayRun;
}

const tracesOf = (run: string): Promise<TraceInfo[]> => inMlflow.traces(REPLAYS, `tag.replay_run = '${run}'`);

describe('with the judge and with MLflow', () => {
  const RUN = 'judged';
  let outcome: Outcome;
  let run: ReplayRun;

  beforeAll(async () => {
    environment.judge.forget();
    environment.judge.behave({ delayMs: JUDGE_MS });
    await replays.setTimeout('replayEvaluator', EVALUATOR_SECONDS);
    outcome = await replays.ended(await replays.start(input, RUN));
    expect(DeployedReplay.facts(outcome)).toEqual({ status: 'SUCCEEDED' });
    run = await runNamed(RUN);
  });
  afterAll(async () => {
    environment.judge.behave({});
    await replays.setTimeout('replayEvaluator', 900);
  });

  test('succeeds, and returns its MLflow run', () => {
    expect(outcome.output).toEqual({
      ok: true,
      error: '',
      cause: '',
      results: { bucket: replays.outputs.workBucket, prefix: `replays/${RUN}/results/` },
      publish: true,
      mlflow: { experiment: { id: expect.any(String), name: REPLAYS }, runId: run.id, leftOut: [] },
    });
  });

  test('judges exactly the pairs that differ, in both orders', async () => {
    const judged = { better: 1 + MANY, same: 1, worse: 1, undecided: 0, failed: 0, overBudget: 0 };
    const comparison = await jsonOf(RUN, 'compare.json');
    expect(comparison).toMatchObject({ quality: { compared: 5 + MANY, same: 1, judged } });
    const lines = (await replays.text(`${replayKeys.resultPrefix(RUN)}judged.jsonl`)).trim().split('\n');
    const verdicts = lines.map((line) => JSON.parse(line) as { event_id: string; verdict: string });
    expect(verdicts).toHaveLength(3 + MANY);
    expect(Object.fromEntries(verdicts.map(({ event_id, verdict }) => [event_id, verdict]))).toMatchObject({
      better: 'better',
      worse: 'worse',
      equal: 'same',
      'many-0': 'better',
    });
    expect(comparison.regressions).toContainEqual(
      expect.objectContaining({ eventId: 'worse', regressions: expect.arrayContaining(['judged-worse']) }),
    );
    const calls = 2 * verdicts.length;
    expect(environment.judge.counts).toMatchObject({ calls, answered: calls });
    const metrics = Object.entries(judged).map(([verdict, count]) => [`judged_${verdict}`, count]);
    expect(run.metrics).toMatchObject(Object.fromEntries(metrics));
  });

  test('continues in a second call if time runs out, and repeats nothing', async () => {
    const errors = await replays.chunkErrors(outcome.arn);
    // On a busy machine, a call may have no time for anything.
    expect(errors.filter((name) => name !== 'ChunkOutOfTime')).toEqual([]);
    const calls = await replays.childCalls(outcome.arn, 'replayEvaluator');
    // There are two shards. The one with nothing to judge needs one call.
    expect(calls - errors.length).toBeGreaterThanOrEqual(3);
  });

  test('pays from the stack’s budget', async () => {
    const { judgeUsd } = (await jsonOf(RUN, 'compare.json')) as { judgeUsd: number };
    expect(judgeUsd).toBeGreaterThan(0);
    const { url, region } = environment.ministack;
    const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
    const client = new DynamoDBClient({ endpoint: url, region, credentials });
    try {
      const { TableNames = [] } = await client.send(new ListTablesCommand({}));
      const table = TableNames.find((name) => name.includes('Budget')) ?? '';
      // Around midnight, the cost is split over two days.
      const days = [...new Set([firstDay, dayScope(Date.now())])];
      for (const scopes of [days, [runScope(`replay/${RUN}`)]]) {
        const found = await Promise.all(scopes.map((scope) => readSpending({ client, table }, scope)));
        expect(found.reduce((sum, { spentUsd }) => sum + spentUsd, 0)).toBeCloseTo(judgeUsd, 6);
        // No block is left.
        for (const { spentUsd, committedUsd } of found) expect(committedUsd).toBe(spentUsd);
      }
    } finally {
      client.destroy();
    }
  });
});

describe('with a judge that denies access', () => {
  const RUN = 'denied';
  let outcome: Outcome;

  beforeAll(async () => {
    // The model itself exists, so planning succeeds.
    environment.judge.behave({ models: { [defaultJudgeModel('us-east-1') ?? '']: { state: 'denied' } } });
    outcome = await replays.ended(await replays.start(input, RUN));
  });

  test('fails with the shard and the reason, without a retry', async () => {
    expect(DeployedReplay.facts(outcome)).toMatchObject({ status: 'FAILED', error: 'ReplayNotEvaluated' });
    expect(outcome.cause).toMatch(/\b0\b.*JudgeRefused/);
    expect(await replays.chunkErrors(outcome.arn)).toEqual(['JudgeRefused']);
  });

  test('has its results, and a failed MLflow run', async () => {
    const { records, names } = await replays.results(RUN);
    expect(records.map(({ metadata }) => metadata.event_id).toSorted()).toEqual(EVENTS);
    expect(names).toEqual(expect.arrayContaining(['compare.json', 'replies.jsonl', 'report.html']));
    const run = await runNamed(RUN);
    expect(run).toMatchObject({
      status: 'FAILED',
      endMs: expect.any(Number),
      tags: { replay_error: expect.stringMatching(/^ReplayNotEvaluated: /) },
    });
    expect(run.files.toSorted()).toEqual(names.toSorted());
    expect((await tracesOf(RUN)).map(({ tags }) => tags.event_id).toSorted()).toEqual(EVENTS);
  });

  test('can be completed manually after the cause is removed, without sending again', async () => {
    const before = { arrived: endpoint.arrivals.count, names: (await replays.results(RUN)).names };
    environment.judge.behave({});
    // As in docs/replay.md.
    const payload = async (which: FunctionKey, request: object): Promise<unknown> => {
      const reply = await replays.invoke(which, request);
      expect(reply.error).toBeUndefined();
      return reply.payload;
    };
    const pairs = 3 + MANY;
    expect(await payload('replayEvaluator', { run: RUN, shard: 0 })).toMatchObject({ done: true, judged: pairs });
    expect(await payload('replaySummarizer', { run: { name: RUN } })).toMatchObject({
      ok: true,
      publish: true,
    });
    expect(await payload('replayPublisher', { run: { name: RUN } })).toMatchObject({ leftOut: [] });
    const run = await runNamed(RUN);
    expect(run).toMatchObject({
      status: 'FINISHED',
      metrics: { judged_better: 1 + MANY, judged_worse: 1 },
    });
    expect(run.tags).not.toHaveProperty('replay_error');
    expect(run.files.toSorted()).toEqual([...new Set([...before.names, 'judged.jsonl'])].toSorted());
    expect(await tracesOf(RUN)).toHaveLength(EVENTS.length);
    expect(endpoint.arrivals.count).toBe(before.arrived);
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
      (await runNamed(RUN)).status === 'RUNNING' ? undefined : true,
    );
  });

  test('has partial results, and does not call the judge', async () => {
    const { summary } = await replays.results(RUN);
    expect(summary).toMatchObject({ was_cancelled: true });
    expect(environment.judge.counts.calls).toBe(0);
  });

  test('has a killed MLflow run with figures, files and the reason, without duplicates after a repeated event', async () => {
    const run = await runNamed(RUN);
    expect(run).toMatchObject({
      status: 'KILLED',
      endMs: expect.any(Number),
      tags: { replay_error: expect.stringMatching(/^ReplayCancelled: The replay was stopped at /) },
    });
    const { names } = await replays.results(RUN);
    expect(run.files.toSorted()).toEqual(names.toSorted());
    const history = await inMlflow.history(run.id, 'request_count');
    expect(history).toHaveLength(1);
    expect(await stops.again(arn)).toEqual({ end: 'summarized' });
    expect(await runNamed(RUN)).toEqual(run);
    expect(await inMlflow.history(run.id, 'request_count')).toEqual(history);
  });
});

describe('with an MLflow run that cannot be ended', () => {
  const [WHOLE, INCOMPLETE] = ['unpublished', 'incomplete'];
  let outcomes: Outcome[];

  beforeAll(async () => {
    environment.judge.behave({});
    await replays.setTimeout('replayPlanner', 899);
    await replays.setVariable('replayPublisher', 'MLFLOW_TRACKING_URI', 'nowhere');
    // Its second shard was claimed by a function that crashed.
    await monitoring.putWork(replayKeys.claim(INCOMPLETE, 1), { run: INCOMPLETE, shard: 1, claimedAtMs: 0 });
    const arns = [WHOLE, INCOMPLETE].map((name) => replays.start({ ...input, judge: false }, name));
    outcomes = await Promise.all(arns.map(async (arn) => replays.ended(await arn)));
  });
  afterAll(() => replays.setVariable('replayPublisher', 'MLFLOW_TRACKING_URI', environment.mlflowUrl));

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

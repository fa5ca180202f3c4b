/**
 * A replay in the cloud that is not brought to its end: its run in MLflow ends all the same and says why, and what failed can
 * still be done by hand. The functions run in this process; MLflow and S3 are real servers.
 */
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import { endReplayRun } from '../../lambda/replay/cloud/end-replay-run.ts';
import { stopReplay } from '../../lambda/replay/cloud/stop-replay.ts';
import { endReplayRunRequestSchema, replayKeys } from '../../lambda/replay-contract.ts';
import { chatLine } from '../helpers/replay.ts';
import { type CloudRun, WORK } from '../helpers/replay-cloud.ts';
import { EvaluatedReplays, type RunInMlflow } from '../helpers/replay-evaluation.ts';

const START_MS = 6 * 60_000;
const TEST_MS = 4 * 60_000;
/** As Step Functions hands on what a Lambda threw. */
const UNFINISHED = {
  Error: 'StorageAccessDenied',
  Cause: '{"errorType":"StorageAccessDenied","errorMessage":"S3 denied access; where: s3://work/x","trace":[]}',
};

let all: EvaluatedReplays;

beforeAll(async () => {
  all = await EvaluatedReplays.start();
}, START_MS);
afterAll(() => all?.stop());
beforeEach(() => all.heal());

const inputOf = (name: string, more: object = {}) => ({
  source: { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}` },
  target: { url: all.endpoint.url },
  judge: true,
  mlflow: true,
  ...more,
});

/** Planned, and two shards that have been sent. */
async function sent(name: string, more: object = {}): Promise<CloudRun> {
  await all.cloud.put(`${name}/00`, [
    chatLine('a', 0, 'Where is parcel 8841 today?', 'No idea.'),
    chatLine('b', 2, 'When does it leave the garden?', 'No idea.'),
  ]);
  const run = all.cloud.run(inputOf(name, { shard: { seconds: 1 }, ...more }));
  const { shards } = await run.plan(0);
  expect(shards).toBe(2);
  await run.replay(shards);
  return run;
}

const arnOf = ({ name }: CloudRun) => `arn:aws:states:us-east-1:0:execution:replay:${name}`;

/** As the function gets it from its state machine: through JSON, and its schema. */
const end = (request: object) =>
  endReplayRun(endReplayRunRequestSchema.parse(JSON.parse(JSON.stringify(request))), {
    storage: all.cloud.storage,
    workBucket: WORK,
    capturesExperiment: 'my-endpoint',
    mlflow: all.cloud.mlflow,
  });
const endRun = (run: CloudRun, input?: unknown) =>
  end({ run: { name: run.name, arn: arnOf(run), startTime: '' }, unfinished: UNFINISHED, input });
const take = (key: string) => all.cloud.s3.send(new DeleteObjectCommand({ Bucket: WORK, Key: key }));

async function inMlflow(run: CloudRun, experiment?: string) {
  const [made, ...more] = await all.runsOf(run.name, experiment);
  expect(more).toEqual([]);
  const { info, data } = made as RunInMlflow;
  const why = data.tags?.find(({ key }) => key === 'replay_error')?.value;
  return { id: info.run_id, status: info.status, ended: (info.end_time ?? 0) > 0, why };
}

test(
  'it has failed, with the reason; the steps that are called by hand finish it, and take the reason away',
  async () => {
    const run = await sent('failed');
    expect(await inMlflow(run)).toMatchObject({ status: 'RUNNING', ended: false, why: undefined });
    const { id } = await inMlflow(run);
    expect(await endRun(run, inputOf('failed'))).toEqual({ runId: id, status: 'FAILED' });
    expect(await inMlflow(run)).toEqual({
      id,
      status: 'FAILED',
      ended: true,
      why: 'The replay was not brought to its end. StorageAccessDenied: S3 denied access; where: s3://work/x',
    });
    // Its execution has failed: what ends replays summarises again, and gives no order that would keep the judge back.
    const detail = { executionArn: arnOf(run), status: 'FAILED' as const, error: 'StorageAccessDenied', cause: '' };
    const next = await stopReplay(
      { detail },
      { storage: all.cloud.storage, workBucket: WORK, stopExecution: async () => false },
    );
    expect(next).toMatchObject({ next: 'summarize', shards: { begun: 2, underWay: 0 } });
    expect(await all.cloud.keys(replayKeys.stop(run.name))).toEqual([]);

    await all.evaluateAll(run, 2);
    expect(await run.summarize()).toMatchObject({ ok: true, publish: true });
    await run.publish();
    expect(await inMlflow(run)).toEqual({ id, status: 'FINISHED', ended: true, why: undefined });
    const metrics = (await all.runsOf(run.name))[0]?.data.metrics ?? [];
    expect(metrics).toContainEqual(expect.objectContaining({ key: 'judged_better', value: 2 }));
  },
  TEST_MS,
);

test(
  'one that fails in order says why too, and a run that has ended stays as it is',
  async () => {
    const run = await sent('in-order', { judge: false });
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayNotEvaluated', publish: true });
    await run.publish();
    const before = await inMlflow(run);
    expect(before).toMatchObject({
      status: 'FAILED',
      why: expect.stringMatching(/^ReplayNotEvaluated: 2 shards \(0, 1\) were not evaluated/),
    });
    expect(await endRun(run)).toEqual({ runId: before.id, status: 'FAILED' });
    expect(await inMlflow(run)).toEqual(before);
  },
  TEST_MS,
);

describe('killed where it was stopped', () => {
  test(
    'by an order, whether the summary was made or not',
    async () => {
      const run = await sent('ordered', { judge: false });
      await all.cloud.storage.putText(WORK, replayKeys.stop(run.name), 'enough');
      expect(await endRun(run)).toMatchObject({ status: 'KILLED' });
      const summarized = await sent('ordered');
      await all.cloud.storage.putText(WORK, replayKeys.stop(summarized.name), 'enough');
      expect(await summarized.summarize()).toMatchObject({ error: 'ReplayCancelled' });
      expect(await endRun(summarized)).toMatchObject({ status: 'KILLED' });
    },
    TEST_MS,
  );

  test(
    'unless the order came after all was done',
    async () => {
      const run = await sent('late-order', { judge: false });
      await all.evaluateAll(run, 2);
      await all.cloud.storage.putText(WORK, replayKeys.stop(run.name), 'enough');
      expect(await run.summarize()).toMatchObject({ ok: true });
      // It cannot be published.
      expect(await endRun(run)).toMatchObject({ status: 'FAILED' });
    },
    TEST_MS,
  );

  test.each([
    ['ABORTED', 'KILLED'],
    ['TIMED_OUT', 'KILLED'],
    ['FAILED', 'FAILED'],
  ])(
    'by the event that tells of its execution: %s',
    async (status, expected) => {
      const run = await sent(`event-${status}`, { judge: false });
      const { runId } = await end({
        detail: { executionArn: arnOf(run), status },
        unfinished: { Error: 'Sandbox.Timedout' },
      });
      expect(await inMlflow(run)).toEqual({
        id: runId,
        status: expected,
        ended: true,
        why: 'The replay was not brought to its end. Sandbox.Timedout',
      });
    },
    TEST_MS,
  );
});

test(
  'without its plan it is found by what the input asked for',
  async () => {
    const run = await sent('planless', { judge: false, experiment: 'by-name' });
    await take(replayKeys.plan(run.name));
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayNotPlanned', publish: false });
    // Another stack's, of the same name, is none of its business.
    expect(
      await end({
        run: { name: run.name, arn: 'arn:other' },
        unfinished: UNFINISHED,
        input: inputOf('planless', { experiment: 'by-name' }),
      }),
    ).toEqual({ runId: null, status: null });
    expect(await inMlflow(run, 'by-name')).toMatchObject({ status: 'RUNNING' });
    expect(await endRun(run, inputOf('planless', { experiment: 'by-name' }))).toMatchObject({ status: 'FAILED' });
    expect(await inMlflow(run, 'by-name')).toMatchObject({ status: 'FAILED', ended: true });
  },
  TEST_MS,
);

test(
  'a replay without MLflow, and one that never had a plan, have no run: MLflow is not asked for anything it need not be',
  async () => {
    const run = await sent('without', { mlflow: false, judge: false });
    all.mlflowProxy.requests.length = 0;
    expect(await endRun(run, inputOf('without', { mlflow: false }))).toEqual({ runId: null, status: null });
    for (const input of [
      undefined,
      'no object',
      { target: 1 },
      inputOf('x', { mlflow: false }),
      inputOf('x', { dryRun: true }),
    ]) {
      expect(await endRun(all.cloud.run({}), input)).toEqual({ runId: null, status: null });
    }
    expect(all.mlflowProxy.requests).toEqual([]);
    expect(await endRun(all.cloud.run({}), inputOf('x', { experiment: 'never made' }))).toEqual({
      runId: null,
      status: null,
    });
    expect(await all.api('2.0/mlflow/experiments/search', { max_results: 100 })).not.toMatchObject({
      experiments: expect.arrayContaining([expect.objectContaining({ name: 'never made' })]),
    });
  },
  TEST_MS,
);

test(
  'what cannot be read any more does not keep it open; an MLflow that is away is an error to try again on',
  async () => {
    const run = await sent('unreadable', { judge: false });
    await all.cloud.storage.putText(WORK, replayKeys.publication(run.name), '{');
    all.mlflowProxy.rule(() => ({ kind: 'reply', status: 503 }));
    await expect(endRun(run)).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    all.heal();
    expect(await endRun(run)).toMatchObject({ status: 'FAILED' });
  },
  TEST_MS,
);

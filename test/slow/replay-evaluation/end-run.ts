/** Tests of cloud replays that are stopped or that fail: their MLflow run ends with the reason, and can be completed later. */
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import { type EndedExecution, endReplayRunRequestSchema } from '../../../src/core/contract/replay.ts';
import { replayKeys } from '../../../src/core/contract/work-keys.ts';
import { recordedError } from '../../../src/core/errors/errors.ts';
import { endReplayRun } from '../../../src/replay/cloud/publish/end-replay-run.ts';
import { stopReplay } from '../../../src/replay/cloud/stop/stop-replay.ts';
import type { RunInMlflow } from '../../helpers/mlflow-api.ts';
import { chatLine } from '../../helpers/replay.ts';
import { type CloudRun, WORK } from '../../helpers/replay-cloud.ts';
import { all } from '../../integration/replay-evaluation/servers.ts';

/** The error of a Lambda as Step Functions passes it on. */
const UNFINISHED = {
  Error: 'StorageAccessDenied',
  Cause: '{"errorType":"StorageAccessDenied","errorMessage":"S3 denied access; where: s3://work/x","trace":[]}',
};

const inputOf = (name: string, more: object = {}) => ({
  source: { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}/` },
  target: { url: all.endpoint.url },
  judge: true,
  mlflow: true,
  ...more,
});

/** Plans a replay with two shards, and sends the given ones. */
async function sent(name: string, more: object = {}, shards: readonly number[] = [0, 1]): Promise<CloudRun> {
  await all.cloud.put(`${name}/00`, [
    chatLine('a', 0, 'Where is parcel 8841 today?', 'No idea.'),
    chatLine('b', 2, 'When does it leave the garden?', 'No idea.'),
  ]);
  const run = all.cloud.run(inputOf(name, { shard: { seconds: 1 }, ...more }));
  expect((await run.plan(0)).shards).toBe(2);
  await Promise.all(shards.map((shard) => run.shard(shard)));
  return run;
}

const arnOf = ({ name }: CloudRun) => `arn:aws:states:us-east-1:0:execution:replay:${name}`;

/** Calls the function with a request that passed through JSON and its schema, as from the state machine. */
const end = (request: object) =>
  endReplayRun(endReplayRunRequestSchema.parse(JSON.parse(JSON.stringify(request))), {
    storage: all.cloud.storage,
    workBucket: WORK,
    capturesExperiment: 'my-endpoint',
    mlflow: all.cloud.mlflow,
  });
const endRun = (run: CloudRun, input?: unknown) =>
  end({ run: { name: run.name, arn: arnOf(run), startTime: '' }, unfinished: UNFINISHED, input });
const order = (run: CloudRun) => all.cloud.storage.putText(WORK, replayKeys.stop(run.name), 'enough');
/** @param summarize replaces SummarizeReplay */
const stop = (run: CloudRun, status: EndedExecution['detail']['status'], summarize = () => run.summarize()) =>
  stopReplay(
    { detail: { executionArn: arnOf(run), status } },
    {
      storage: all.cloud.storage,
      workBucket: WORK,
      summarize,
      publish: () => run.publish(),
      endRun: end,
      remainingMs: () => 900_000,
    },
  );
const take = (key: string) => all.cloud.s3.send(new DeleteObjectCommand({ Bucket: WORK, Key: key }));

async function inMlflow(run: CloudRun, experiment?: string) {
  const [made, ...more] = await all.runsOf(run.name, experiment);
  expect(more).toEqual([]);
  const { info, data } = made as RunInMlflow;
  const why = data.tags?.find(({ key }) => key === 'replay_error')?.value;
  return { id: info.run_id, status: info.status, ended: (info.end_time ?? 0) > 0, why };
}

describe('the end of an MLflow run', () => {
  test('does not change a run that has already ended', async () => {
    const run = await sent('in-order', { judge: false });
    expect(await run.summarize()).toMatchObject({ ok: true, publish: true });
    await run.publish();
    const before = await inMlflow(run);
    expect(before).toMatchObject({ status: 'FINISHED' });
    expect(await endRun(run)).toEqual({ runId: before.id, status: 'FINISHED' });
    expect(await inMlflow(run)).toEqual(before);
  });

  describe('ends the run as killed or failed', () => {
    test('killed after a stop order, with or without a summary', async () => {
      const run = await sent('ordered', { judge: false });
      await order(run);
      expect(await endRun(run)).toMatchObject({ status: 'KILLED' });
      const summarized = await sent('ordered-early', {}, [0]);
      await order(summarized);
      expect(await summarized.summarize()).toMatchObject({ error: 'ReplayCancelled' });
      // Who stops a replay pays no judge.
      expect(all.cloud.started.has(`replay-${summarized.name}`)).toBe(false);
      expect(await endRun(summarized)).toMatchObject({ status: 'KILLED' });
    });

    test('failed if the stop order came too late to have an effect', async () => {
      const run = await sent('late-order', { judge: false });
      await order(run);
      expect(await run.summarize()).toMatchObject({ ok: true });
      // The publication fails.
      expect(await endRun(run)).toMatchObject({ status: 'FAILED' });
    });

    test.each([
      ['ABORTED', 'KILLED'],
      ['FAILED', 'FAILED'],
    ] as const)('by the status of its execution if it cannot be summarized: %s', async (status, expected) => {
      const run = await sent(`execution-${status}`, { judge: false });
      const died = recordedError({ name: 'Sandbox.Timedout', message: 'Task timed out' });
      await expect(stop(run, status, () => Promise.reject(died))).rejects.toBe(died);
      expect(await inMlflow(run)).toMatchObject({
        status: expected,
        ended: true,
        why: expect.stringMatching(/^The replay could not be completed\. Sandbox\.Timedout/),
      });
    });
  });

  test('finds the run by the input if there is no plan', async () => {
    const run = await sent('planless', { judge: false, experiment: 'by-name' });
    await take(replayKeys.plan(run.name));
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayNotPlanned', publish: false });
    // An execution of another stack with the same name has another run.
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
  });

  test('does not call MLflow for a replay without MLflow or without a valid input', async () => {
    const run = await sent('without', { mlflow: false, judge: false });
    all.mlflowProxy.requests.length = 0;
    expect(await endRun(run, inputOf('without', { mlflow: false, judge: false }))).toEqual({
      runId: null,
      status: null,
    });
    for (const input of [
      undefined,
      'not an object',
      { target: 1 },
      inputOf('x', { mlflow: false, judge: false }),
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
  });

  test('ends the run despite an unreadable object, and fails with a retryable error if MLflow is unavailable', async () => {
    const run = await sent('unreadable', { judge: false });
    await all.cloud.storage.putText(WORK, replayKeys.publication(run.name), '{');
    all.mlflowProxy.rule(() => ({ kind: 'reply', status: 503 }));
    await expect(endRun(run)).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    all.heal();
    expect(await endRun(run)).toMatchObject({ status: 'FAILED' });
  });
});

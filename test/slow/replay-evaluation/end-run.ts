/** Tests of cloud replays that are stopped or that fail: their MLflow run ends with the reason, and can be completed later. */
import { replayKeys } from '../../../src/core/contract/work-keys.ts';
import { recordedError } from '../../../src/core/errors/errors.ts';
import type { Behavior } from '../../doubles/misbehaving-server.ts';
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

const order = (run: CloudRun) => all.cloud.storage.putText(WORK, replayKeys.stop(run.name), 'enough');
/** MLflow refuses figures, and nothing else. */
const refuseFigures = (fault: Behavior = { kind: 'reply', status: 400, body: '{}' }) =>
  all.mlflowProxy.rule(({ path }) => (path.endsWith('/runs/log-batch') ? fault : undefined));

async function inMlflow(run: CloudRun) {
  const [made, ...more] = await all.runsOf(run.name);
  expect(more).toEqual([]);
  const { info, data } = made as RunInMlflow;
  const why = data.tags?.find(({ key }) => key === 'replay_error')?.value;
  return { status: info.status, ended: (info.end_time ?? 0) > 0, why };
}

describe('the end of an MLflow run', () => {
  afterEach(() => all.heal());

  test('killed after a stop order, and nobody is asked to pay a judge', async () => {
    const run = await sent('ordered', {}, [0]);
    await order(run);
    expect(await run.summarize()).toMatchObject({ error: 'ReplayCancelled' });
    expect(all.cloud.started.has(`replay-${run.name}`)).toBe(false);
    expect(await inMlflow(run)).toMatchObject({ status: 'KILLED', why: expect.stringMatching(/^ReplayCancelled: /) });
  });

  test('failed if MLflow refuses the figures, even after a stop order that came too late, and complete if it has them later', async () => {
    const run = await sent('late-order', { judge: false });
    await order(run);
    refuseFigures();
    await expect(run.summarize()).rejects.toMatchObject({ name: 'MlflowRefused' });
    expect(await inMlflow(run)).toMatchObject({
      status: 'FAILED',
      why: expect.stringMatching(/^The replay could not be completed\. MlflowRefused: /),
    });
    all.heal();
    expect(await run.ended('FAILED')).toEqual({ mlflow: expect.objectContaining({ leftOut: [] }) });
    expect(await inMlflow(run)).toMatchObject({ status: 'FINISHED', why: undefined });
  });

  test('missing requests matter more than the error of MLflow, until the execution has ended', async () => {
    const run = await sent('cut-off', { judge: false }, [0]);
    refuseFigures({ kind: 'reply', status: 503 });
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayIncomplete' });
    expect(await inMlflow(run)).toMatchObject({ status: 'FAILED', why: expect.stringContaining('MlflowUnavailable') });
    // So that Lambda tries again.
    await expect(run.ended('FAILED')).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    all.heal();
    await run.ended('FAILED');
    expect(await inMlflow(run)).toMatchObject({ status: 'FAILED', why: expect.stringMatching(/^ReplayIncomplete: /) });
  });

  test.each([
    ['ABORTED', 'KILLED'],
    ['FAILED', 'FAILED'],
    [undefined, 'FAILED'],
  ] as const)('by the status of its execution if it cannot be summarized: %s', async (status, expected) => {
    const run = await sent(`execution-${status}`, { judge: false });
    const denied = recordedError({ name: 'StorageAccessDenied', message: 'S3 denied access' });
    const { storage } = all.cloud;
    const { putText } = storage;
    storage.putText = () => Promise.reject(denied);
    try {
      await expect(status ? run.ended(status) : run.summarize()).rejects.toBe(denied);
    } finally {
      storage.putText = putText;
    }
    const why = 'The replay could not be completed. StorageAccessDenied: S3 denied access';
    expect(await inMlflow(run)).toMatchObject({ status: expected, ended: true, why });
  });

  test('of a plan that another version of the stack has made, and keeps the reason of the first failure', async () => {
    const run = await sent('planned-before', { judge: false });
    const plan = await run.stored();
    await all.cloud.storage.putJson(WORK, replayKeys.plan(run.name), { ...plan, contract: plan.contract + 1 });
    await expect(run.summarize()).rejects.toMatchObject({ name: 'ContractChanged' });
    const ended = await inMlflow(run);
    expect(ended).toMatchObject({ status: 'FAILED', ended: true });
    expect(ended.why).toMatch(/^The replay could not be completed\. ContractChanged: /);
    await expect(run.ended('ABORTED')).rejects.toMatchObject({ name: 'ContractChanged' });
    expect(await inMlflow(run)).toEqual(ended);
  });

  test('does not call MLflow for a replay without MLflow or without a plan', async () => {
    const run = await sent('without', { mlflow: false, judge: false });
    all.mlflowProxy.requests.length = 0;
    expect(await run.summarize()).toMatchObject({ ok: true });
    expect(await all.cloud.run(inputOf('x')).summarize(UNFINISHED)).toMatchObject({
      ok: false,
      error: 'StorageAccessDenied',
      cause: 'S3 denied access; where: s3://work/x',
    });
    expect(await all.cloud.run(inputOf('x')).summarize()).toMatchObject({ ok: false, error: 'ReplayNotPlanned' });
    expect(all.mlflowProxy.requests).toEqual([]);
  });
});

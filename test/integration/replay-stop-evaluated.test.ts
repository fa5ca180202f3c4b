/** What becomes of the judge and of the run in MLflow when a replay in the cloud is stopped; all that is talked to is real. */
import { stopReplay } from '../../lambda/replay/cloud/stop-replay.ts';
import { replayKeys } from '../../lambda/replay-contract.ts';
import { chatLine } from '../helpers/replay.ts';
import { type CloudRun, WORK } from '../helpers/replay-cloud.ts';
import { EvaluatedReplays } from '../helpers/replay-evaluation.ts';

const START_MS = 6 * 60_000;
const TEST_MS = 5 * 60_000;
const IN_TIME_MS = 5_000;

let all: EvaluatedReplays;

beforeAll(async () => {
  all = await EvaluatedReplays.start();
}, START_MS);
afterAll(() => all?.stop());
beforeEach(() => all.heal());

const input = (name: string) => ({
  source: { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}` },
  target: { url: all.endpoint.url },
  judge: true,
  mlflow: true,
});
const order = (run: CloudRun) => all.cloud.storage.putText(WORK, replayKeys.stop(run.name), 'enough');
const statuses = async (run: CloudRun) => (await all.runsOf(run.name)).map(({ info }) => info.status);

test(
  'stopped while it sends: as after Ctrl-C, what was sent is in MLflow, nothing is judged, and the run is killed',
  async () => {
    // Four a second for a minute.
    await all.cloud.put(
      'sending/00',
      Array.from({ length: 240 }, (_, i) => chatLine(`s-${i}`, i / 4, `Where is parcel ${i}?`, 'No idea.')),
    );
    const run = all.cloud.run(input('sending'));
    await run.plan(IN_TIME_MS);
    const sending = run.shard(0);
    while (all.endpoint.requests.length < 4) await new Promise((resolve) => setTimeout(resolve, 20));
    await order(run);
    const { sent } = await sending;
    // The execution goes on where the order was put by hand.
    expect(await run.evaluate(0)).toEqual({ done: true, shard: 0, traces: sent, judged: 0 });
    expect(all.judgeProxy.requests).toEqual([]);
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayCancelled', publish: true });
    await run.publish();
    expect(await statuses(run)).toEqual(['KILLED']);
  },
  TEST_MS,
);

test(
  'its execution was stopped before anything was evaluated, or before a shard began',
  async () => {
    await all.cloud.put('aborted/00', [
      chatLine('a-0', 0, 'Where?', 'No idea.'),
      chatLine('a-1', 3, 'When?', 'No idea.'),
    ]);
    const run = all.cloud.run({ ...input('aborted'), shard: { seconds: 1 } });
    await run.plan(IN_TIME_MS);
    await run.shard(0);
    const executionArn = `arn:aws:states:us-east-1:000000000000:execution:replay:${run.name}`;
    const ended = { detail: { executionArn, status: 'ABORTED' as const } };
    expect(
      await stopReplay(ended, { storage: all.cloud.storage, workBucket: WORK, stopExecution: async () => false }),
    ).toMatchObject({
      next: 'summarize',
      shards: { begun: 1, underWay: 0 },
    });
    const { ok, error, cause, publish } = await run.summarize();
    expect({ ok, error, publish }).toEqual({ ok: false, error: 'ReplayCancelled', publish: true });
    expect(cause).toMatch(
      /1 shards with 1 requests had not begun \(1\); 1 shards \(0\) were not evaluated to their end/,
    );
    await run.publish();
    expect(await statuses(run)).toEqual(['KILLED']);
    // Once more, as when the event comes twice.
    await run.summarize();
    await run.publish();
    expect(await statuses(run)).toEqual(['KILLED']);
  },
  TEST_MS,
);

test(
  'stopped while it is planned: nothing is planned further, and the run that was made is killed',
  async () => {
    await all.cloud.put('planning/00', [chatLine('p', 0, 'Where?', 'No idea.')]);
    const run = all.cloud.run(input('planning'));
    await order(run);
    await expect(run.plan(IN_TIME_MS)).rejects.toMatchObject({ name: 'ReplayStopped' });
    expect(await statuses(run)).toEqual(['KILLED']);
    // Had its shards been called all the same:
    expect(await run.shard(0)).toMatchObject({ sent: 0, unsent: 1 });
    expect(all.endpoint.requests).toEqual([]);
  },
  TEST_MS,
);

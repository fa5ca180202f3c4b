/** Stopping a replay in the cloud: its functions in this process, S3 in the emulator, a real HTTP server. */
import { Storage } from '../../lambda/common/storage.ts';
import { replayShard } from '../../lambda/replay/cloud/shard/shard.ts';
import { replayKeys } from '../../lambda/replay-contract.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../../local/stand-in-endpoint.ts';
import { chatLine } from '../helpers/replay.ts';
import { CloudReplays, type CloudRun, WORK } from '../helpers/replay-cloud.ts';

const START_MS = 5 * 60_000;
const TEST_MS = 5 * 60_000;
const PLENTY_MS = 900_000;

let cloud: CloudReplays;
let endpoint: StandInEndpoint;

beforeAll(async () => {
  cloud = await CloudReplays.start();
  endpoint = await startStandInEndpoint({ latencyMs: 10, record: true });
}, START_MS);
afterAll(async () => {
  await endpoint?.close();
  await cloud?.stop();
});
beforeEach(() => {
  endpoint.requests.length = 0;
});

const source = (name: string) => ({ prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}` });
const order = (run: CloudRun) => cloud.storage.putText(WORK, replayKeys.stop(run.name), 'enough');

/** Waits until so many requests have reached the endpoint. */
async function arrived(count: number): Promise<void> {
  while (endpoint.requests.length < count) await new Promise((resolve) => setTimeout(resolve, 20));
}

test(
  'a shard that sends ends within seconds of the order, one that is called after it does not begin',
  async () => {
    // Four a second for a minute, of which every fourth is not answered for as long.
    await cloud.put(
      'stop/00',
      Array.from({ length: 240 }, (_, i) => chatLine(`s-${i}`, i / 4, i % 4 ? `${i}` : `[[latency 60000]] ${i}`)),
    );
    const run = cloud.run({ source: source('stop'), target: { url: endpoint.url }, shard: { seconds: 30 } });
    expect((await run.plan(1_000)).shards).toBe(2);
    const sending = run.shard(0);
    await arrived(8);
    await order(run);
    const counts = await sending;
    const atEnd = endpoint.requests.length;
    expect(counts).toMatchObject({ shard: 0, sent: atEnd, skipped: 0 });
    // It had a minute's requests to send and to wait for.
    expect(atEnd).toBeLessThan(120);
    expect(counts.unsent).toBe(120 - counts.sent);
    expect(await run.shard(1)).toEqual({ shard: 1, sent: 0, failed: 0, unsent: 120, skipped: 0, lateMs: 0 });
    expect(endpoint.requests).toHaveLength(atEnd);
    expect(await cloud.keys(replayKeys.claimPrefix(run.name))).toEqual(['0000.json']);

    const { ok, error, cause } = await run.summarize();
    expect([ok, error]).toEqual([false, 'ReplayCancelled']);
    expect(cause).toMatch(
      new RegExp(
        `^The replay was stopped at 20\\S+Z; 1 shards with 120 requests had not begun \\(1\\); ${counts.unsent} requests of 1 shards that had begun were not sent \\(0\\)$`,
      ),
    );
    // As after Ctrl-C: all that was sent has its record, and what was under way is marked.
    const records = await run.records();
    expect(records).toHaveLength(counts.sent);
    // What was prepared and not sent is no input.
    expect((await run.json<{ data: unknown[] }>('inputs.json')).data).toHaveLength(counts.sent);
    const cut = records.filter(({ metadata }) => metadata.was_cancelled);
    expect(cut.length).toBeGreaterThanOrEqual(2);
    expect(cut.length).toBeLessThan(counts.sent);
    for (const { error: why } of cut) {
      expect(why).toMatchObject({ code: 499, type: 'RequestCancellationError', message: 'The replay was stopped' });
    }
    expect(await run.json('profile_export_aiperf.json')).toMatchObject({
      was_cancelled: true,
      is_complete: false,
      incomplete_reason: expect.stringContaining('had not begun'),
    });
    expect(await run.json('replay.json')).toMatchObject({
      was_cancelled: true,
      requests: 240,
      sent: counts.sent,
      unsent: 240 - counts.sent,
      shards: {
        planned: 2,
        completed: 0,
        lost: [],
        not_begun: [{ shard: 1, requests: 120 }],
        incomplete: [{ shard: 0, requests: 120, unsent: counts.unsent, stopped: true, unread: 0 }],
      },
    });
    expect(await run.result('report.html')).toContain('had not begun');
  },
  TEST_MS,
);

test(
  'an order between the claim of a shard and its first request: nothing is sent, and the shard says so',
  async () => {
    await cloud.put('between/00', [chatLine('b-0', 0, 'one'), chatLine('b-1', 1, 'two')]);
    // Nothing listens there: it must not even be tried.
    const run = cloud.run({ source: source('between'), target: { url: 'http://127.0.0.1:9' } });
    await run.plan(500);
    /** Is told to stop as soon as it has its claim. */
    class Stopped extends Storage {
      override async putJsonIf(...claim: Parameters<Storage['putJsonIf']>): Promise<string | undefined> {
        const written = await super.putJsonIf(...claim);
        await order(run);
        return written;
      }
    }
    const dependencies = {
      storage: new Stopped(cloud.s3),
      environment: cloud.environment,
      remainingMs: () => PLENTY_MS,
    };
    expect(await replayShard({ run: run.name, shard: 0 }, dependencies)).toMatchObject({ sent: 0, unsent: 2 });
    // Whoever waits for it finds its result.
    expect(await cloud.keys(replayKeys.shardPrefix(run.name, 0))).toContain('result.json');
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayCancelled' });
    expect(await run.json('replay.json')).toMatchObject({ was_cancelled: true, requests: 2, sent: 0, unsent: 2 });
    expect(await run.records()).toEqual([]);
  },
  TEST_MS,
);

test(
  'an order during the warm-up ends that too',
  async () => {
    await cloud.put(
      'warm/00',
      Array.from({ length: 40 }, (_, i) => chatLine(`w-${i}`, 0, `[[latency 60000]] ${i}`)),
    );
    const run = cloud.run({ source: source('warm'), target: { url: endpoint.url }, warmup: 20 });
    // With a warm-up the clock starts half a minute later.
    await run.plan(-29_000);
    const sending = run.shard(0);
    await arrived(8);
    await order(run);
    expect(await sending).toMatchObject({ sent: 0, unsent: 40 });
    // As many as a warm-up has under way.
    expect(endpoint.requests).toHaveLength(8);
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayCancelled' });
  },
  TEST_MS,
);

test(
  'an order that comes when all is sent and answered changes nothing',
  async () => {
    await cloud.put('after/00', [chatLine('a', 0, 'one')]);
    const run = cloud.run({ source: source('after'), target: { url: endpoint.url } });
    await run.plan(500);
    await run.shard(0);
    await order(run);
    expect(await run.summarize()).toMatchObject({ ok: true });
    expect(await run.json('profile_export_aiperf.json')).toMatchObject({ was_cancelled: false, is_complete: true });
  },
  TEST_MS,
);

import { Masker } from '../../../src/captures/redact/mask.ts';
import { Storage } from '../../../src/core/aws/storage.ts';
import type { ShardManifestLine } from '../../../src/core/contract/replay.ts';
import { replayKeys } from '../../../src/core/contract/work-keys.ts';
import { type Redaction, redactRules } from '../../../src/core/settings/redact-setting.ts';
import { WRITE_RESERVE_MS } from '../../../src/replay/cloud/limits.ts';
import { replayShard } from '../../../src/replay/cloud/shard/shard.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../../doubles/recording-endpoint.ts';
import { inputsSchema, recordSchema, summarySchema } from '../../helpers/aiperf-files.ts';
import { chatBody, chatLine } from '../../helpers/replay.ts';
import { type CloudRun, WORK } from '../../helpers/replay-cloud.ts';
import { type Serving, serve } from '../../helpers/serve.ts';
import { cloud } from './servers.ts';

/** Enough time for planning on a busy machine, so that shards start on time. */
const IN_TIME_MS = 10_000;
/** Less time, for tests in which a late start does not matter. */
const SOON_MS = 1_000;

let endpoint: StandInEndpoint;

beforeAll(async () => {
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  endpoint = await startStandInEndpoint({
    latencyMs: 10,
    record: true,
    answer: ({ prompt }) => `You asked: ${prompt}`,
  });
});
afterAll(() => endpoint?.close());
beforeEach(() => {
  endpoint.requests.length = 0;
});

const source = (name: string) => ({ prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}/` });
const bodies = (): string[] => endpoint.requests.map(({ body }) => body.toString()).sort();
const msOf = (ns: number): number => ns / 1e6;

interface Own {
  shards: { planned: number; completed: number; lost: object[]; incomplete: object[]; late: { lateMs: number }[] };
  requests: number;
  sent: number;
  unsent: number;
  skipped: Record<string, number>;
  client_bottleneck: string | null;
}
const own = (run: CloudRun): Promise<Own> => run.json<Own>('replay.json');

/** Requests of the same second whose replies take this long. */
const slowLines = (id: string, ms: number, count: number): string[] =>
  Array.from({ length: count }, (_, i) => chatLine(`${id}-${i}`, 0, `[[latency ${ms}]] ${i}`));

test('sends three windows of two stripes, and leaves figures and parts in AIPerf’s formats', async () => {
  // Six seconds with four requests each.
  const first = Array.from({ length: 12 }, (_, i) =>
    chatLine(`a-${i}`, Math.floor(i / 4), `question ${i}`, `You asked: question ${i}`),
  );
  const second = Array.from({ length: 12 }, (_, i) =>
    chatLine(`b-${i}`, 3 + Math.floor(i / 4), `more of ${i}`, 'Something else.'),
  );
  await cloud.put('whole/00', [...first, 'not json']);
  await cloud.put('whole/01', second);
  const run = cloud.run({
    source: source('whole'),
    target: { url: endpoint.url },
    spreadSameSecond: 'even',
    compare: true,
    goodput: 'request_latency:60000',
    shard: { seconds: 2, requestsPerSecond: 2 },
  });
  const planned = await run.plan(IN_TIME_MS);
  const made = { bucket: 'work', key: `replays/${run.name}/manifest.jsonl` };
  expect(planned).toEqual({ outcome: 'planned', manifest: made, shards: 6 });
  const plan = await run.stored();
  const manifest = await cloud.lines<ShardManifestLine>(replayKeys.manifest(run.name));
  expect(manifest.map(({ run: name, shard }) => [name, shard])).toEqual([0, 1, 2, 3, 4, 5].map((i) => [run.name, i]));
  const counts = await Promise.all(manifest.map(({ shard }) => run.shard(shard)));
  expect(counts.map(({ sent }) => sent)).toEqual([4, 4, 4, 4, 4, 4]);
  expect(counts.map(({ unsent, skipped, failed }) => unsent + skipped + failed)).toEqual([0, 0, 0, 0, 0, 0]);

  const results = { bucket: 'work', prefix: `replays/${run.name}/results/` };
  expect(await run.summarize()).toEqual({ ok: true, error: '', cause: '', results });
  // Each captured body is sent once, byte for byte.
  const expected = [...first, ...second].map(
    (line) => (JSON.parse(line) as { captureData: { endpointInput: { data: string } } }).captureData.endpointInput.data,
  );
  expect(bodies()).toEqual(expected.sort());
  expect((await run.results()).sort()).toEqual(
    ['compare.json', 'profile_export_aiperf.csv', 'profile_export_aiperf.json', 'replay.json', 'report.html'].sort(),
  );

  const records = await run.records();
  for (const record of records) recordSchema.parse(record);
  expect(records).toHaveLength(24);
  // Every request is due at its captured time on the shared clock.
  for (const { metadata } of records) {
    const id = String(metadata.event_id);
    const i = Number(id.slice(2)) + (id.startsWith('b') ? 12 : 0);
    const due = 1000 * Math.floor(i / 4) + 250 * (i % 4);
    expect(msOf(metadata.scheduled_ns) - plan.startAtEpochMs).toBeCloseTo(due, 2);
    expect(metadata).toMatchObject({ conversation_id: id, session_num: i, turn_index: 0 });
    expect(metadata.request_start_ns).toBeGreaterThanOrEqual(metadata.scheduled_ns - 10e6);
  }
  expect(new Set(records.map(({ metadata }) => metadata.worker_id)).size).toBe(6);

  const summary = summarySchema.parse(await run.json('profile_export_aiperf.json')) as Record<string, unknown>;
  expect(summary).toMatchObject({ is_complete: true, was_cancelled: false, benchmark_id: run.name });
  expect(summary.request_latency).toMatchObject({ count: 24 });
  expect(summary.good_request_count).toMatchObject({ avg: 24 });

  const inputs = (await run.parts<object>('inputs.json')).map((part) => inputsSchema.parse(part));
  expect(inputs).toHaveLength(6);
  const sent = inputs.flatMap(({ data }) => data.flatMap(({ payloads }) => payloads.map((one) => JSON.stringify(one))));
  expect(sent.sort()).toEqual(expected);
  const { skipped_by_plan: skipped } = await run.json<{ skipped_by_plan: string }>('replay.json');
  expect(await cloud.lines(`replays/${run.name}/${skipped}`)).toMatchObject([{ line: 13, reason: 'NotJson' }]);
  expect(await run.parts('replies.jsonl')).toHaveLength(24);
  expect(await run.json('compare.json')).toMatchObject({
    quality: { compared: 24, identical: 12 },
    withoutCaptured: 0,
  });
  expect(await own(run)).toMatchObject({
    shards: { planned: 6, completed: 6, lost: [], incomplete: [], late: [] },
    requests: 24,
    sent: 24,
    unsent: 0,
    skipped: { NotJson: 1 },
    parts: [0, 1, 2, 3, 4, 5].map((shard) => `shards/000${shard}/`),
  });
  const page = await run.result('report.html');
  expect(page).toContain('Latency over time');
  expect(page).not.toContain('shards lost');

  // A second call of a shard sends nothing.
  const before = endpoint.requests.length;
  await expect(run.shard(3)).rejects.toMatchObject({ name: 'ShardAlreadyClaimed' });
  expect(endpoint.requests).toHaveLength(before);
});

test('a late shard keeps the intervals of its requests, and its delay counts as lag', async () => {
  await cloud.put(
    'late/00',
    Array.from({ length: 8 }, (_, i) => chatLine(`l-${i}`, 0.2 * i, `late ${i}`)),
  );
  const run = cloud.run({ source: source('late'), target: { url: endpoint.url } });
  // The clock started five seconds before planning.
  expect(await run.all(-5_000)).toMatchObject({ ok: true });
  const records = await run.records();
  expect(records).toHaveLength(8);
  const lags = records.map(({ metadata }) => msOf(metadata.request_start_ns - metadata.scheduled_ns));
  expect(Math.min(...lags)).toBeGreaterThanOrEqual(5_000);
  const { shards, client_bottleneck: bottleneck } = await own(run);
  const late = shards.late[0]?.lateMs ?? 0;
  expect(late).toBeGreaterThanOrEqual(5_000);
  // No request is early on the shifted clock: the last one is as late as the first.
  for (const lag of lags) expect(lag).toBeGreaterThanOrEqual(late - 10);
  const dues = records.map(({ metadata }) => msOf(metadata.scheduled_ns)).sort((a, b) => a - b);
  expect((dues.at(-1) ?? 0) - (dues[0] ?? 0)).toBeCloseTo(1_400, 2);
  const summary = await run.json<Record<string, { min: number; avg: number }>>('profile_export_aiperf.json');
  expect(summary.effective_latency?.min).toBeGreaterThanOrEqual(5_000);
  expect(bottleneck).toMatch(/this client was busy/);
  expect(await run.result('report.html')).toMatch(/Shards that started late: 1 \(0\)/);
});

describe('fails with partial results', () => {
  test('if a shard runs out of time', async () => {
    await cloud.put('slow/00', slowLines('s', 500, 40));
    const run = cloud.run({ source: source('slow'), target: { url: endpoint.url }, concurrency: 1 });
    expect((await run.plan(500)).shards).toBe(1);
    const counts = await run.shard(0, WRITE_RESERVE_MS + 4_000);
    expect(counts.unsent).toBeGreaterThan(20);
    expect(counts.sent + counts.unsent).toBe(40);
    const result = await run.summarize();
    expect(result).toMatchObject({ ok: false, error: 'ReplayIncomplete' });
    expect(result.cause).toMatch(
      new RegExp(`requests not sent because their shard ran out of time: ${counts.unsent} `),
    );
    expect(await run.records()).toHaveLength(counts.sent);
  });

  test('if a capture was overwritten after planning', async () => {
    await cloud.put('changed/00', [chatLine('c-0', 0, 'kept')]);
    await cloud.put('changed/01', [chatLine('c-1', 0, 'old')]);
    const run = cloud.run({ source: source('changed'), target: { url: endpoint.url } });
    await run.plan(1_000);
    await cloud.put('changed/01', [chatLine('c-1', 0, 'new')]);
    expect(await run.shard(0)).toMatchObject({ sent: 1, skipped: 1 });
    const result = await run.summarize();
    expect(result).toMatchObject({ ok: false, error: 'ReplayIncomplete' });
    expect(result.cause).toMatch(/requests not sent because their captures could no longer be read: 1/);
    expect(await own(run)).toMatchObject({ sent: 1, skipped: { CaptureChanged: 1 } });
    expect(bodies()).toEqual([chatBody('kept')]);
  });
});

describe('concurrency', () => {
  let server: Serving;
  let inFlight: number;
  let most: number;

  beforeEach(async () => {
    inFlight = 0;
    most = 0;
    server = await serve((request, response) => {
      inFlight++;
      most = Math.max(most, inFlight);
      request.resume();
      setTimeout(() => {
        inFlight--;
        response.end('{"done":true}');
      }, 50);
    });
  });
  afterEach(() => server.close());

  test.each([
    ['concurrency', { concurrency: 5 }],
    ['maxConcurrency', { maxConcurrency: 5 }],
  ])('%s is never exceeded by all shards together', async (_, options) => {
    const name = `cap-${Object.keys(options)[0]}`;
    await cloud.put(
      `${name}/00`,
      Array.from({ length: 60 }, (__, i) => chatLine(`k-${i}`, 0, `k ${i}`)),
    );
    const run = cloud.run({ source: source(name), target: { url: server.url }, shard: { requests: 25 }, ...options });
    expect(await run.all(SOON_MS)).toMatchObject({ ok: true });
    const { shards, startAtEpochMs } = await run.stored();
    expect(shards.map(({ maxConcurrency, requests }) => `${maxConcurrency} ${requests}`)).toEqual([
      '2 20',
      '2 20',
      '1 20',
    ]);
    expect(most).toBeLessThanOrEqual(5);
    const records = await run.records();
    expect(records).toHaveLength(60);
    // No request is sent before the shared clock starts.
    for (const { metadata } of records) expect(msOf(metadata.request_start_ns)).toBeGreaterThan(startAtEpochMs - 10);
  });
});

test('calls InvokeEndpoint, with an uncounted warm-up and different cancellations for each shard', async () => {
  await cloud.put('sm/00', slowLines('m', 300, 40));
  const run = cloud.run(
    {
      source: source('sm'),
      target: { endpoint: 'my-endpoint-v2', variant: 'Blue' },
      warmup: 3,
      requestCancellationRate: 50,
      requestCancellationDelay: 0.1,
      shard: { requests: 20 },
    },
    { AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpoint.url },
  );
  // With a warm-up, the clock starts half a minute later.
  expect(await run.all(SOON_MS - 30_000)).toMatchObject({ ok: true });
  const records = await run.records();
  expect(records).toHaveLength(40);
  expect(endpoint.requests).toHaveLength(43);
  expect(endpoint.requests.every(({ url }) => url === '/endpoints/my-endpoint-v2/invocations')).toBe(true);
  const warm = endpoint.requests.filter(({ headers }) =>
    String(headers['x-amzn-sagemaker-custom-attributes']).startsWith(`replay_run=${run.name}-warmup`),
  );
  expect(warm).toHaveLength(3);
  const choices = ['shard_0', 'shard_1'].map((worker) =>
    records
      .filter(({ metadata }) => metadata.worker_id === worker)
      .sort((a, b) => Number(a.metadata.line) - Number(b.metadata.line))
      .map(({ metadata }) => metadata.was_cancelled),
  );
  expect(choices[0]).toHaveLength(20);
  expect(choices[0]).not.toEqual(choices[1]);
  expect(new Set(records.map(({ metadata }) => metadata.inference_id)).size).toBe(40);
});

describe('sends nothing', () => {
  test('if planning runs out of time', async () => {
    await cloud.put(
      'dry/00',
      Array.from({ length: 6 }, (_, i) => chatLine(`d-${i}`, i, `dry ${i}`, 'Fine.')),
    );
    const input = { source: source('dry'), target: { url: endpoint.url } };
    await expect(cloud.run(input).plan(0, 180_000)).rejects.toMatchObject({
      name: 'ReplayTooLarge',
      message: expect.stringMatching(/the function had time for 0 of 1 files, 0 records; .*narrow the window/),
    });
    // Reading asks for the time at the file and at each record.
    const whileReading = 7;
    // The captures are read in time, but there is no time for the schedule.
    let asked = 0;
    const slow = () => (++asked > whileReading ? 29_000 : 900_000);
    await expect(cloud.run(input).plan(0, slow)).rejects.toMatchObject({
      name: 'ReplayTooLarge',
      message: expect.stringMatching(/had time for 0 requests of the schedule; .*narrow/),
    });
    let calls = 0;
    // The captures are indexed in time, but there is no time to count them.
    const late = () => (++calls > whileReading ? 0 : 900_000);
    await expect(cloud.run({ ...input, dryRun: true }).plan(0, late)).rejects.toMatchObject({
      name: 'ReplayTooLarge',
      message: expect.stringMatching(/got: the function had time for 0 requests/),
    });
  });

  test('if the window has no requests', async () => {
    const window = { from: '2026-11-20T10:59:00Z', to: '2026-11-20T10:59:01Z' };
    const run = cloud.run({ source: { ...source('dry'), ...window }, target: { url: endpoint.url } });
    expect(await run.plan(500)).toMatchObject({ outcome: 'empty', shards: 0 });
    const cause = 'Nothing was sent: the window has no requests';
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'NothingSent', cause });
    expect(await own(run)).toMatchObject({ requests: 0, sent: 0, shards: { planned: 0 } });
  });
});

test('after a rotation, a shard masks with the key that the replay was planned with', async () => {
  const rules = { ...redactRules('email'), allow: [], content: 'all' as const };
  const keys: Record<string, Redaction> = {
    planned: { ...rules, key: 'a', keyVersion: 'planned' },
    present: { ...rules, key: 'b', keyVersion: 'present' },
  };
  await cloud.put('rotated/00', [chatLine('r-0', 0, 'mail jane@example.com')]);
  const target = { url: endpoint.url };
  const run = cloud.run({ source: source('rotated'), target }, { redaction: keys.planned });
  await run.plan(SOON_MS);
  const doors = { REPLAY_URLS: [new URL(endpoint.url).origin], AWS_ENDPOINT_URL: cloud.aws.url };
  const environment = { ...cloud.settings, ...doors };
  await replayShard(
    { run: run.name, shard: 0 },
    {
      ...{ storage: cloud.storage, environment, remainingMs: () => 900_000 },
      redacted: async (version = 'present') => ({ ...environment, redaction: keys[version] }),
    },
  );
  const inputs = await cloud.text(`${replayKeys.shardPrefix(run.name, 0)}inputs.json`);
  expect(inputs).toContain(new Masker(keys.planned as Redaction).text('jane@example.com'));
  expect(inputs).not.toContain('jane@');
});

describe('a stop order', () => {
  const order = (run: CloudRun) => cloud.storage.putText(WORK, replayKeys.stop(run.name), 'enough');

  /** Waits until this many requests have reached the endpoint. */
  async function arrived(count: number): Promise<void> {
    while (endpoint.requests.length < count) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  test('sends nothing if it comes between the claim of a shard and its first request', async () => {
    await cloud.put('between/00', [chatLine('b-0', 0, 'one'), chatLine('b-1', 1, 'two')]);
    // Nothing listens here, so that an attempt to connect would fail.
    const run = cloud.run({ source: source('between'), target: { url: 'http://127.0.0.1:9' } });
    await run.plan(500);
    /** Writes the stop order right after the claim. */
    class Stopped extends Storage {
      override async putJsonIf(...claim: Parameters<Storage['putJsonIf']>): Promise<string | undefined> {
        const written = await super.putJsonIf(...claim);
        await order(run);
        return written;
      }
    }
    const { settings: environment } = cloud;
    const reading = { storage: new Stopped(cloud.s3), redacted: async () => environment };
    const dependencies = { ...reading, environment, remainingMs: () => 900_000 };
    expect(await replayShard({ run: run.name, shard: 0 }, dependencies)).toMatchObject({ sent: 0, unsent: 2 });
    // The summary, which waits for it, finds its result.
    expect(await cloud.keys(replayKeys.shardPrefix(run.name, 0))).toContain('result.json');
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayCancelled' });
    expect(await run.json('replay.json')).toMatchObject({ was_cancelled: true, requests: 2, sent: 0, unsent: 2 });
    expect(await run.records()).toEqual([]);
  });

  test('ends the warm-up', async () => {
    await cloud.put('warm/00', slowLines('w', 60_000, 40));
    const run = cloud.run({ source: source('warm'), target: { url: endpoint.url }, warmup: 20 });
    // With a warm-up, the clock starts half a minute later.
    await run.plan(-29_000);
    const sending = run.shard(0);
    await arrived(8);
    await order(run);
    expect(await sending).toMatchObject({ sent: 0, unsent: 40 });
    // A warm-up has eight requests in flight.
    expect(endpoint.requests).toHaveLength(8);
    expect(await run.summarize()).toMatchObject({ ok: false, error: 'ReplayCancelled' });
  });
});

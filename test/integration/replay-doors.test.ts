/** Where a replay in the cloud sends to, and how its requests are known: with a real server, an emulated S3 and the real functions. */
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { CreateFunctionCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { OUTPUT_PARAMETERS, outputPath } from '../../src/core/contract/names.ts';
import { markKeys, replayKeys } from '../../src/core/contract/work-keys.ts';
import { isOwnAddress } from '../../src/replay/cloud/target.ts';
import { ConnectionPool } from '../../src/replay/http/pool.ts';
import { registerReplay, replayInferenceId } from '../../src/replay/marks/believe.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { emulated } from '../helpers/emulated.ts';
import { chatLine, ReplayFolder, runCli } from '../helpers/replay.ts';
import { CAPTURES, CloudReplays, PREFIX, WORK } from '../helpers/replay-cloud.ts';
import { type Serving, serve } from '../helpers/serve.ts';

const HOUR_S = 3600;

let cloud: CloudReplays;
let endpoint: StandInEndpoint;
let port: number;
let redirecting: Serving;

beforeAll(async () => {
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  endpoint = await startStandInEndpoint({ record: true });
  port = Number(new URL(endpoint.url).port);
  redirecting = await serve((request, response) => {
    request.resume();
    response.writeHead(307, { location: `${endpoint.url}/v1/chat/completions` }).end();
  });
  cloud = await CloudReplays.start();
  await cloud.put('doors/00', [chatLine('a', 0, 'one'), chatLine('b', 0, 'two')]);
});
afterAll(async () => {
  await redirecting?.close();
  await endpoint?.close();
  await cloud?.stop();
});
beforeEach(() => {
  endpoint.requests.length = 0;
});

const folder = 'my-endpoint/AllTraffic/2026/11/20/10/';
const source = { prefix: `${folder}doors/` };
const onAws = { AWS_ENDPOINT_URL: undefined };

test.each(['http://LOCALHOST', 'http://2130706433', 'http://[::ffff:7f00:1]', 'http://169.254.169.254'])(
  'a function on AWS does not connect to %s, although the origin is named',
  async (host) => {
    const run = cloud.run({ source, target: { url: `${host}:${port}/invocations` } }, onAws);
    const { shards } = await run.plan(0);
    expect(shards).toBe(1);
    await expect(run.shard(0)).rejects.toMatchObject({ name: 'AddressNotAllowed' });
    expect(endpoint.requests).toEqual([]);
    expect(await run.summarize()).toMatchObject({ ok: false });
  },
);

test('an emulator that is only on its link opens no door either', async () => {
  const run = cloud.run({ source, target: { url: endpoint.url } }, { AWS_ENDPOINT_URL: 'http://169.254.1.1:4566' });
  await run.plan(0);
  await expect(run.shard(0)).rejects.toMatchObject({ name: 'AddressNotAllowed' });
  expect(endpoint.requests).toEqual([]);
});

test('the captures of a judge below the same prefix are not replayed', async () => {
  const own = `${PREFIX}judged/`;
  const keyOf = (name: string) => `${own}${name}/AllTraffic/2026/11/20/10/a.jsonl`;
  for (const name of ['judge', 'cheap', 'candidate']) {
    await cloud.storage.putText(CAPTURES, keyOf(name), `${chatLine(name, 0, name)}\n`);
  }
  const { settings } = cloud;
  cloud.settings = { ...settings, BEDROCK_MODEL_ID: 'sagemaker:/judge', JUDGE_CASCADE: 'sagemaker:/cheap/component' };
  try {
    const run = cloud.run({ source: { prefix: own }, target: { url: endpoint.url } });
    expect(await run.all(0)).toMatchObject({ ok: true });
    expect(endpoint.requests.map(({ body }) => /"(judge|cheap|candidate)"/.exec(body.toString())?.[1])).toEqual([
      'candidate',
    ]);
  } finally {
    cloud.settings = settings;
  }
});

test('one address among those of a name is enough to refuse it, and nothing is sent', async () => {
  const origin = { tls: false, hostname: 'candidate.example', port, refuses: isOwnAddress };
  const pool = new ConnectionPool(origin, async () => ['10.255.255.1', '127.0.0.1']);
  await expect(pool.open()).rejects.toMatchObject({
    name: 'AddressNotAllowed',
    message: expect.stringContaining('got: candidate.example, which is 127.0.0.1'),
  });
  pool.close();
  expect(endpoint.requests).toEqual([]);
});

test('a redirect is a failed request, and is not followed', async () => {
  const { port: other } = redirecting.server.address() as AddressInfo;
  const run = cloud.run({ source, target: { url: `http://127.0.0.1:${other}` } });
  await run.plan(0);
  expect(await run.shard(0)).toMatchObject({ sent: 2, failed: 2 });
  expect(endpoint.requests).toEqual([]);
});

test('a shard refuses a URL that the settings do not name, if its plan names another one', async () => {
  const named = { REPLAY_URLS: ['https://candidate.example'] };
  const run = cloud.run({ source, target: { url: 'https://candidate.example' } }, named);
  await run.plan(0);
  const changed = { ...(await run.stored()), target: { url: endpoint.url } };
  await cloud.storage.putJson(WORK, replayKeys.plan(run.name), changed);
  await expect(run.shard(0)).rejects.toMatchObject({ name: 'UrlNotAllowed' });
  expect(endpoint.requests).toEqual([]);
});

describe('registrations', () => {
  const target = { endpoint: 'my-endpoint-v2' };
  const atStandIn = () => ({ AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpoint.url });

  test('a replay to an endpoint is registered before it sends, and its inference ids name the registration', async () => {
    const run = cloud.run({ source, target }, atStandIn());
    expect(await run.all(0)).toMatchObject({ ok: true });
    const { marks = [], startAtEpochMs } = await run.stored();
    expect(marks).toEqual([{ id: expect.stringMatching(/^[0-9a-f]{16}$/), atMs: startAtEpochMs }]);
    const [{ id = '' } = {}] = marks;
    expect(JSON.parse(await cloud.text(markKeys.mark(id)))).toEqual({ run: run.name, atMs: startAtEpochMs });
    const ids = endpoint.requests.map(({ headers }) => headers['x-amzn-sagemaker-inference-id']);
    expect(new Set(ids).size).toBe(2);
    for (const one of ids) expect(one).toMatch(new RegExp(`^replay-${id}[0-9a-f]{32}$`));
  });

  test('a replay of days is registered for each of them, and a dry run not at all', async () => {
    await cloud.put('days/00', [chatLine('first', 0, 'one'), chatLine('last', 50 * HOUR_S, 'two')]);
    const input = { source: { prefix: `${folder}days/` }, target };
    const run = cloud.run(input);
    await run.plan(0);
    const { marks = [], startAtEpochMs } = await run.stored();
    const hours = marks.map(({ atMs }) => (atMs - startAtEpochMs) / HOUR_S / 1000);
    expect(hours).toEqual([0, 23, 46]);
    expect(new Set(marks.map(({ id }) => id)).size).toBe(3);
    const dry = cloud.run({ ...input, dryRun: true });
    await dry.plan(0);
    expect((await dry.stored()).marks ?? []).toEqual([]);
  });

  test('a replay leaves out the requests of registered replays, and nothing that only claims to be one', async () => {
    const registered = cloud.run({ source, target }, atStandIn());
    await registered.all(0);
    const [{ id = '' } = {}] = (await registered.stored()).marks ?? [];
    const { startAtEpochMs } = await registered.stored();
    const line = (name: string, timeMs: number, inferenceId: string): string => {
      const record = JSON.parse(chatLine(name, 0, name));
      const inferenceTime = new Date(timeMs).toISOString();
      return JSON.stringify({ ...record, eventMetadata: { ...record.eventMetadata, inferenceId, inferenceTime } });
    };
    const hex = '0'.repeat(32);
    await cloud.put('claims/00', [
      line('replayed', startAtEpochMs + 60_000, `replay-${id}${hex}`),
      line('made up', startAtEpochMs + 60_000, `replay-${'0'.repeat(16)}${hex}`),
      line('not registered', startAtEpochMs + 60_000, `replay-${hex}`),
    ]);
    endpoint.requests.length = 0;
    const run = cloud.run({ source: { prefix: `${folder}claims/` }, target: { url: endpoint.url }, concurrency: 1 });
    expect(await run.all(0)).toMatchObject({ ok: true });
    expect((await run.stored()).skipped).toEqual({ SentByReplay: 1 });
    expect(endpoint.requests.map(({ body }) => /made up|not registered/.exec(body.toString())?.[0]).toSorted()).toEqual(
      ['made up', 'not registered'],
    );
  });

  describe('on the command line', () => {
    const folderOfRun = new ReplayFolder();

    const sendWith = async (lines: string[], more: Record<string, string>) => {
      const file = folderOfRun.write('captures.jsonl', lines);
      const out = join(folderOfRun.path, `out-${more.STACK_PREFIX}`);
      const args = ['replay', file, '--endpoint', 'e', '--concurrency', '1', '--quiet', '--no-report', '-o', out];
      const { env } = cloud.aws;
      return runCli(args, { ...env, AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpoint.url, STACK_PREFIX: '', ...more });
    };
    const sentIds = () => endpoint.requests.map(({ headers }) => String(headers['x-amzn-sagemaker-inference-id']));

    const deployed = async (prefix: string, workBucket: string) => {
      const lambda = new LambdaClient(emulated(cloud.aws.url));
      for (const [field, name] of Object.entries(OUTPUT_PARAMETERS)) {
        const Value = field === 'workBucket' ? workBucket : 'x';
        await callAws(lambda, 'ssm', 'PutParameter', { Name: outputPath(prefix) + name, Value, Type: 'String' });
      }
      // Its settings are those of the replay.
      const ZipFile = Buffer.from(`PK\x05\x06${'\0'.repeat(18)}`);
      const code = {
        Code: { ZipFile },
        Runtime: 'nodejs22.x',
        Handler: 'a.b',
        Role: 'arn:aws:iam::000000000000:role/r',
      } as const;
      await lambda.send(new CreateFunctionCommand({ FunctionName: 'x', ...code })).catch(() => undefined);
      lambda.destroy();
    };

    test('it registers with the named stack, and skips requests of that stack’s replays', async () => {
      await deployed('doors', WORK);
      const mark = await registerReplay(cloud.storage, WORK, { run: 'earlier', atMs: Date.now() });
      const replayed = JSON.parse(chatLine('again', 0, 'again'));
      replayed.eventMetadata.inferenceId = replayInferenceId(mark.id, 'earlier', 'e', 0);
      replayed.eventMetadata.inferenceTime = new Date().toISOString();
      const lines = [chatLine('a', 0, 'one'), JSON.stringify(replayed)];
      const { code, stderr } = await sendWith(lines, { STACK_PREFIX: 'doors' });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const [id = '', ...others] = sentIds();
      expect(others).toEqual([]);
      expect(id).toMatch(/^replay-[0-9a-f]{48}$/);
      const stored = JSON.parse(await cloud.text(markKeys.mark(id.slice(7, 23)))) as object;
      expect(stored).toEqual({ run: expect.stringMatching(/^replay-/), atMs: expect.any(Number) });
    });

    test('where the work bucket takes no registration, it says so and replays all the same', async () => {
      await deployed('closed', 'no-such-bucket');
      const claims = JSON.parse(chatLine('b', 0, 'two'));
      const lines = ['0', '1'].map((digit) => {
        claims.eventMetadata.inferenceId = `replay-${digit.repeat(48)}`;
        return JSON.stringify(claims);
      });
      const { code, stderr } = await sendWith(lines, { STACK_PREFIX: 'closed', AWS_MAX_ATTEMPTS: '1' });
      expect(code).toBe(0);
      expect(stderr).toMatch(/The requests of this replay count as traffic of the endpoint: /);
      expect(sentIds()).toEqual(['', ''].map(() => expect.stringMatching(/^replay-[0-9a-f]{32}$/)));
    });

    test('without a stack it says that its requests count as traffic, and replays what claims to be of a replay', async () => {
      const claims = JSON.parse(chatLine('b', 0, 'two'));
      claims.eventMetadata.inferenceId = `replay-${'0'.repeat(48)}`;
      const { code, stderr } = await sendWith([chatLine('a', 0, 'one'), JSON.stringify(claims)], {});
      expect(code).toBe(0);
      expect(stderr).toMatch(/The requests of this replay count as traffic of the endpoint: STACK_PREFIX is missing/);
      expect(stderr.match(/Captures that are marked as requests of replays are replayed too/g)).toHaveLength(1);
      expect(sentIds()).toHaveLength(2);
      for (const id of sentIds()) expect(id).toMatch(/^replay-[0-9a-f]{32}$/);
    });
  });
});

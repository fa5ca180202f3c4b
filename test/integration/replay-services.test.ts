/** Replays with other services: captures in S3, a judge over HTTP. */

import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { CreateSecretCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { emulated } from '../helpers/emulated.ts';
import { chatLine, ReplayFolder, readLines, runCli } from '../helpers/replay.ts';

let folder: ReplayFolder;
let endpoint: StandInEndpoint;

beforeEach(async () => {
  folder = new ReplayFolder();
  endpoint = await startStandInEndpoint({
    latencyMs: 10,
    record: true,
    answer: ({ prompt }) => `You asked: ${prompt}`,
  });
});
afterEach(() => endpoint.close());

describe('captures in S3', () => {
  const BUCKET = 'captures';
  let aws: MiniStack;
  let s3: S3Client;

  beforeAll(async () => {
    aws = await startMiniStack();
    s3 = new S3Client(emulated(aws.url));
    await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    for (const hour of [9, 10, 11]) {
      const lines = [0, 1].map((i) => chatLine(`h${hour}-${i}`, (hour - 10) * 3600 + i, `hour ${hour} number ${i}`));
      const Key = `my endpoint/AllTraffic/2026/11/20/${String(hour).padStart(2, '0')}/00-00.jsonl`;
      await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key, Body: `${lines.join('\n')}\n` }));
    }
    const Body = `${chatLine('other', 0, 'other')}\n`;
    const Key = 'my endpoint-v2/AllTraffic/2026/11/20/10/x.jsonl';
    await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key, Body }));
    const secrets = new SecretsManagerClient(emulated(aws.url));
    await secrets.send(
      new CreateSecretCommand({ Name: 'headers', SecretString: '{"Authorization":"Bearer from-the-secret"}' }),
    );
    secrets.destroy();
  });
  afterAll(async () => {
    s3?.destroy();
    await aws?.stop();
  });

  const cli = (...args: string[]) =>
    runCli(['replay', ...args, '--url', endpoint.url, '--quiet', '--no-report', '-o', join(folder.path, 'out')], {
      ...aws.env,
      TMPDIR: temporary(),
    });
  /** Files left in the temporary folder, without Node's compile cache. */
  const left = (): string[] => readdirSync(temporary()).filter((name) => name !== 'node-compile-cache');
  /** A temporary folder for the command only. */
  const temporary = (): string => {
    const path = join(folder.path, 'tmp');
    mkdirSync(path, { recursive: true });
    return path;
  };
  /** Sorted: requests that are due within a millisecond arrive in any order. */
  const prompts = (): string[] =>
    endpoint.requests
      .map(
        ({ body }) => (JSON.parse(body.toString()) as { messages: { content: string }[] }).messages[0]?.content ?? '',
      )
      .sort();

  test('replays a prefix within a time window, with headers from Secrets Manager, and leaves no files behind', async () => {
    const window = ['--from', '2026-11-20T10:00:00Z', '--to', '2026-11-20T11:00:01Z'];
    const options = [...window, '--speedup', '36000', '--headers-secret', 'headers'];
    const { code, stderr } = await cli(`s3://${BUCKET}/my endpoint`, ...options);
    expect([code, stderr]).toEqual([0, '']);
    expect(prompts()).toEqual(['hour 10 number 0', 'hour 10 number 1', 'hour 11 number 0']);
    expect(endpoint.requests[0]?.headers.authorization).toBe('Bearer from-the-secret');
    const records = readLines<{ metadata: Record<string, unknown> }>(join(folder.path, 'out', 'profile_export.jsonl'));
    const places = records.map(({ metadata }) => [metadata.s3_bucket, metadata.s3_key, metadata.line]).sort();
    expect(places).toEqual([
      [BUCKET, 'my endpoint/AllTraffic/2026/11/20/10/00-00.jsonl', 1],
      [BUCKET, 'my endpoint/AllTraffic/2026/11/20/10/00-00.jsonl', 2],
      [BUCKET, 'my endpoint/AllTraffic/2026/11/20/11/00-00.jsonl', 1],
    ]);
    expect(left()).toEqual([]);
  });

  test('compares results of a cloud replay in S3, also in parts, and leaves no files behind', async () => {
    const file = folder.chats(
      3,
      () => 0,
      (i) => `number ${i}`,
    );
    const local = join(folder.path, 'out');
    expect((await cli(file, '--compare', '--run', 'the-run')).code).toBe(0);
    const put = (key: string, body: string) =>
      s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: `replays/${key}`, Body: body }));
    for (const name of readdirSync(local)) {
      const text = readFileSync(join(local, name), 'utf8');
      if (name === 'replay.json') {
        const parts = ['shards/0000/', 'shards/0001/'];
        await put(`the-run/results/${name}`, JSON.stringify({ ...JSON.parse(text), parts }));
      } else if (name.endsWith('.jsonl')) {
        const [first = '', ...others] = text.split(/(?<=\n)/);
        await put(`the-run/shards/0000/${name}`, first);
        await put(`the-run/shards/0001/${name}`, others.join(''));
        // Of a lost shard.
        await put(`the-run/shards/0002/${name}`, text);
      } else await put(`the-run/results/${name}`, text);
    }
    const output = join(folder.path, 'comparison');
    const compared = (location: string) =>
      runCli(['compare', location, local, '--json', '--no-report', '-o', output], {
        ...aws.env,
        TMPDIR: temporary(),
      });
    for (const location of ['replays/the-run', 'replays/the-run/', 'replays/the-run/results/']) {
      const { code, stdout, stderr } = await compared(`s3://${BUCKET}/${location}`);
      expect([code, stderr]).toEqual([0, '']);
      expect(JSON.parse(stdout)).toMatchObject({
        before: { run: 'the-run', directory: `s3://${BUCKET}/${location}`, requests: 3 },
        paired: { requests: 3 },
        quality: { compared: 3, identical: 3 },
      });
    }
    expect(await compared(`s3://${BUCKET}/replays/another`)).toMatchObject({
      code: 2,
      // With --json, the error is JSON, too.
      stderr: expect.stringMatching(/^\{"error":\{"name":"NotAReplay",.*s3:\/\/captures\/replays\/another/),
    });
    expect(left()).toEqual([]);
  });

  test('replays a single object, and reports a missing one', async () => {
    expect((await cli(`s3://${BUCKET}/my endpoint/AllTraffic/2026/11/20/09/00-00.jsonl`)).code).toBe(0);
    expect(prompts()).toEqual(['hour 9 number 0', 'hour 9 number 1']);
    expect(await cli(`s3://${BUCKET}/nothing`)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('NoCaptureFiles'),
    });
    expect(await cli('s3://no-such-bucket/x')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('BucketMissing'),
    });
  });
});

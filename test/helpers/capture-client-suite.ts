/** The capture clients: applications as processes, a server that speaks SageMaker's protocol, and S3. */
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { payloadPart } from '../../local/stand-in-endpoint/server.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { type AppCall, type AppSpec, type Language, runApp } from './capture-apps.ts';
import { REFUSED, spooledIn } from './capture-surroundings.ts';
import { serve } from './serve.ts';
import { temporaryFolder } from './temporary-folder.ts';

interface Line {
  captureData: { endpointInput: LineSide; endpointOutput?: LineSide };
  eventMetadata: { eventId: string; inferenceId?: string; inferenceTime: string };
  client: Record<string, unknown> & { pieces?: [number, number][] };
}
interface LineSide {
  observedContentType: string | null;
  data?: string;
  encoding?: string;
}

let endpoint: StandInEndpoint;
let s3: S3Wire;
let folder: string;

beforeEach(async () => {
  endpoint = await startStandInEndpoint({ latencyMs: 20, words: 4, interTokenMs: 20 });
  s3 = await S3Wire.start();
  folder = temporaryFolder('capture-client-');
});
afterEach(async () => {
  await endpoint.close();
  await s3.stop();
});

const ask = (content: string, more: Partial<AppCall> = {}): AppCall => ({
  streamed: true,
  body: Buffer.from(JSON.stringify({ messages: [{ role: 'user', content }] })).toString('base64'),
  contentType: 'application/json',
  inferenceId: content,
  ...more,
});
const app = (calls: AppCall[], more: Partial<AppSpec> = {}): AppSpec => ({
  ...{ endpoint: endpoint.url, s3: s3.url, options: { prefix: 'p' }, calls, flushSeconds: 10 },
  ...more,
});
const written = (): Map<string, Line> =>
  new Map(
    s3
      .keys('captures')
      .flatMap((key) => s3.lines<Line>('captures', key))
      .map((line) => [line.eventMetadata.inferenceId ?? '', line]),
  );

/** Tests the clients of these languages in a test file of its own. */
export const testCaptureClients = (languages: readonly Language[]): void =>
  describe.each(languages)('%s', (language) => {
    test('streams, and calls that reached no container, are written; replies are what they were', async () => {
      const calls = [
        ask('whole'),
        ask('half', { pieces: 2 }),
        ask('unread', { pieces: 0 }),
        ask('[[cut stream]]'),
        ask('[[status 429]]'),
        ask('[[status 500]]'),
        ask('[[disconnect]]', { variant: 'green' }),
        ask('unstreamed', { streamed: false }),
        ask('[[status 503]] unstreamed', { streamed: false }),
        ask('[[status 429]] unstreamed', { streamed: false }),
        ask('binary', { body: Buffer.from([0xff, 0xfe, 0x00]).toString('base64'), contentType: 'application/x-image' }),
      ];
      const bare = await runApp(language, app(calls, { bare: true }));
      const { replies, stats } = await runApp(language, app(calls));
      expect(replies.map(({ reply, error }) => ({ reply, error }))).toEqual(
        bare.replies.map(({ reply, error }) => ({ reply, error })),
      );
      expect(stats).toMatchObject({ open: 0, waiting: 0, dropped: 0, written: 9, withoutContent: 1 });
      const lines = written();
      expect(lines.has('unstreamed')).toBe(false);
      // The model's own error, which SageMaker captures.
      expect(lines.has('[[status 503]] unstreamed')).toBe(false);

      const whole = lines.get('whole') as Line;
      const [told] = replies;
      expect(whole.captureData.endpointInput).toEqual({
        ...{ observedContentType: 'application/json', mode: 'INPUT', encoding: 'JSON' },
        data: Buffer.from(calls[0]?.body ?? '', 'base64').toString(),
      });
      expect(whole.captureData.endpointOutput).toMatchObject({
        encoding: 'CSV',
        data: Buffer.from(told?.reply ?? '', 'base64').toString(),
      });
      const writer = language === 'node' ? 'node' : 'python';
      expect(whole.client).toMatchObject({ ended: 'whole', streamed: true, status: 200, calls: 'streams', writer });
      expect(whole.client).toMatchObject({ version: 1, sampling: 1, pieceCount: told?.pieceMs.length });
      // Against the application's own clock, which begins a moment before. A busy machine pauses either.
      const MAX_LAG_MS = 150;
      const { pieces = [], firstByteMs = 0, endMs = 0 } = whole.client as Record<string, never>;
      expect(firstByteMs).toBeLessThanOrEqual(Number(pieces[0]?.[0]));
      for (const [i, [ms]] of (pieces as [number, number][]).entries()) {
        expect(Math.abs(ms - (told?.pieceMs[i] ?? 0))).toBeLessThan(MAX_LAG_MS);
      }
      expect(Math.abs(endMs - (told?.endMs ?? 0))).toBeLessThan(MAX_LAG_MS);
      expect((pieces as [number, number][]).reduce((sum, [, bytes]) => sum + bytes, 0)).toBe(whole.client.replyBytes);

      expect(lines.get('half')?.client).toMatchObject({ ended: 'left', pieceCount: 2 });
      const unread = lines.get('unread')?.client;
      // Nobody knows what came: that is no reply of 0 bytes.
      expect(unread).toMatchObject({ ended: 'left', endMs: unread?.firstByteMs, left: { reply: 'unread' } });
      expect(unread).not.toHaveProperty('replyBytes');
      expect(lines.get('unread')?.captureData.endpointOutput).not.toHaveProperty('data');
      expect(lines.get('[[cut stream]]')?.client).toMatchObject({
        ...{ ended: 'broke', status: 200, error: { kind: 'stream', class: 'ModelStreamError' } },
      });
      const throttled = lines.get('[[status 429]]') as Line;
      expect(throttled.client).toMatchObject({ ended: 'failed', status: 429, error: { kind: 'throttled' } });
      expect(throttled.captureData.endpointOutput).toBeUndefined();
      expect(lines.get('[[status 500]]')?.client).toMatchObject({ error: { kind: 'model' } });
      expect(lines.get('[[status 500]]')?.captureData.endpointOutput).toMatchObject({ observedContentType: null });
      expect(lines.get('[[disconnect]]')?.client).toMatchObject({ ended: 'failed', error: { kind: 'no-connection' } });
      expect(lines.get('[[status 429]] unstreamed')?.client).toMatchObject({ streamed: false, ended: 'failed' });
      expect(lines.get('binary')?.captureData.endpointInput).toMatchObject({ data: '//4A', encoding: 'BASE64' });
      for (const key of s3.keys('captures')) {
        expect(key).toMatch(
          /^p\/e\/(AllTraffic|green|unknown)\/\d{4}\/\d\d\/\d\d\/\d\d\/\d\d-\d\d-\d{3}-[0-9a-f-]{36}\.jsonl$/,
        );
      }
      expect(s3.keys('captures').some((key) => key.startsWith('p/e/green/'))).toBe(true);
    });

    test('with calls: all, unstreamed calls and the model’s errors are written too', async () => {
      const calls = [ask('unstreamed', { streamed: false }), ask('[[status 503]]', { streamed: false })];
      const { replies } = await runApp(language, app(calls, { options: { calls: 'all' } }));
      const line = written().get('unstreamed') as Line;
      expect(line.captureData.endpointOutput).toMatchObject({
        ...{ observedContentType: 'application/json', encoding: 'JSON' },
        data: Buffer.from(replies[0]?.reply ?? '', 'base64').toString(),
      });
      expect(line.client).toMatchObject({ calls: 'all', streamed: false, ended: 'whole', status: 200 });
      expect(line.client).not.toHaveProperty('pieces');
      expect(written().get('[[status 503]]')?.client).toMatchObject({ ended: 'failed', error: { kind: 'model' } });
    });

    test('a content over the limit is left out and counted', async () => {
      const calls = [ask('long '.repeat(100), { inferenceId: 'long' }), ask('short')];
      const { stats, replies } = await runApp(language, app(calls, { options: { maxBodyBytes: 400 } }));
      expect(replies[0]?.error).toBeFalsy();
      expect(written().get('long')?.client).toMatchObject({ left: { request: 'too-large', reply: 'too-large' } });
      expect(written().get('long')?.captureData.endpointInput).not.toHaveProperty('data');
      expect(written().get('short')?.client).toMatchObject({ left: { reply: 'too-large' }, ended: 'whole' });
      expect(stats.withoutContent).toBe(3);
    });

    test('a thousand streams at once stay within the bound: the largest lose their contents', async () => {
      const large = 'x'.repeat(40_000);
      const calls = Array.from({ length: 1000 }, (_, i) =>
        ask(i % 5 === 0 ? large : 'small', { inferenceId: String(i), pieces: i % 7 === 0 ? 2 : undefined }),
      );
      const options = { memoryBytes: 6_500_000, batchSeconds: 60 };
      // Nothing leaves the memory before all have come.
      const counting = await startStandInEndpoint({ latencyMs: 20, words: 4, interTokenMs: 20, record: true });
      s3.fault = () =>
        counting.requests.length < calls.length ? { kind: 'error', status: 503, code: 'SlowDown' } : undefined;
      const spec = app(calls, { endpoint: counting.url, options, concurrent: true, flushSeconds: 100 });
      const { replies, stats } = await runApp(language, spec);
      await counting.close();
      expect(replies.filter(({ error }) => error)).toEqual([]);
      expect(stats.written + stats.dropped).toBe(1000);
      expect(stats.dropped).toBe(0);
      const lines = [...written().values()];
      const stripped = lines.filter(({ client }) => client.left !== undefined);
      expect(stripped.length).toBeGreaterThan(0);
      expect(stripped.every(({ client }) => Number(client.requestBytes ?? large.length) > 10_000)).toBe(true);
    });

    test.each([
      ['refused', { kind: 'error', status: 403, code: 'AccessDenied' }],
      ['in another region', { kind: 'error', status: 301, code: 'PermanentRedirect' }],
    ] as const)('a bucket that is %s costs the application nothing, and is named', async (_, fault) => {
      s3.fault = ({ method }) => (method === 'PUT' ? fault : undefined);
      const calls = Array.from({ length: 20 }, (_, i) => ask(String(i)));
      const { replies, stats } = await runApp(language, app(calls, { concurrent: true }));
      expect(replies.filter(({ error }) => error)).toEqual([]);
      expect(stats).toMatchObject({ written: 0, waiting: 20, dropped: 0 });
      expect(stats.lastError).toMatch(/AccessDenied|PermanentRedirect|403|301|Forbidden/);
    });

    test('what cannot be written is spooled, for the user alone, and sent with the same key by the next process', async () => {
      s3.fault = () => ({ kind: 'error', status: 503, code: 'SlowDown' });
      const options = { spoolFolder: join(folder, 'spool') };
      const first = await runApp(language, app([ask('one'), ask('two')], { options }));
      expect(first.stats).toMatchObject({ written: 0, spooled: 2, dropped: 0 });
      const tried = s3.requests.find(({ method }) => method === 'PUT')?.key ?? '';
      expect(statSync(join(options.spoolFolder, 'captures', tried)).mode & 0o777).toBe(0o600);
      mkdirSync(join(options.spoolFolder, 'captures', 'a.jsonl'));
      s3.fault = () => undefined;
      await Promise.all([1, 2].map(() => runApp(language, app([], { options }))));
      expect(s3.keys('captures')).toEqual([tried]);
      expect([...written().keys()].sort()).toEqual(['one', 'two']);
      expect(spooledIn(options.spoolFolder)).toEqual(['captures/a.jsonl']);
    });

    test('at the end of the process what remains is written, open streams too; nothing keeps the process alive', async () => {
      const spec = app([ask('one'), ask('unread', { pieces: 0 })], {
        options: { batchSeconds: 600 },
        flushSeconds: undefined,
      });
      const { processMs } = await runApp(language, spec);
      expect(processMs).toBeLessThan(30_000);
      expect([...written().keys()].sort()).toEqual(['one', 'unread']);
      expect(written().get('unread')?.client).toMatchObject({ ended: 'left' });
    });

    test('an S3 that never answers neither delays requests nor keeps the process alive; its batch is spooled', async () => {
      const hung = await serve(() => {});
      const options = { spoolFolder: join(folder, 'spool'), batchSeconds: 1 };
      // The process ends while a batch is made.
      const calls = Array.from({ length: 40 }, (_, i) => ask(String(i).padEnd(100_000), { inferenceId: String(i) }));
      const { replies, processMs } = await runApp(
        language,
        app(calls, { s3: hung.url, options, flushSeconds: undefined }),
      );
      await hung.close();
      expect(replies.filter(({ error }) => error)).toEqual([]);
      expect(processMs).toBeLessThan(20_000);
      await runApp(language, app([], { options }));
      expect(written().size).toBe(40);
      expect(s3.keys('captures').flatMap((key) => s3.lines('captures', key))).toHaveLength(40);
    });

    test('a stream that never ends costs a bounded memory, and is captured when the application leaves it', async () => {
      const endless = await serve((_, response) => {
        response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
        const more = (): void => {
          while (response.write(payloadPart(Buffer.alloc(100, 'x'))));
          response.once('drain', more);
        };
        more();
      });
      const calls = [ask('endless', { pieces: 20_000 })];
      const { stats } = await runApp(language, app(calls, { endpoint: endless.url }));
      await endless.close();
      expect(stats).toMatchObject({ open: 0, written: 1, withoutContent: 1 });
      const { client } = written().get('endless') as Line;
      const left = { reply: 'too-large' };
      expect(client).toMatchObject({ ended: 'left', pieceCount: 20_000, replyBytes: 2_000_000, left });
      expect(client.pieces).toHaveLength(512);
    });

    test('a stream that ends within a frame broke, wherever it was cut', async () => {
      const frame = payloadPart(Buffer.from('data: {}\n\n'));
      // Not at all; within the frame's length, its headers, its payload and its checksum.
      const cuts = [0, 1, 3, 4, 20, frame.length - 6, frame.length - 1];
      const server = await serve((message, response) => {
        const cut = cuts[Number(message.headers['x-amzn-sagemaker-inference-id'])];
        response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' }).write(frame);
        setTimeout(() => response.end(frame.subarray(0, cut)), 20);
      });
      const calls = cuts.map((_, i) => ask('a', { inferenceId: String(i) }));
      const bare = await runApp(language, app(calls, { endpoint: server.url, bare: true }));
      const { replies } = await runApp(language, app(calls, { endpoint: server.url }));
      await server.close();
      expect(replies.map(({ error, reply }) => [error, reply])).toEqual(
        bare.replies.map(({ error, reply }) => [error, reply]),
      );
      const ends = cuts.map((_, i) => written().get(String(i))?.client.ended);
      expect(ends).toEqual(['whole', ...cuts.slice(1).map(() => 'broke')]);
    });

    test('what finds no room in the spool folder is dropped, counted and named', async () => {
      s3.fault = () => ({ kind: 'error', status: 503, code: 'SlowDown' });
      const options = { spoolFolder: join(folder, 'spool'), spoolBytes: 100 };
      const { replies, stats } = await runApp(language, app([ask('one'), ask('two')], { options }));
      expect(replies.filter(({ error }) => error)).toEqual([]);
      expect(stats).toMatchObject({ written: 0, spooled: 0, dropped: 2, waiting: 0 });
      expect(stats.lastError).toMatch(/spool.* full.* at most 100/);
      expect(spooledIn(options.spoolFolder)).toEqual([]);
    });

    test('a spool folder that goes away costs the captures alone, counted and named', async () => {
      const options = { spoolFolder: join(folder, 'spool') };
      s3.fault = () => {
        rmSync(options.spoolFolder, { recursive: true, force: true });
        writeFileSync(options.spoolFolder, 'a file');
        return { kind: 'error', status: 503, code: 'SlowDown' };
      };
      const { replies, stats } = await runApp(language, app([ask('one'), ask('two')], { options }));
      expect(replies.filter(({ error }) => error)).toEqual([]);
      expect(stats).toMatchObject({ written: 0, spooled: 0, dropped: 2, waiting: 0 });
      expect(stats.lastError).toMatch(/ENOTDIR|EEXIST|Not a directory|File exists/);
    });

    test('a clock that is set back while a stream runs changes none of its times', async () => {
      const started = Date.now();
      await runApp(language, app([ask('one')], { clockBackAfterMs: 50 }));
      const { client, eventMetadata } = written().get('one') ?? {};
      const {
        firstByteMs = -1,
        pieces = [],
        endMs = -1,
      } = client as { pieces?: [number, number][]; [field: string]: unknown };
      const times = [0, firstByteMs, ...pieces.map(([ms]) => ms), endMs, 60_000].map(Number);
      expect(times.toSorted((a, b) => a - b)).toEqual(times);
      expect(Date.parse(eventMetadata?.inferenceTime ?? '')).toBeGreaterThanOrEqual(started);
    });

    test('an error with a name of any form has a class that the reader takes, and an endpoint a folder that S3 takes', async () => {
      const odd = await serve((_, response) => response.writeHead(400, { 'x-amzn-errortype': 'Odd Type!' }).end('{}'));
      const calls = [ask('odd', { endpointName: `..${'x'.repeat(2000)}` })];
      await runApp(language, app(calls, { endpoint: odd.url, options: {} }));
      await odd.close();
      expect(s3.keys('captures')).toEqual([expect.stringMatching(/^__x{61}\/unknown\//)]);
      expect(written().get('odd')?.client).toMatchObject({
        ended: 'failed',
        error: { kind: 'refused', class: 'Odd_Type_' },
      });
    });

    test('ids are cut to the length that SageMaker takes', async () => {
      await runApp(language, app([ask('long', { inferenceId: 'x'.repeat(1_000_000) })]));
      expect([...written().keys()]).toEqual(['x'.repeat(64)]);
    });

    test.each(['a/../b', 'a//b', './a'])(
      'the prefix %s, which is no path in the spool folder, is refused',
      async (prefix) => {
        await expect(runApp(language, app([], { options: { prefix } }))).rejects.toThrow(
          /not allowed; got: .*; expected: /,
        );
      },
    );

    test.each([false, true])('what is refused for one endpoint holds up no other (spooled: %s)', async (isSpooled) => {
      s3.fault = ({ key }) => (key.startsWith('e/') ? REFUSED : undefined);
      const calls = ['e', 'e', 'f'].map((endpointName, i) => ask(String(i), { endpointName }));
      const options = { batchSeconds: 600, ...(isSpooled ? { spoolFolder: join(folder, 'spool') } : {}) };
      const { stats } = await runApp(language, app(calls, { options }));
      const held = isSpooled ? { spooled: 2, waiting: 0 } : { spooled: 0, waiting: 2 };
      expect(stats).toMatchObject({ written: 1, dropped: 0, ...held });
      expect(s3.keys('captures')).toEqual([expect.stringMatching(/^f\//)]);
    });

    test('a spooled batch that is refused holds nothing back', async () => {
      s3.fault = () => REFUSED;
      const inFolder = (prefix: string) => ({ options: { prefix, spoolFolder: join(folder, 'spool') } });
      for (const prefix of ['former', 'p']) await runApp(language, app([ask(prefix)], inFolder(prefix)));
      // A role that may write where captures go now, and no more where they went.
      s3.fault = ({ key }) => (key.startsWith('former/') ? REFUSED : undefined);
      await runApp(language, app([], inFolder('p')));
      expect(s3.keys('captures')).toEqual([expect.stringMatching(/^p\//)]);
      expect(spooledIn(join(folder, 'spool'))).toHaveLength(1);
    });

    test('a share of the calls is captured', async () => {
      const calls = Array.from({ length: 200 }, (_, i) => ask(String(i)));
      const { stats } = await runApp(language, app(calls, { options: { sampling: 0.3 }, concurrent: true }));
      expect(stats.written).toBeGreaterThan(25);
      expect(stats.written).toBeLessThan(100);
      expect([...written().values()][0]?.client.sampling).toBe(0.3);
    });

    if (language !== 'python') return;

    test('a body that is a file is read and set back', async () => {
      const calls = [ask('a', { file: 'bytes' }), ask('b', { file: 'own' })];
      const { replies } = await runApp('python', app(calls));
      expect(replies.map(({ error }) => error)).toEqual([null, null]);
      for (const id of ['a', 'b']) {
        expect(written().get(id)?.captureData.endpointInput.data).toContain(`"content":"${id}"`);
      }
    });

    test('a forked child sends its own captures, and not those of its parent', async () => {
      const { printed, stats } = await runApp('python', app([ask('one')], { fork: true }));
      expect(printed).toEqual(['1']);
      expect(stats.written).toBe(1);
      expect(s3.keys('captures')).toHaveLength(2);
    });
  });

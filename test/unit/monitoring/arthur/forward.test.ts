/** Forwarding to a server that answers as Arthur documents, and to one that does not. */

import { PermanentError, RetryableError } from '../../../../src/core/errors/errors.ts';
import { createHttpTransport, type HttpTransport } from '../../../../src/mlflow/transport.ts';
import { postToArthur } from '../../../../src/monitoring/arthur/arthur.ts';
import {
  type ForwardMessage,
  forwardFiles,
  type OpenFile,
  receiptKey,
} from '../../../../src/monitoring/arthur/forward-files.ts';
import { withToken } from '../../../../src/monitoring/arthur/token.ts';
import { replayInferenceId } from '../../../../src/replay/marks/believe.ts';
import { registerReplay } from '../../../../src/replay/marks/register.ts';
import { type Arthur, answer, fileOf, MODEL, startArthur, TOKEN, taken } from '../../../doubles/arthur.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';
import { chatLine } from '../../../helpers/deployed-captures.ts';

const KEY = 'ep/AllTraffic/2026/11/20/10/a "1".jsonl';
/** Words that the captures, the token or Arthur's own words would be recognized by. */
const MARK = 'Zq9Marked';
const LINES = `${[chatLine(`${MARK} one`), chatLine('two'), chatLine('three')].join('\n')}\n`;

let arthur: Arthur;
let transport: HttpTransport;
let memory: MemoryStorage;
let etag: string;
let tokens: string[];
let buried: { body: string; attributes: Record<string, string> }[];
let later: number[];
let counts: Record<string, number>;
let told: string[];
const spies: jest.SpyInstance[] = [];

beforeEach(async () => {
  arthur = await startArthur();
  transport = createHttpTransport();
  memory = new MemoryStorage();
  etag = memory.put(KEY, LINES).etag;
  tokens = [TOKEN];
  buried = [];
  later = [];
  counts = {};
  told = [];
  for (const stream of [process.stdout, process.stderr]) {
    const note = (text: unknown): boolean => told.push(String(text)) > 0;
    spies.push(jest.spyOn(stream, 'write').mockImplementation(note));
  }
});
afterEach(async () => {
  for (const spy of spies.splice(0)) spy.mockRestore();
  transport.close();
  await arthur.stop();
  // Whatever a test did: neither the captures nor the token nor Arthur's words are told, and the token is not kept.
  expect(JSON.stringify([told, buried, counts])).not.toMatch(new RegExp(`${MARK}|${TOKEN}`));
  expect([...memory.objects.values()].join()).not.toContain(TOKEN);
});

const message = (n: number, object: object = { key: KEY, etag }, receives = 1, waitedMs = 0): ForwardMessage => ({
  messageId: `message-${n}`,
  receiptHandle: `handle-${n}`,
  body: JSON.stringify({ detail: { bucket: { name: 'b' }, object } }),
  attributes: { SentTimestamp: String(Date.now() - waitedMs), ApproximateReceiveCount: String(receives) },
});

const dependencies = (remaining = 900_000) => {
  const authorized = withToken(async () => tokens.shift() ?? TOKEN);
  return {
    storage: memory.storage,
    workBucket: 'work',
    scope: { bucket: 'b', prefix: 'ep/' },
    post: ({ key, size, open }: OpenFile, timeoutMs: number) =>
      authorized(async (token) =>
        postToArthur(
          transport,
          { host: arthur.url, model: MODEL },
          token,
          { key, size, content: await open() },
          timeoutMs,
        ),
      ),
    remainingMs: () => remaining,
    bury: async (body: string, attributes: Record<string, string>) => void buried.push({ body, attributes }),
    later: async (_: string, seconds: number) => void later.push(seconds),
    count: (metric: string, value: number) => {
      counts[metric] = (counts[metric] ?? 0) + value;
    },
    firstWaitSeconds: 60,
  };
};

test('a file of a judge below the same prefix is done without being posted', async () => {
  const { scope, ...deps } = dependencies();
  const judged = { ...deps, scope: { ...scope, excludes: (key: string) => key === KEY } };
  expect(await forwardFiles([message(1)], judged)).toEqual({ batchItemFailures: [] });
  expect(arthur.server.requests).toEqual([]);
  expect(buried).toEqual([]);
});

const deliver = async (messages: ForwardMessage[], remaining?: number): Promise<string[]> =>
  (await forwardFiles(messages, dependencies(remaining))).batchItemFailures.map((one) => one.itemIdentifier);

/** What became a dead letter by this name. */
const buriedBy = (ErrorName: string) => [
  expect.objectContaining({ attributes: expect.objectContaining({ ErrorName }) }),
];

const receipt = async () => memory.storage.getJson('work', receiptKey({ bucket: 'b', key: KEY, etag }));

test('a file is posted as the documented form, with its length and the token', async () => {
  expect(await deliver([message(1)])).toEqual([]);
  const [request] = arthur.server.requests;
  expect(request).toMatchObject({
    method: 'POST',
    path: `/api/v3/models/${MODEL}/inferences/integrations/sagemaker_data_capture`,
    headers: { authorization: TOKEN, 'content-length': String(request?.body.length) },
  });
  expect(request?.headers).not.toHaveProperty('transfer-encoding');
  expect(await arthur.files()).toEqual([{ name: 'a "1".jsonl', text: LINES }]);
  expect(await receipt()).toMatchObject({ state: 'forwarded', key: KEY, answer: JSON.stringify(taken(3)) });
  expect(counts).toEqual({ ForwardedFiles: 1, ForwardedInferences: 3, ForwardRejected: 0 });
  expect(told.join()).toContain('A file was forwarded');
});

test('failures of inferences are counted and kept in the receipt, and the file is not posted again', async () => {
  const failures = [1, 2, 3].map((n) => ({ message: `invalid value ${MARK}`, status: 422, event_id: String(n) }));
  arthur.first(answer(207, taken(9, failures)));
  expect(await deliver([message(1)])).toEqual([]);
  expect(await deliver([message(2)])).toEqual([]);
  expect(arthur.server.requests).toHaveLength(1);
  expect(await receipt()).toMatchObject({ state: 'forwarded', answer: JSON.stringify(taken(9, failures)) });
  expect(counts).toEqual({ ForwardedFiles: 1, ForwardedInferences: 6, ForwardRejected: 3 });
});

test('an answer 200 counts too, and one of 10 MB', async () => {
  const failures = Array.from({ length: 80_000 }, (_, n) => ({
    message: 'missing field',
    status: 400,
    event_id: `${n}-${'e'.repeat(70)}`,
  }));
  const body = JSON.stringify(taken(80_001, failures));
  expect(body.length).toBeGreaterThan(10e6);
  arthur.first(answer(200, body));
  expect(await deliver([message(1)])).toEqual([]);
  expect(await receipt()).toMatchObject({ state: 'forwarded', answer: body.slice(0, 4096) });
  expect(counts).toMatchObject({ ForwardedInferences: 1, ForwardRejected: 80_000 });
});

test.each<[string, object]>([
  ['null', { failures: null }],
  ['no list', { failures: 'none' }],
  ['a list of nothing', { failures: [null, 5] }],
  ['no index', { failures: [{ message: 'bad', status: 400, event_id: 'e', inference_index_in_event: null }] }],
  ['no message', { failures: [{ message: null, status: '400', event_id: null }] }],
])('only the counts of an answer are needed: failures with %s are no dead letter', async (_, more) => {
  arthur.first(answer(207, { counts: { total: 3, success: 2, failure: 1 }, ...more }));
  expect(await deliver([message(1)])).toEqual([]);
  expect(buried).toEqual([]);
  expect(counts).toEqual({ ForwardedFiles: 1, ForwardedInferences: 2, ForwardRejected: 1 });
});

test.each<[string, { total: number; success: number; failure: number }, number]>([
  ['all are refused', { total: 3, success: 0, failure: 3 }, 1],
  ['nothing is counted', { total: 0, success: 0, failure: 0 }, 1],
  ['a line is not counted', { total: 2, success: 2, failure: 0 }, 1],
  ['some are refused', { total: 3, success: 1, failure: 2 }, 0],
  ['a line has several inferences', { total: 9, success: 9, failure: 0 }, 0],
])('a file of three lines raises an alarm if Arthur took nothing or missed a line: %s', async (_, given, untaken) => {
  etag = memory.put(KEY, `${LINES.trim()}\n \n`).etag;
  arthur.first(answer(207, { counts: given, failures: [] }));
  expect(await deliver([message(1)])).toEqual([]);
  expect(counts.ForwardUntaken ?? 0).toBe(untaken);
});

describe('what a repetition would not change becomes a dead letter with its cause', () => {
  test.each<[string, Parameters<typeof answer>]>([
    ['ArthurRefused', [400, { error: MARK }]],
    ['ArthurUnauthorized', [403, { error: `bad token ${TOKEN}` }]],
    ['ArthurRefused', [404, { error: MARK }]],
    ['ArthurTooLarge', [413, '<html>too large</html>']],
    ['ArthurRefused', [302, '', { location: 'http://127.0.0.1:9/' }]],
    ['ArthurAnswerUnreadable', [200, `<html>sign in ${MARK}</html>`]],
    ['ArthurAnswerUnreadable', [207, { counts: { success: 'all' } }]],
    ['ArthurAnswerUnreadable', [200, JSON.stringify({ ...taken(1), more: 'x'.repeat(17 * 1024 ** 2) })]],
  ])('%s, case %#', async (name, given) => {
    const [status, body, headers] = given;
    arthur.first(answer(status, body, headers));
    const { body: event } = message(1);
    expect(await deliver([message(1)])).toEqual([]);
    expect(arthur.server.requests).toHaveLength(1);
    expect(buried).toEqual([{ body: event, attributes: { ErrorName: name, ErrorMessage: expect.any(String) } }]);
    expect(await receipt()).toMatchObject({ state: 'failed' });
    expect(counts).toEqual({});
    // A person puts it back.
    arthur.first();
    expect(await deliver([message(2)])).toEqual([]);
    expect(await receipt()).toMatchObject({ state: 'forwarded' });
    expect(arthur.server.requests).toHaveLength(2);
  });

  test('a token that is not accepted, after the secret was read again', async () => {
    tokens = ['old', 'older'];
    expect(await deliver([message(1)])).toEqual([]);
    expect(arthur.server.requests.map(({ headers }) => headers.authorization)).toEqual(['old', 'older']);
    expect(buried).toEqual(buriedBy('ArthurUnauthorized'));
  });

  test.each<[string, object]>([
    ['CaptureMissing', { key: 'ep/gone.jsonl', etag: 'e' }],
    ['CaptureChanged', { key: KEY, etag: 'another' }],
    ['OutsideCaptureScope', { key: 'other/a.jsonl', etag: 'e' }],
  ])('%s', async (name, object) => {
    expect(await deliver([message(1, object)])).toEqual([]);
    expect(buried).toEqual(buriedBy(name));
    expect(arthur.server.requests).toEqual([]);
  });

  test('what is no event', async () => {
    expect(await deliver([{ ...message(1), body: '{"detail":' }])).toEqual([]);
    expect(buried).toEqual(buriedBy('NotAnEvent'));
    expect(buried[0]?.body).toBe('{"detail":');
  });

  test('and stays in the queue if it cannot become one', async () => {
    arthur.first(answer(400));
    const bury = () => Promise.reject(new Error('SQS'));
    const { batchItemFailures } = await forwardFiles([message(1)], { ...dependencies(), bury });
    expect(batchItemFailures).toEqual([{ itemIdentifier: 'message-1' }]);
  });
});

test('a token that has changed in the secret is used from then on', async () => {
  tokens = ['old', TOKEN];
  expect(await deliver([message(1)])).toEqual([]);
  expect(await receipt()).toMatchObject({ state: 'forwarded' });
});

describe('what a repetition may change', () => {
  test('is posted again by the queue, ever later', async () => {
    arthur.first(...[500, 502, 504].map((status) => answer(status, { error: MARK })));
    for (const receives of [1, 2, 9])
      expect(await deliver([message(1, { key: KEY, etag }, receives)])).toEqual(['message-1']);
    expect(later).toEqual([60, 120, 3600]);
    expect(await receipt()).toMatchObject({ state: 'waiting', answer: expect.stringContaining(MARK) });
    expect(await deliver([message(1)])).toEqual([]);
    expect(await receipt()).toMatchObject({ state: 'forwarded' });
    expect(buried).toEqual([]);
  });

  test('is late after two hours, which the alarm watches', async () => {
    arthur.first(...[500, 500].map((status) => answer(status)));
    const [soon, late] = [7_100_000, 7_300_000];
    await deliver([message(1, undefined, 7, soon)]);
    expect(counts).toEqual({});
    await deliver([message(1, undefined, 8, late)]);
    expect(counts).toEqual({ ForwardLate: 1 });
  });

  test('waits for a Retry-After that is longer', async () => {
    arthur.first(...['0.05', '7200'].map((seconds) => answer(429, '', { 'retry-after': seconds })));
    for (const _ of [1, 2]) expect(await deliver([message(1)])).toEqual(['message-1']);
    expect(later).toEqual([60, 7200]);
  });

  test('a Retry-After of a week: the file is a dead letter before its event is two weeks old', async () => {
    arthur.first(answer(429, '', { 'retry-after': '604800' }));
    expect(await deliver([message(1)])).toEqual(['message-1']);
    const deliveries = 30;
    expect((later[0] ?? 0) * deliveries).toBeLessThanOrEqual(7.5 * 86_400);
  });

  test('a connection that breaks during the upload: Arthur cannot have the file', async () => {
    etag = memory.put(KEY, LINES.repeat(5_000)).etag;
    let broken = 0;
    arthur.server.cutWhileSending(() => {
      broken += 1;
      return broken === 1;
    });
    expect(await deliver([message(1)])).toEqual(['message-1']);
    expect(told.join()).toContain('There is no answer from Arthur during the upload;');
    expect(await deliver([message(1)])).toEqual([]);
    expect(counts).toMatchObject({ ForwardedInferences: 15_000 });
  });

  test('a connection that breaks after the upload, or an answer that takes too long: Arthur may have the file', async () => {
    arthur.first({ kind: 'cut' }, { kind: 'slowBody' });
    // All but a second is kept for the end of the function: enough to connect, on a busy machine too.
    for (const _ of [1, 2]) {
      expect(await deliver([message(1)], 46_000)).toEqual(['message-1']);
      expect(told.splice(0).join()).toContain('after the upload, which Arthur may have');
    }
    expect(await deliver([message(1)])).toEqual([]);
    expect(arthur.server.requests).toHaveLength(3);
  });

  test('no server', async () => {
    await arthur.stop();
    expect(await deliver([message(1)])).toEqual(['message-1']);
    expect(told.join()).toContain('There is no answer from Arthur; got: ECONNREFUSED');
    arthur = await startArthur();
  });
});

describe('a file is posted once', () => {
  test('if its event comes twice in a batch, at the same time, and later', async () => {
    const both = await Promise.all([deliver([message(1), message(2)]), deliver([message(3)])]);
    // What found another one at the file comes again.
    expect(both.flat()).toHaveLength(2);
    expect(await deliver([message(4), message(5, { key: KEY })])).toEqual([]);
    expect(arthur.server.requests).toHaveLength(1);
    expect(counts).toMatchObject({ ForwardedFiles: 1 });
  });

  test('unless the function that was at it is dead', async () => {
    const sending = { bucket: 'b', key: KEY, etag, state: 'sending', untilMs: Date.now() + 60_000 };
    memory.put(receiptKey(sending), sending);
    expect(await deliver([message(1)])).toEqual(['message-1']);
    memory.put(receiptKey(sending), { ...sending, untilMs: Date.now() - 1 });
    expect(await deliver([message(1)])).toEqual([]);
    expect(told.join()).toContain('A function ended during an upload: Arthur may have the file');
    expect(await receipt()).toMatchObject({ state: 'forwarded' });
  });
});

test('one file of a batch does not cost another', async () => {
  const other = memory.put('ep/b.jsonl', LINES).etag;
  const third = memory.put('ep/c.jsonl', LINES).etag;
  arthur.server.rule((request) =>
    request.body.includes('filename="b.jsonl"')
      ? answer(500)
      : request.body.includes('filename="c.jsonl"')
        ? answer(400)
        : answer(207, taken(3)),
  );
  const batch = [
    message(1),
    message(2, { key: 'ep/b.jsonl', etag: other }),
    message(3, { key: 'ep/c.jsonl', etag: third }),
  ];
  expect(await deliver(batch)).toEqual(['message-2']);
  expect(buried).toHaveLength(1);
  expect(counts).toMatchObject({ ForwardedFiles: 1 });
  memory.objects.delete('ep/b.jsonl');
  memory.objects.delete('ep/c.jsonl');
});

test('a refusal before the end of the upload is heard', async () => {
  etag = memory.put(KEY, LINES.repeat(5_000)).etag;
  const { createServer } = await import('node:http');
  const early = createServer((request, response) => {
    request.pause();
    response.writeHead(413, { 'content-type': 'text/plain' }).end('too large');
  });
  await new Promise<void>((resolve) => early.listen(0, '127.0.0.1', resolve));
  const { url } = arthur;
  arthur.url = `http://127.0.0.1:${(early.address() as { port: number }).port}`;
  expect(await deliver([message(1)])).toEqual([]);
  expect(buried).toEqual(buriedBy('ArthurTooLarge'));
  arthur.url = url;
  early.closeAllConnections();
  early.close();
});

test('a large file is never whole in memory', async () => {
  const piece = Buffer.alloc(64 * 1024, 'x');
  const pieces = 3_000;
  let [made, received, most] = [0, 0, 0];
  async function* content(): AsyncGenerator<Buffer> {
    for (; made < pieces; made += 1) {
      most = Math.max(most, made * piece.length - received);
      yield piece;
    }
  }
  const { createServer } = await import('node:http');
  const sink = createServer(async (request, response) => {
    for await (const chunk of request) received += (chunk as Buffer).length;
    response.end(JSON.stringify(taken(1)));
    expect(received).toBe(Number(request.headers['content-length']));
  });
  await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve));
  const host = `http://127.0.0.1:${(sink.address() as { port: number }).port}`;
  const file = { key: 'a.jsonl', size: pieces * piece.length, content: content() };
  await expect(postToArthur(transport, { host, model: MODEL }, TOKEN, file, 60_000)).resolves.toMatchObject({
    status: 200,
  });
  // 190 MB; the buffers of two sockets are in between.
  expect(most).toBeLessThan(24 * 1024 ** 2);
  sink.closeAllConnections();
  sink.close();
});

test.each([
  new RetryableError('StorageUnavailable', 'S3 ended the object early'),
  new PermanentError('CaptureChanged', 'The capture file was overwritten'),
])('what happens while the file is read is told as it is: $name', async (error) => {
  async function* content(): AsyncGenerator<Buffer> {
    yield Buffer.from(LINES);
    throw error;
  }
  const file = { key: 'a.jsonl', size: 10_000, content: content() };
  await expect(postToArthur(transport, { host: arthur.url, model: MODEL }, TOKEN, file, 60_000)).rejects.toBe(error);
});

test('a name cannot leave its field', async () => {
  const hostile = 'a"\r\nx: y; filename="b.jsonl';
  await postToArthur(
    transport,
    { host: arthur.url, model: MODEL },
    TOKEN,
    { key: hostile, size: 0, content: (async function* () {})() },
    5_000,
  );
  const [request] = arthur.server.requests;
  expect(request?.body.toString()).toContain('filename="a%22%0D%0Ax: y; filename=%22b.jsonl"');
  expect(await fileOf(request as never)).toMatchObject({ text: '' });
});

describe('the requests of replays', () => {
  const lineOf = (name: string, id?: string): string => {
    const record = JSON.parse(chatLine(name));
    if (id !== undefined) record.eventMetadata.inferenceId = id;
    return JSON.stringify(record);
  };
  const registered = async (): Promise<string> => {
    const mark = await registerReplay(memory.storage, 'work', { run: 'r', atMs: Date.parse('2026-11-20T09:00:00Z') });
    return replayInferenceId(mark.id, 'r', 'e', 0);
  };
  const put = (text: string): void => {
    etag = memory.put(KEY, text).etag;
  };

  test('are left out of a file, and those that only claim to be are not', async () => {
    const id = await registered();
    const kept = [
      lineOf('one'),
      lineOf('two', `replay-${'0'.repeat(48)}`),
      lineOf('three'),
      lineOf('four', `replay-${'0'.repeat(32)}`),
    ];
    const replayed = lineOf('replayed', id);
    put([replayed, kept[0], replayed, replayed, kept[1], kept[2], replayed, kept[3], replayed].join('\r\n'));
    expect(await deliver([message(1)])).toEqual([]);
    expect(await arthur.files()).toEqual([{ name: 'a "1".jsonl', text: kept.map((line) => `${line}\r\n`).join('') }]);
  });

  test('are no file if there is nothing else', async () => {
    put(`${lineOf('replayed', await registered())}\n`);
    expect(await deliver([message(1)])).toEqual([]);
    expect(arthur.server.requests).toEqual([]);
    expect(await receipt()).toMatchObject({ state: 'forwarded' });
  });
});

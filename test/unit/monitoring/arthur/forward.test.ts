/** Forwarding to a server that answers as Arthur documents, and to one that does not. */

import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import type { SQSRecord } from 'aws-lambda';
import { PermanentError, RetryableError } from '../../../../src/core/errors/errors.ts';
import { readForwardEnvironment } from '../../../../src/core/settings/environment.ts';
import { connectArthur } from '../../../../src/monitoring/arthur/arthur.ts';
import { forwardFiles } from '../../../../src/monitoring/arthur/forward-files.ts';
import { registerReplay, replayInferenceId } from '../../../../src/replay/marks/believe.ts';
import { type Arthur, answer, MODEL, startArthur, TOKEN, taken } from '../../../doubles/arthur.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';
import { MemoryTable, memoryLimits } from '../../../doubles/memory-table.ts';
import { chatLine } from '../../../helpers/deployed-captures.ts';
import ANSWERS from './answers.json' with { type: 'json' };

const FOLDER = 'ep/AllTraffic/2026/11/20/10';
const KEY = `${FOLDER}/a "1".jsonl`;
/** Words that the captures, the token or Arthur's own words would be recognized by. */
const MARK = 'Zq9Marked';
const LINES = `${[chatLine(`${MARK} one`), chatLine('two'), chatLine('three')].join('\n')}\n`;

const STACK = {
  ...{ STACK_PREFIX: 'test', WORK_BUCKET: 'work', BUDGET_TABLE: 'table', BEDROCK_MODEL_ID: 'sagemaker:/a-judge' },
  ...{ DATA_CAPTURE_S3_BUCKET: 'b', DATA_CAPTURE_S3_PREFIX: 'ep/', ARTHUR_S3_PREFIX: 'ep/', ARTHUR_SECRET_ARN: 'arn' },
  ...{ ARTHUR_S3_SUFFIX: '.jsonl', ARTHUR_MODEL_ID: MODEL, QUEUE_URL: 'queue', DEAD_LETTERS_URL: 'dead' },
};

/** A row of answers.json. */
interface Answer {
  status: number;
  headers?: Record<string, string>;
  /** JSON, or the text of another server. */
  body?: unknown;
  /** Characters of a further member. */
  filler?: number;
  /** Metrics. */
  counts?: object;
  /** The error of a dead letter, or the seconds for which the message is hidden; absent: Arthur has the file. */
  outcome?: string | number;
}

let arthur: Arthur;
let memory: MemoryStorage;
let table: MemoryTable;
let variables: Record<string, string>;
let etag: string;
/** What the secret contains, one after the other. */
let tokens: string[];
let asked: { operation: string; input: Record<string, unknown> }[];
let sqsFails: boolean;
let counts: Record<string, number>;
let told: string[];
const spies: jest.SpyInstance[] = [];

beforeEach(async () => {
  arthur = await startArthur();
  memory = new MemoryStorage();
  table = new MemoryTable();
  variables = { ...STACK, ARTHUR_HOST: arthur.url };
  etag = memory.put(KEY, LINES).etag;
  tokens = [TOKEN];
  asked = [];
  sqsFails = false;
  counts = {};
  told = [];
  for (const stream of [process.stdout, process.stderr]) {
    const note = (text: unknown): boolean => told.push(String(text)) > 0;
    spies.push(jest.spyOn(stream, 'write').mockImplementation(note));
  }
});
afterEach(async () => {
  for (const spy of spies.splice(0)) spy.mockRestore();
  await arthur.stop();
  // Whatever a test did: neither the captures nor the token nor Arthur's words are told, and the token is not kept.
  expect(JSON.stringify([told, asked, counts, [...table.items]])).not.toMatch(new RegExp(`${MARK}|${TOKEN}`));
  expect([...memory.objects.values()].join()).not.toContain(TOKEN);
});

const message = (n: number, object: object = { key: KEY, etag }, receives = 1, waitedMs = 0): SQSRecord =>
  ({
    messageId: `message-${n}`,
    receiptHandle: `handle-${n}`,
    body: JSON.stringify({ detail: { bucket: { name: 'b' }, object } }),
    attributes: { SentTimestamp: String(Date.now() - waitedMs), ApproximateReceiveCount: String(receives) },
  }) as SQSRecord;

/** @returns the messages that the queue delivers again */
async function deliver(Records: SQSRecord[], remaining = 900_000): Promise<string[]> {
  const environment = readForwardEnvironment(variables);
  const { batchItemFailures } = await forwardFiles(
    { Records },
    {
      ...{ environment, storage: memory.storage, table: memoryLimits(table) },
      post: connectArthur(environment, async () => tokens.shift() ?? TOKEN),
      remainingMs: () => remaining,
      sqs: async (operation, input) => {
        if (sqsFails) throw new Error('SQS');
        asked.push({ operation, input: input as Record<string, unknown> });
      },
      count: (metric, value) => {
        counts[metric] = (counts[metric] ?? 0) + value;
      },
    },
  );
  return batchItemFailures.map((one) => one.itemIdentifier);
}

/** What SQS was asked since: the error of a dead letter, or the seconds for which a message is hidden. */
const outcomes = (): unknown[] =>
  asked.splice(0).map(({ operation, input }) => {
    const { ErrorName, ErrorMessage } = (input.MessageAttributes ?? {}) as Record<string, { StringValue: string }>;
    const isDead = operation === 'SendMessage';
    expect([input.QueueUrl, isDead]).toEqual(isDead ? ['dead', ErrorMessage?.StringValue !== ''] : ['queue', false]);
    return isDead ? ErrorName?.StringValue : input.VisibilityTimeout;
  });

const receipts = (): object[] =>
  [...memory.objects].filter(([key]) => key.startsWith('forwards/')).map(([, bytes]) => JSON.parse(bytes.toString()));

/** Another server in the place of Arthur. */
async function served(listener: RequestListener, work: () => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  variables.ARTHUR_HOST = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await work();
  server.closeAllConnections();
  server.close();
}

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
  expect(receipts()).toEqual([{ key: KEY, forwarded: true, answer: JSON.stringify(taken(3)) }]);
  expect(counts).toEqual({ ForwardedFiles: 1, ForwardedInferences: 3, ForwardRejected: 0 });
  expect(told.join()).toContain('A file was forwarded');
});

test('the name of a file cannot leave its field', async () => {
  const key = `${FOLDER}/a"\r\nx: y; filename="b.jsonl`;
  expect(await deliver([message(1, { key, etag: memory.put(key, LINES).etag })])).toEqual([]);
  const body = arthur.server.requests[0]?.body.toString();
  expect(body).toContain('filename="a%22%0D%0Ax: y; filename=%22b.jsonl"');
  expect(await arthur.files()).toEqual([expect.objectContaining({ text: LINES })]);
});

test.each(ANSWERS as Answer[])('an answer: $what', async ({ status, headers, filler, outcome, ...row }) => {
  etag = memory.put(KEY, `${LINES.trim()}\n \n`).etag;
  const body = filler === undefined ? row.body : { ...(row.body as object), filler: 'x'.repeat(filler) };
  arthur.first(answer(status, body, headers));
  const isTaken = outcome === undefined;
  expect(await deliver([message(1)])).toEqual(typeof outcome === 'number' ? ['message-1'] : []);
  if (typeof outcome === 'string') expect(asked[0]?.input.MessageBody).toBe(message(1).body);
  expect(outcomes()).toEqual(isTaken ? [] : [outcome]);
  expect(counts).toEqual(isTaken ? { ForwardedFiles: 1, ...row.counts } : {});
  const text = (typeof body === 'string' ? body : JSON.stringify(body ?? {})).replace(TOKEN, '…');
  const receipt = { key: KEY, forwarded: isTaken, answer: text.slice(0, 4096) };
  expect(receipts()).toEqual(filler && !isTaken ? [] : [receipt]);
  // It comes again: by SQS, or by a person.
  expect(await deliver([message(2)])).toEqual([]);
  expect(arthur.server.requests).toHaveLength(isTaken ? 1 : 2);
  expect(receipts()).toMatchObject([{ forwarded: true }]);
});

test.each<{ outcome: string[]; key?: string; text?: string; other?: string }>([
  { outcome: ['CaptureMissing'], key: 'ep/gone.jsonl' },
  { outcome: ['CaptureChanged'], key: KEY, text: LINES, other: 'etag' },
  { outcome: ['OutsideCaptureScope'], key: 'other/a.jsonl', text: LINES },
  { outcome: ['NotAnEvent'] },
  // These are done: they have no inference of the model.
  { outcome: [], key: 'ep/a-judge/AllTraffic/2026/11/20/10/a.jsonl', text: LINES },
  { outcome: [], key: KEY, text: '' },
  { outcome: [], key: KEY, text: ' \n\n' },
])('nothing is posted, with the outcome $outcome: $key', async ({ outcome, key, text, other }) => {
  if (text !== undefined && key !== undefined) etag = memory.put(key, text).etag;
  expect(await deliver([message(1, { key, etag: other ?? etag })])).toEqual([]);
  expect(outcomes()).toEqual(outcome);
  expect(arthur.server.requests).toEqual([]);
});

test('what cannot become a dead letter stays in the queue', async () => {
  sqsFails = true;
  arthur.first(answer(400));
  expect(await deliver([message(1)])).toEqual(['message-1']);
  expect(told.join()).toMatch(/A file cannot be forwarded.*A file was not forwarded yet/s);
});

test.each([
  ['that has changed is used from then on', ['old', TOKEN], [], ['old', TOKEN]],
  ['that is not accepted after the secret was read again', ['old', 'older'], ['ArthurUnauthorized'], ['old', 'older']],
])('a token %s', async (_, secret, dead, sent) => {
  tokens = secret;
  expect(await deliver([message(1)])).toEqual([]);
  expect(outcomes()).toEqual(dead);
  expect(arthur.server.requests.map(({ headers }) => headers.authorization)).toEqual(sent);
});

test('a file that fails again waits for longer, and is late after two hours, which the alarm watches', async () => {
  arthur.first(...[500, 500, 500].map((status) => answer(status)));
  await deliver([message(1, undefined, 1)]);
  await deliver([message(1, undefined, 2, 7_100_000)]);
  expect(counts).toEqual({});
  await deliver([message(1, undefined, 9, 7_300_000)]);
  expect(counts).toEqual({ ForwardLate: 1 });
  expect(outcomes()).toEqual([60, 120, 3600]);
});

test.each<[when: string, fails: () => unknown]>([
  ['; got: ECONNREFUSED', () => arthur.stop()],
  [' during the upload;', () => arthur.server.cutWhileSending(() => true)],
  [' after the upload, which Arthur may have;', () => arthur.first({ kind: 'cut' })],
  [' after the upload, which Arthur may have;', () => arthur.first({ kind: 'slowBody' })],
])('without an answer, the log says whether Arthur may have the file: %j', async (when, fails) => {
  etag = memory.put(KEY, LINES.repeat(5_000)).etag;
  await fails();
  // All but three seconds is kept for the end of the function.
  expect(await deliver([message(1)], 48_000)).toEqual(['message-1']);
  expect(told.join()).toContain(`There is no answer from Arthur${when}`);
  expect([outcomes(), receipts()]).toEqual([[60], []]);
});

describe('a file is posted once', () => {
  test('if its event comes twice in a batch, at the same time, and later', async () => {
    const both = await Promise.all([deliver([message(1), message(2)]), deliver([message(3)])]);
    // What found another one at the file comes again.
    expect(both.flat()).toHaveLength(2);
    expect(told.join()).toContain('ForwardBusy');
    for (const object of [{ key: KEY, etag }, { key: KEY }]) expect(await deliver([message(4, object)])).toEqual([]);
    expect(arthur.server.requests).toHaveLength(1);
    expect(counts).toMatchObject({ ForwardedFiles: 1 });
  });

  test('unless a function was killed at it, whose time is over', async () => {
    const killed = jest.spyOn(memory, 'read').mockReturnValueOnce(new Promise(() => undefined));
    deliver([message(1)], 1_500);
    while (killed.mock.calls.length === 0) await new Promise(setImmediate);
    expect(await deliver([message(2)])).toEqual(['message-2']);
    await new Promise((resolve) => setTimeout(resolve, 1_600));
    expect(await deliver([message(3)])).toEqual([]);
    expect(told.join()).toContain('A function ended during an upload: Arthur may have the file');
    expect(receipts()).toMatchObject([{ forwarded: true }]);
  });
});

test('one file of a batch does not cost another', async () => {
  const batch = ['a', 'b', 'c'].map((name, n) => {
    const key = `${FOLDER}/${name}.jsonl`;
    return message(n, { key, etag: memory.put(key, LINES).etag });
  });
  const answers = { b: answer(500), c: answer(400) };
  arthur.server.rule(({ body }) => {
    const [, name = ''] = /filename="(.)/.exec(body.toString()) ?? [];
    return answers[name as keyof typeof answers] ?? answer(207, taken(3));
  });
  expect(await deliver(batch)).toEqual(['message-1']);
  expect(asked.map(({ operation }) => operation).toSorted()).toEqual(['ChangeMessageVisibility', 'SendMessage']);
  expect(counts).toMatchObject({ ForwardedFiles: 1 });
});

test('a refusal before the end of the upload is heard', async () => {
  etag = memory.put(KEY, LINES.repeat(5_000)).etag;
  const early: RequestListener = (request, response) => {
    request.pause();
    response.writeHead(413, { 'content-type': 'text/plain' }).end('too large');
  };
  await served(early, async () => expect(await deliver([message(1)])).toEqual([]));
  expect(outcomes()).toEqual(['ArthurTooLarge']);
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
  const sink: RequestListener = async (request, response) => {
    for await (const chunk of request) received += (chunk as Buffer).length;
    response.end(String(received === Number(request.headers['content-length'])));
  };
  await served(sink, async () => {
    const post = connectArthur(readForwardEnvironment(variables), async () => TOKEN);
    const file = { key: 'a.jsonl', size: pieces * piece.length, open: async () => content() };
    expect((await post(file, 60_000)).body.toString()).toBe('true');
  });
  // 190 MB; the buffers of two sockets are in between.
  expect(most).toBeLessThan(24 * 1024 ** 2);
});

test.each([
  { error: new RetryableError('StorageUnavailable', 'S3 ended the object early'), outcome: 60 },
  { error: new PermanentError('CaptureChanged', 'The capture file was overwritten'), outcome: 'CaptureChanged' },
])('what happens while the file is read for the upload is told as it is: $error.name', async ({ error, outcome }) => {
  const whole = await memory.read({ key: KEY, etag });
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from(LINES.slice(0, 100));
    throw error;
  }
  jest.spyOn(memory, 'read').mockResolvedValueOnce(whole).mockResolvedValueOnce(Readable.from(broken()));
  await deliver([message(1)]);
  expect(outcomes()).toEqual([outcome]);
  expect(told.join()).toContain(error.message);
});

describe('the requests of replays', () => {
  const lineOf = (name: string, id?: string): string => {
    const record = JSON.parse(chatLine(name));
    if (id !== undefined) record.eventMetadata.inferenceId = id;
    return JSON.stringify(record);
  };
  let replayed: string;
  beforeEach(async () => {
    const mark = await registerReplay(memory.storage, 'work', { run: 'r', atMs: Date.parse('2026-11-20T09:00:00Z') });
    replayed = lineOf('replayed', replayInferenceId(mark.id, 'r', 'e', 0));
  });

  test('are left out of a file, and those that only claim to be are not', async () => {
    const claimed = [48, 32].map((digits) => lineOf('claimed', `replay-${'0'.repeat(digits)}`));
    const kept = [`\ufeff${lineOf('one')}`, claimed[0], '', lineOf('three'), claimed[1]].map((line) => `${line}\r\n`);
    const cut = `${replayed}\r\n`;
    etag = memory.put(KEY, [kept[0], cut, cut, kept[1], kept[2], kept[3], cut, kept[4], replayed].join('')).etag;
    expect(await deliver([message(1)])).toEqual([]);
    expect(arthur.server.requests[0]?.body.toString()).toContain(`\r\n\r\n${kept.join('')}\r\n--`);
  });

  test('are no file if there is nothing else', async () => {
    etag = memory.put(KEY, `${replayed}\n`).etag;
    expect(await deliver([message(1)])).toEqual([]);
    expect([arthur.server.requests, asked]).toEqual([[], []]);
  });
});

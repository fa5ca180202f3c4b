/** Tests replies that servers should not send, but do, byte for byte over a real connection. */
import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { decodeLine } from '../../src/captures/decode.ts';
import type { ReplayOptions } from '../../src/replay/options.ts';
import { linesOf, wireBodyOf } from '../helpers/corpus.ts';
import { type CapturedSideSpec, captureLine, chatBody, chatLine, ReplayFolder, readLines } from '../helpers/replay.ts';
import { replayCompared } from '../helpers/replay-compared.ts';

const chat = (content: string, more: object = {}): string =>
  JSON.stringify({ choices: [{ message: { role: 'assistant', content }, finish_reason: 'stop' }], ...more });
const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const delta = (content: string, finish: string | null = null): string =>
  event({ choices: [{ delta: { content }, finish_reason: finish }] });
const whole = (head: string, body: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`), Buffer.from(body)]);
const JSON_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json';
const SSE_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream';
const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
const usage = { prompt_tokens: 3, completion_tokens: 9, completion_tokens_details: { reasoning_tokens: 4 } };

interface Scripted {
  bytes: Buffer;
  /** The server closes the connection after the reply. */
  close?: boolean;
}

/** The replies, by the prompt that they answer. */
const REPLIES: Record<string, Scripted> = {
  gzip: { bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: gzip`, gzipSync(chat('packed'))) },
  'gzip stream': {
    bytes: whole(`${SSE_HEAD}\r\nContent-Encoding: GZIP`, gzipSync(delta('packed', 'stop'))),
  },
  'gzip error': {
    bytes: whole(
      'HTTP/1.1 500 Internal Server Error\r\nContent-Encoding: gzip\r\nContent-Type: application/json',
      gzipSync('{"error":"boom"}'),
    ),
  },
  zstd: { bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: zstd`, zstdCompressSync(chat('packed'))) },
  'raw deflate': { bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: deflate`, deflateRawSync(chat('packed'))) },
  'two codings': {
    bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: identity, deflate, gzip`, gzipSync(deflateSync(chat('packed')))),
  },
  'coded on its way': {
    bytes: Buffer.concat([
      Buffer.from(`${JSON_HEAD}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n`),
      ...[gzipSync(chat('packed'))].flatMap((body) => [
        Buffer.from(`${body.length.toString(16).padStart(16, '0')}\r\n`),
        body,
        Buffer.from('\r\n0\r\n\r\n'),
      ]),
    ]),
  },
  'unknown coding': { bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: constructor`, 'ABC') },
  'unpacks to more than the limit': {
    bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: gzip`, gzipSync(chat('x'.repeat(33 << 20)))),
  },
  'a stream larger than the limit': {
    bytes: whole(SSE_HEAD, `${delta('a')}${delta('x'.repeat(1 << 20)).repeat(33)}${delta('b', 'stop')}`),
  },
  'not gzip': { bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: gzip`, chat('not packed')) },
  'stream cut by the close': { bytes: Buffer.from(`${SSE_HEAD}\r\n\r\n${delta('a')}`), close: true },
  'stream ended by the close': { bytes: Buffer.from(`${SSE_HEAD}\r\n\r\n${delta('a', 'stop')}`), close: true },
  'names in another case': {
    bytes: whole('HTTP/1.1 200 OK\r\ncOnTeNt-TyPe: Text/Event-Stream; Charset=UTF-8', delta('a', 'stop')),
  },
  redirect: { bytes: whole('HTTP/1.1 307 Temporary Redirect\r\nLocation: https://elsewhere/v1', '') },
  reasoning: { bytes: whole(JSON_HEAD, chat('thought', { usage })) },
  'error event': { bytes: whole(SSE_HEAD, `${delta('a')}event: error\ndata: upstream died\n\n`) },
  // These crash code that reads, compares or writes them without care.
  'deep reply': { bytes: whole(JSON_HEAD, nested(10_000)) },
  'deep event': { bytes: whole(SSE_HEAD, `data: {"object":"error","more":${nested(10_000)}}\n\n`) },
  'endless tokens': { bytes: whole(JSON_HEAD, chat('x').replace(/}$/, ',"usage":{"completion_tokens":1e999}}')) },
};

/** Replies from the corpus, filled in by their test. */
const CAPTURED: Record<string, Scripted> = {};

let folder: ReplayFolder;
let server: Server;
const sockets = new Set<Socket>();
let url: string;

beforeEach(async () => {
  folder = new ReplayFolder();
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    let text = '';
    socket.on('data', (data) => {
      text += data.toString('latin1');
      const [, length = '0'] = /content-length: (\d+)/i.exec(text) ?? [];
      const head = text.indexOf('\r\n\r\n');
      if (head < 0 || text.length < head + 4 + Number(length)) return;
      const name = /"content":"([^"]+)"/.exec(text)?.[1] ?? '';
      text = '';
      const reply = REPLIES[name] ?? CAPTURED[name] ?? { bytes: whole(JSON_HEAD, chat('ok')) };
      // Send pieces that are cut at odd places.
      for (const [from, to] of [
        [0, 97],
        [97, 251],
        [251, reply.bytes.length],
      ] as const)
        if (from < reply.bytes.length) socket.write(reply.bytes.subarray(from, to));
      if (reply.close) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`;
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

/** Replays the lines and compares each reply with its captured one. The results are in `out`. */
async function compared(lines: readonly string[], options: Partial<ReplayOptions>) {
  const out = join(folder.path, 'out');
  const file = folder.write('a.jsonl', lines);
  return { ...(await replayCompared(file, url, out, options)), file, out };
}

test('odd replies are read as intended, or are an error that describes the fault', async () => {
  const lines = Object.keys(REPLIES).map((name) => chatLine(name, 0, name, 'Fine.', { stream: true }));
  const { records, out } = await compared(lines, { timeout: 60 });
  const texts = new Map(
    readLines<{ event_id: string; reply: { ok: boolean; text: string } }>(join(out, 'replies.jsonl')).map(
      ({ event_id: id, reply }) => [id, reply.text],
    ),
  );
  const found = Object.fromEntries(
    records.map(({ metadata, error }) => [
      metadata.event_id,
      error ? `${error.code ?? ''} ${error.message}` : `said: ${texts.get(String(metadata.event_id))}`,
    ]),
  );
  expect(found).toEqual({
    gzip: 'said: packed',
    'gzip stream': 'said: packed',
    'gzip error': '500 boom',
    zstd: expect.stringContaining('its content coding "zstd" could not be decoded'),
    'raw deflate': 'said: packed',
    'two codings': expect.stringContaining('its content coding "deflate, gzip" could not be decoded'),
    'coded on its way': 'said: packed',
    'unknown coding': expect.stringContaining('its content coding "constructor" could not be decoded'),
    'unpacks to more than the limit': 'said: ',
    'a stream larger than the limit': 'said: ',
    'not gzip': 'said: not packed',
    'stream cut by the close': expect.stringContaining('closed the connection before the stream was complete'),
    'stream ended by the close': 'said: a',
    'names in another case': 'said: a',
    redirect: expect.stringMatching(/^307 .*to https:\/\/elsewhere\/v1: redirects are not followed$/),
    reasoning: 'said: thought',
    'error event': expect.stringContaining('upstream died'),
    'deep reply': expect.stringMatching(/^said: \[{100}/),
    'deep event': expect.stringContaining('the reply has no content'),
    'endless tokens': 'said: x',
  });
  for (const { metrics: all } of records)
    for (const [name, { value }] of Object.entries(all)) expect([name, typeof value]).toEqual([name, 'number']);
  // A reply that is too large is measured and reported as such, and not read as an empty reply.
  type Large = { event_id: string; reply: { notKeptBytes?: number }; comparison?: object };
  const large = readLines<Large>(join(out, 'replies.jsonl')).filter(({ reply }) => reply.notKeptBytes !== undefined);
  expect(large.map(({ event_id: id, comparison }) => [id, comparison])).toEqual([
    ['a stream larger than the limit', undefined],
  ]);
  const metrics = (id: string) => records.find(({ metadata }) => metadata.event_id === id)?.metrics;
  expect(metrics('names in another case')?.time_to_first_token).toBeDefined();
  expect(metrics('a stream larger than the limit')).toMatchObject({ output_sequence_length: { value: 35 } });
  expect(metrics('a stream larger than the limit')?.inter_chunk_latency).toBeUndefined();
  expect(metrics('gzip stream')?.time_to_first_token).toBeUndefined();
  expect(metrics('reasoning')).toMatchObject({ output_sequence_length: { value: 9, unit: 'tokens' } });
});

test('streams of all servers are read live as in their captures', async () => {
  const lines: string[] = [];
  const errors = new Map<string, string>();
  for (const file of [
    'chat-stream.jsonl',
    'messages.jsonl',
    'text-generation.jsonl',
    'completion.jsonl',
    'streams.jsonl',
  ])
    for (const raw of await linesOf(file)) {
      const decoded = decodeLine(raw);
      const body = wireBodyOf(raw, 'endpointOutput');
      // A list of all events is a document.
      const isStream = decoded.kind === 'capture' && decoded.capture.streamed && body?.bytes[0] !== '['.charCodeAt(0);
      if (!isStream || body === undefined) continue;
      const name = `${file} ${raw.place.line}`;
      const { error } = decoded.capture;
      if (error !== undefined) errors.set(name, error.message);
      const { captureData } = JSON.parse(raw.bytes.toString()) as { captureData: { endpointOutput: CapturedSideSpec } };
      const type = body.contentType ?? 'application/octet-stream';
      CAPTURED[name] = { bytes: whole(`HTTP/1.1 200 OK\r\nContent-Type: ${type}`, body.bytes) };
      const reply = { ...captureData.endpointOutput, contentType: type };
      lines.push(captureLine(name, 0, { data: chatBody(name, { stream: true }) }, reply));
    }
  expect(lines.length).toBeGreaterThan(15);
  const { records, out } = await compared(lines, { concurrency: 4 });
  type Compared = { event_id: string; reply: { ok: boolean }; comparison: { same: boolean } };
  for (const { event_id: id, comparison } of readLines<Compared>(join(out, 'replies.jsonl')))
    expect([id, comparison.same]).toEqual([id, true]);
  for (const { metadata, metrics, error } of records) {
    const id = String(metadata.event_id);
    if (errors.has(id)) expect([id, error?.message]).toEqual([id, errors.get(id)]);
    // An empty stream has no times.
    else if (error) expect([id, error.message]).toEqual([id, expect.stringContaining('the reply has no content')]);
    else expect([id, metrics.time_to_first_token?.unit]).toEqual([id, 'ms']);
  }
});

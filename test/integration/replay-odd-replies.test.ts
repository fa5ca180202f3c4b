/** Replies as servers should not send them, and do: byte for byte over a real connection. */

import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { chatLine, ReplayFolder, readLines, replay } from '../helpers/replay.ts';

const chat = (content: string, more: object = {}): string =>
  JSON.stringify({ choices: [{ message: { role: 'assistant', content }, finish_reason: 'stop' }], ...more });
const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const delta = (content: string, finish: string | null = null): string =>
  event({ choices: [{ delta: { content }, finish_reason: finish }] });
const whole = (head: string, body: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`), Buffer.from(body)]);
const JSON_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json';
const SSE_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream';
const usage = { prompt_tokens: 3, completion_tokens: 9, completion_tokens_details: { reasoning_tokens: 4 } };

/** What is answered to a prompt of that name, and whether the connection is closed after it. */
const REPLIES: Record<string, { bytes: Buffer; close?: boolean }> = {
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
  'not gzip': { bytes: whole(`${JSON_HEAD}\r\nContent-Encoding: gzip`, chat('not packed')) },
  'stream cut by the close': { bytes: Buffer.from(`${SSE_HEAD}\r\n\r\n${delta('a')}`), close: true },
  'stream ended by the close': { bytes: Buffer.from(`${SSE_HEAD}\r\n\r\n${delta('a', 'stop')}`), close: true },
  'names in another case': {
    bytes: whole('HTTP/1.1 200 OK\r\ncOnTeNt-TyPe: Text/Event-Stream; Charset=UTF-8', delta('a', 'stop')),
  },
  redirect: { bytes: whole('HTTP/1.1 307 Temporary Redirect\r\nLocation: https://elsewhere/v1', '') },
  reasoning: { bytes: whole(JSON_HEAD, chat('thought', { usage })) },
  'error event': { bytes: whole(SSE_HEAD, `${delta('a')}event: error\ndata: upstream died\n\n`) },
};

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
      const reply = REPLIES[name];
      socket.write(reply?.bytes ?? '');
      if (reply?.close) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`;
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
  folder.delete();
});

test('are read as they are meant, or are an error that says what is wrong', async () => {
  const out = join(folder.path, 'out');
  const lines = Object.keys(REPLIES).map((name) => chatLine(name, 0, name, 'Fine.', { stream: true }));
  const { CapturedReplies } = await import('../../lambda/replay/compare/with-captured.ts');
  const { mkdirSync } = await import('node:fs');
  mkdirSync(out);
  const captured = new CapturedReplies(out);
  const { records } = await replay(
    folder.write('a.jsonl', lines),
    url,
    out,
    { timeout: 10 },
    {
      keepCaptured: true,
      onMeasured: (measured) => captured.add(measured),
    },
  );
  await captured.finish();
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
    'gzip error': '500 {"error":"boom"}',
    'not gzip': 'said: not packed',
    'stream cut by the close': expect.stringContaining('closed the connection before the stream said'),
    'stream ended by the close': 'said: a',
    'names in another case': 'said: a',
    redirect: expect.stringMatching(/^307 .*to https:\/\/elsewhere\/v1: redirects are not followed$/),
    reasoning: 'said: thought',
    'error event': expect.stringContaining('upstream died'),
  });
  const metrics = (id: string) => records.find(({ metadata }) => metadata.event_id === id)?.metrics;
  expect(metrics('names in another case')?.time_to_first_token).toBeDefined();
  expect(metrics('gzip stream')?.time_to_first_token).toBeUndefined();
  expect(metrics('reasoning')).toMatchObject({
    output_sequence_length: { value: 9 },
    output_token_count: { value: 5 },
    reasoning_token_count: { value: 4, unit: 'tokens' },
    usage_reasoning_tokens: { value: 4, unit: 'tokens' },
  });
});

/**
 * The object that the capture client adds to a line: times and errors that only the caller saw, from anybody; and the first token of
 * captured streams: the piece that ends the first content, or why nobody knows it.
 */
import { buildTrace } from '../../../src/captures/trace/build.ts';
import type { DecodeOptions } from '../../../src/captures/types.ts';
import { literalRequest } from '../../../src/replay/request/literal.ts';
import { streamedSide, timedLine } from '../../helpers/timed-line.ts';
import { captureOf, decodedOf, jsonSide, rawLine, redactionBy } from './arbitraries.ts';
import table from './first-tokens.json' with { type: 'json' };

const chat = { messages: [{ role: 'user', content: 'Do ferns flower?' }] };
const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'No.' } }] };
const call = { streamed: true, ended: 'whole', status: 200, firstByteMs: 81.2, firstMs: 82, endMs: 430.6 };
const { firstMs: firstTokenMs, ...others } = call;
const seen = { ...others, firstTokenMs };
const error = { kind: 'throttled', class: 'ThrottlingException' };
const failed = { streamed: true, ended: 'failed', endMs: 812, error };

function read(client: unknown, options: DecodeOptions = {}) {
  const reply = (client as typeof call).ended === 'failed' ? undefined : jsonSide('OUTPUT', answer, 'plain');
  const record = captureOf(jsonSide('INPUT', chat, 'plain'), reply);
  const line = timedLine(record, client);
  const raw = rawLine(Buffer.from(JSON.stringify(line)));
  const capture = decodedOf(raw, options);
  const trace = buildTrace(capture, raw, { experimentId: '7', endpointName: 'fern-house' });
  return { capture, written: line.client, trace, root: trace.spans[0]?.attributes ?? {} };
}

test('a trace lasts as long as its call, and names when its first content came', () => {
  const { capture, trace, root } = read({ version: 1, writer: 'node', ...call });
  expect(trace).toMatchObject({ state: 'OK', tags: { status_code: '200' } });
  expect(trace.startTimeMs).toBe(capture.inferenceTimeMs);
  expect(trace.endTimeMs - trace.startTimeMs).toBe(431);
  expect(root['capture.call']).toEqual(seen);
  expect(root).not.toHaveProperty('capture.latency');
  expect(capture).not.toHaveProperty('extraFields');
  const event = { name: 'gen_ai.first_token', timeMs: trace.startTimeMs + 82 };
  expect(trace.spans[0]?.events).toEqual([event]);
  expect(read({ ...call, streamed: false }).trace.spans[0]).not.toHaveProperty('events');
});

test.each([
  ['a call without a reply', { ...failed, status: 429 }, '429', '429: ThrottlingException: throttled'],
  [
    'no connection',
    { ...failed, error: { kind: 'no-connection', class: 'ECONNREFUSED' } },
    'no-connection',
    'ECONNREFUSED: no-connection',
  ],
  [
    'a stream that broke',
    { ...call, ended: 'broke', error: { kind: 'stream', class: 'ModelStreamError' } },
    '200',
    '200: ModelStreamError: stream',
  ],
  ['a bad status alone', { ...call, status: 502 }, '502', '502: the caller got an error'],
])('%s is an error, by its kind', (_, client, status, message) => {
  const { trace } = read(client);
  expect(trace).toMatchObject({ state: 'ERROR', tags: { status_code: status } });
  expect(trace.spans[0]?.status).toEqual({ code: 'ERROR', message });
});

test('without texts, the times stay, and of an error its kind', () => {
  const redaction = redactionBy('', { content: 'none' });
  expect(read(call, { redaction }).root['capture.call']).toEqual(seen);
  const { root, trace } = read(failed, { redaction });
  expect(root['capture.call']).toEqual({ streamed: true, ended: 'failed', endMs: 812, error: { kind: 'throttled' } });
  expect(JSON.stringify(trace)).not.toContain('ThrottlingException');
});

test.each([
  ['negative', { ...call, firstByteMs: -1 }],
  ['huge', { ...call, endMs: 1e12 }],
  ['disordered', { ...call, firstMs: 500 }],
  ['no number', { ...call, endMs: '430' }],
  ['missing', { ...call, endMs: undefined }],
  ['of a failure without an error', { ...failed, error: undefined }],
  ['of a broken stream without an error', { ...call, ended: 'broke' }],
  ['of an unknown kind', { ...failed, error: { kind: 'kidnapped', class: 'X' } }],
  ['with a text for a class', { ...failed, error: { kind: 'stream', class: '<b> jane@example.com' } }],
  ['no object', 'client'],
])('an object that is %s stays an extra field, with a note', (_, client) => {
  const { capture, trace, written } = read(client);
  expect(trace.endTimeMs).toBe(trace.startTimeMs);
  expect(capture.extraFields).toEqual({ client: JSON.parse(JSON.stringify(written)) });
  expect(capture.notes).toContain(
    'the object “client” is not as the capture client writes it, and its times are not used',
  );
});

test('the class of an error is masked like any text, and its times stay numbers', () => {
  const redaction = redactionBy('card');
  const client = { ...failed, error: { kind: 'stream', class: '4111111111111111' } };
  const { capture, trace } = read(client, { redaction });
  expect(JSON.stringify(trace)).not.toContain('4111111111111111');
  expect(capture.call).toMatchObject({ endMs: 812, error: { class: expect.stringMatching(/^<card/) } });
});

// -------------------------------------------------------------------------------------------------------- first tokens

const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
const delta = (fields: object): string => event({ choices: [{ index: 0, delta: fields }] });
const ROLE = delta({ role: 'assistant', content: '' });
const WORD = delta({ content: 'Né' });

type Client = Record<string, unknown>;

function streamedLine(pieces: (readonly [number, string | Buffer])[], type?: string, more: Client = {}): Buffer {
  const { side, client } = streamedSide(pieces, type);
  const record = captureOf(jsonSide('INPUT', chat, 'plain'), side as never);
  const call = { streamed: true, ended: 'whole', status: 200, firstByteMs: 0, endMs: 9_000, ...client, ...more };
  return Buffer.from(JSON.stringify({ ...record, client: call }));
}

/** Returns the time of the first token, or why there is none. A replay of the same line has the same. */
function firstOf(line: Buffer): unknown {
  const { firstTokenMs, noFirstToken } = decodedOf(rawLine(line)).call ?? {};
  const literal = literalRequest(line);
  expect(literal.kind === 'request' && literal.request.capturedTimes?.time_to_first_token_ms).toBe(firstTokenMs);
  return firstTokenMs ?? noFirstToken;
}

/** Pieces come after 100, 200, … ms. */
const cut = (...parts: string[]) => parts.map((part, n) => [100 * (n + 1), part] as const);

type Row = { name: string; first: unknown; pieces: [number, string | { base64: string }][]; type?: string };

test.each(table as Row[])('$name', ({ first, pieces, type }) => {
  const bytesOf = (piece: string | { base64: string }) =>
    typeof piece === 'object' ? Buffer.from(piece.base64, 'base64') : piece;
  const read = pieces.map(([ms, piece]) => [ms, bytesOf(piece)] as const);
  expect(firstOf(streamedLine(read, type))).toBe(first);
});

const LATE = cut(ROLE, ROLE, WORD);
const [first, second] = streamedSide(LATE).client.pieces;

test.each<[string, Client, unknown]>([
  ['a reply that was left out', { left: { reply: 'too-large' } }, 'the reply was left out: too-large'],
  ['no times of pieces', { pieces: undefined }, 'the times of its pieces were not kept'],
  ['pieces that are too short', { pieces: [first, second, [300, 1]] }, 'its pieces do not add up to the reply'],
  ['too long pieces', { pieces: [first, [300, 9e6]], pieceCount: 600 }, 'its pieces do not add up to the reply'],
  ['content after the last kept piece', { pieces: [first, second] }, 'the content begins after the last kept piece'],
  ['a stream that broke', { ended: 'broke', error: { kind: 'stream', class: 'E' } }, 300],
  ['an unstreamed reply', { streamed: false }, undefined],
  [
    'times of its writer',
    { pieces: undefined, firstContentMs: 5, firstTokenMs: 6 },
    'the times of its pieces were not kept',
  ],
])('the first token of %s', (_, client, expected) => {
  expect(firstOf(streamedLine(LATE, undefined, client))).toBe(expected);
});

test('a reply that is masked has the first token that was captured', () => {
  const mail = delta({ content: 'jane.doe@example.com' });
  const redaction = redactionBy('email', { content: 'none' });
  const capture = decodedOf(rawLine(streamedLine(cut(ROLE, mail, WORD))), { redaction });
  expect(capture).toMatchObject({ call: { firstTokenMs: 200 }, content: 'none' });
  expect(JSON.stringify(capture)).not.toContain('jane.doe');
});

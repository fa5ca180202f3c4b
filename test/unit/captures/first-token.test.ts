/** The first token of captured streams: the piece that ends the first content, or why nobody knows it. */
import { gzipSync } from 'node:zlib';
import { decodeLine } from '../../../src/captures/decode.ts';
import { literalRequest, NO_OVERRIDES } from '../../../src/replay/request/literal.ts';
import { streamedSide } from '../../helpers/timed-line.ts';
import { captureOf, jsonSide, rawLine } from './arbitraries.ts';

const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
const delta = (fields: object): string => event({ choices: [{ index: 0, delta: fields }] });
const ROLE = delta({ role: 'assistant', content: '' });
const WORD = delta({ content: 'Né' });
const EVENTS = 'text/event-stream';
const LINES = 'application/jsonlines';
const OCTETS = 'application/octet-stream';

type Client = Record<string, unknown>;

function lineOf(pieces: (readonly [number, string | Buffer])[], type?: string, more: Client = {}): Buffer {
  const { side, client } = streamedSide(pieces, type);
  const record = captureOf(jsonSide('INPUT', { messages: [{ role: 'user', content: 'Hi' }] }, 'plain'), side as never);
  const call = { streamed: true, ended: 'whole', status: 200, firstByteMs: 0, endMs: 9_000, ...client, ...more };
  return Buffer.from(JSON.stringify({ ...record, client: call }));
}

/** Returns the time of the first token, or why there is none. A replay of the same line has the same. */
function firstOf(line: Buffer): unknown {
  const decoded = decodeLine(rawLine(line), {});
  const literal = literalRequest(line, NO_OVERRIDES);
  if (decoded.kind !== 'capture' || literal.kind !== 'request') throw new Error('not decoded');
  const { firstTokenMs, noFirstToken } = decoded.capture.call ?? {};
  expect(literal.request.capturedTimes?.time_to_first_token_ms).toBe(firstTokenMs);
  return firstTokenMs ?? noFirstToken;
}

/** Pieces come after 100, 200, … ms. */
const cut = (...parts: (string | Buffer)[]) => parts.map((part, n) => [100 * (n + 1), part] as const);
const bytes = (text: string, from: number, to?: number): Buffer => Buffer.from(text).subarray(from, to);
const inBytes = (document: object): string =>
  event({ chunk: { bytes: Buffer.from(JSON.stringify(document)).toString('base64') } });
const nearEnd = WORD.length - 4;

test.each<[string, unknown, readonly (readonly [number, string | Buffer])[], string?]>([
  ['a word at once', 100, cut(WORD)],
  ['comments, the role and an empty delta', 400, cut(': keep-alive\n\n', ROLE, delta({ content: '' }), WORD)],
  ['reasoning', 200, cut(ROLE, delta({ reasoning_content: 'Hm' }), WORD)],
  ['reasoning in the other spelling', 200, cut(ROLE, delta({ reasoning: 'Hm' }), WORD)],
  ['an empty reasoning beside one', 200, cut(ROLE, delta({ reasoning_content: '', reasoning: 'Hm' }), WORD)],
  ['a tool call', 200, cut(ROLE, delta({ tool_calls: [{ index: 0, function: { name: 'f' } }] }), WORD)],
  ['a tool call that is only an id', 300, cut(ROLE, delta({ tool_calls: [{ index: 0, id: 'c1' }] }), WORD)],
  ['carriage returns with line feeds', 200, cut(ROLE.replaceAll('\n', '\r\n'), WORD.replaceAll('\n', '\r\n'))],
  ['carriage returns alone', 200, cut(ROLE.replaceAll('\n', '\r'), WORD.replaceAll('\n', '\r'), ROLE)],
  ['a byte order mark', 200, cut(`\ufeff${ROLE}`, WORD)],
  [
    'several lines of data in an event',
    200,
    cut(ROLE, 'data: {"choices":[{"index":0,\ndata: "delta":{"content":"a"}}]}\n\n'),
  ],
  ['no blank lines between events', 200, cut(ROLE.replace('\n\n', '\n'), WORD.replace('\n\n', '\n'), WORD)],
  ['no blank line at the end', 200, cut(ROLE, WORD.trimEnd(), '')],
  ['an event that is cut', 300, cut(ROLE, WORD.slice(0, 20), WORD.slice(20))],
  ['an event whose last line feed is cut', 300, cut(ROLE, WORD.slice(0, -1), `\n${WORD}`)],
  ['a character that is cut', 300, cut(ROLE, bytes(WORD, 0, nearEnd), bytes(WORD, nearEnd))],
  ['two events in a piece', 100, cut(ROLE + WORD)],
  [
    'several pieces at once',
    200,
    [
      [100, ROLE],
      [200, WORD],
      [200, WORD],
    ],
  ],
  ['TGI', 200, cut(event({ index: 0, token: { text: '' } }), event({ index: 1, token: { text: 'a' } }))],
  [
    'Anthropic',
    300,
    cut(
      event({ type: 'message_start', message: {} }),
      event({ type: 'ping' }),
      event({ type: 'content_block_delta', delta: { type: 'text_delta', text: 'a' } }),
    ),
  ],
  [
    'Bedrock',
    200,
    cut(event({ messageStart: { role: 'assistant' } }), event({ contentBlockDelta: { delta: { text: 'a' } } })),
  ],
  [
    'Bedrock in bytes',
    200,
    cut(inBytes({ type: 'message_start' }), inBytes({ type: 'content_block_delta', delta: { text: 'a' } })),
  ],
  ['JSON lines', 200, cut('{"token":{"text":""}}\n', '{"token":{"text":"a"}}\n', '{"token":{"text":"b"}}'), LINES],
  ['one JSON line', 100, cut('{"outputs":["a"]}\n'), LINES],
  ['JSON lines without a type', 100, cut('{"outputs":["a"]}\n', '{"outputs":["b"]}\n'), OCTETS],
  ['plain text', 100, cut('Fer', 'ns'), 'text/plain'],
  ['plain text that begins like a field', 100, cut('dat', 'es'), OCTETS],
  ['events of a form that nobody knows', 100, cut(event({ score: [1] }), event({ score: [2] }))],
  ['an error alone', 'the reply has no content', cut(ROLE, event({ error: { message: 'overloaded' } }))],
  ['the role alone', 'the reply has no content', cut(': ping\n\n', `${ROLE}data: [DONE]\n\n`)],
  [
    'one document',
    'the reply is no stream of text',
    cut('{"choices":[{"message":', '{"content":"a"}}]}'),
    'application/json',
  ],
  ['a document on several lines', 'the reply is no stream of text', cut('{\n"outputs":\n', '["a"]\n}'), OCTETS],
  ['a list', 'the reply is no stream of text', cut('[{"generated_text":', '"a"}]'), OCTETS],
  ['bytes', 'the reply is no stream of text', cut(Buffer.alloc(99, 0x81), Buffer.alloc(99, 1)), OCTETS],
  [
    'a compressed reply',
    'the reply is compressed',
    cut(gzipSync(ROLE + WORD).subarray(0, 30), gzipSync(ROLE + WORD).subarray(30)),
  ],
])('%s', (_, expected, pieces, type = EVENTS) => {
  expect(firstOf(lineOf([...pieces], type))).toBe(expected);
});

const LATE = cut(ROLE, ROLE, WORD);
const [first, second] = streamedSide(LATE).client.pieces;

test.each<[string, Client, unknown]>([
  ['a reply that was left out', { left: { reply: 'too-large' } }, 'the reply was left out: too-large'],
  ['no times of pieces', { pieces: undefined }, 'the times of its pieces were not kept'],
  ['pieces that are too short', { pieces: [first, second, [300, 1]] }, 'its pieces do not add up to the reply'],
  [
    'pieces that are too long',
    { pieces: [first, [300, 9e6]], pieceCount: 600 },
    'its pieces do not add up to the reply',
  ],
  ['content after the last kept piece', { pieces: [first, second] }, 'the content begins after the last kept piece'],
  ['a stream that broke', { ended: 'broke', error: { kind: 'stream', class: 'E' } }, 300],
  ['an unstreamed reply', { streamed: false }, undefined],
  [
    'a time of the transport that somebody wrote',
    { pieces: undefined, firstContentMs: 5, firstTokenMs: 6 },
    'the times of its pieces were not kept',
  ],
])('%s', (_, client, expected) => {
  expect(firstOf(lineOf(LATE, undefined, client))).toBe(expected);
});

test('a reply that is masked has the first token that was captured', () => {
  const mail = delta({ content: 'jane.doe@example.com' });
  const redaction = { kinds: ['email'] as const, fields: [], patterns: [], allow: [], content: 'none', key: 'a key' };
  const decoded = decodeLine(rawLine(lineOf(cut(ROLE, mail, WORD))), { redaction } as never);
  expect(decoded).toMatchObject({ capture: { call: { firstTokenMs: 200 }, content: 'none' } });
  expect(JSON.stringify(decoded)).not.toContain('jane.doe');
});

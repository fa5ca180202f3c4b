/** The first token of captured streams: the piece that ends the first content, or why nobody knows it. */
import { decodeLine } from '../../../src/captures/decode.ts';
import { literalRequest } from '../../../src/replay/request/literal.ts';
import { streamedSide } from '../../helpers/timed-line.ts';
import { captureOf, jsonSide, rawLine } from './arbitraries.ts';
import table from './first-tokens.json' with { type: 'json' };

const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
const delta = (fields: object): string => event({ choices: [{ index: 0, delta: fields }] });
const ROLE = delta({ role: 'assistant', content: '' });
const WORD = delta({ content: 'Né' });

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
  const literal = literalRequest(line);
  if (decoded.kind !== 'capture' || literal.kind !== 'request') throw new Error('not decoded');
  const { firstTokenMs, noFirstToken } = decoded.capture.call ?? {};
  expect(literal.request.capturedTimes?.time_to_first_token_ms).toBe(firstTokenMs);
  return firstTokenMs ?? noFirstToken;
}

/** Pieces come after 100, 200, … ms. */
const cut = (...parts: string[]) => parts.map((part, n) => [100 * (n + 1), part] as const);

interface Row {
  name: string;
  first: unknown;
  pieces: [number, string | { base64: string }][];
  type?: string;
}
const rows = table as Row[];

test.each(rows)('$name', ({ first, pieces, type }) => {
  const read = pieces.map(([ms, piece]) => [
    ms,
    typeof piece === 'object' ? Buffer.from(piece.base64, 'base64') : piece,
  ]);
  expect(firstOf(lineOf(read as [number, string][], type))).toBe(first);
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

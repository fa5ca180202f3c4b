/** Whatever an object `client` says, the line is a capture whose trace and times make sense. */
import * as fc from 'fast-check';
import { callTimesOf } from '../../../src/captures/call-times.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import { MIN_TIMED_BYTES } from '../../../src/core/process/within-time.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { askedOf } from '../../../src/judge/scorers/scorer-set.ts';
import { noRows } from '../../../src/ledger/tables.ts';
import { foldRows } from '../../../src/quality/fold.ts';
import { captureFacts } from '../../../src/quality/tally.ts';
import { literalRequest } from '../../../src/replay/request/literal.ts';
import { captureOf, decodedOf, jsonSide, rawLine, sideOf } from './arbitraries.ts';

const UNCHANGED = { set: [] } as unknown as Parameters<typeof literalRequest>[1];
const DAY_MS = 24 * 3_600_000;
const chat = { messages: [{ role: 'user', content: 'Do ferns flower?' }] };
const WORDS = 'data: {"choices":[{"index":0,"delta":{"content":"No."}}]}\n\n';
const reply = (tokens: unknown) =>
  `${WORDS}data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: tokens, total_tokens: 44 } })}\n\n`;

const pieces = [[82, WORDS.length]];
const good = { streamed: true, ended: 'whole', status: 200, firstByteMs: 80, pieces, pieceCount: 2, endMs: 432 };

/** A number as JSON can have it, far beyond what was measured. */
const odd = fc.oneof(
  fc.double({ noNaN: true }).map(Number),
  fc.constantFrom(0, -0, 1e-320, -1, 82, DAY_MS, DAY_MS + 1, 1e300, 2 ** 53),
  fc.constantFrom<unknown>(null, '430', [], {}, true, [432], { valueOf: 1 }),
);
const client = fc.oneof(
  fc.anything(),
  fc.record(
    {
      streamed: fc.constantFrom<unknown>(true, false, 1, 'true'),
      calls: fc.constantFrom<unknown>('streams', 'all', 'none', null),
      ended: fc.constantFrom<unknown>('whole', 'broke', 'left', 'failed', '__proto__', 1),
      firstByteMs: odd,
      endMs: odd,
      status: fc.constantFrom<unknown>(200, 429, 99, 600, 200.5, -1, '200', null),
      error: fc.constantFrom<unknown>(
        { kind: 'stream', class: 'ModelStreamError' },
        { kind: 'stream' },
        { kind: '__proto__', class: 'X' },
        { kind: 'timeout', class: 'constructor' },
        null,
        'error',
      ),
      pieces: fc.oneof(odd, fc.tuple(fc.tuple(odd, fc.oneof(odd, fc.constant(WORDS.length))))),
      pieceCount: odd,
      left: fc.constantFrom<unknown>({}, { reply: 'memory' }, { reply: 'the dog' }, 'memory'),
    },
    { requiredKeys: ['ended', 'endMs', 'streamed'] },
  ),
  // As the capture client writes it, with one thing that is not.
  fc.tuple(fc.constantFrom(...Object.keys(good)), odd).map(([name, value]) => ({ ...good, [name]: value })),
);

function check(given: string, tokens: unknown): void {
  const record = captureOf(
    jsonSide('INPUT', chat, 'plain'),
    sideOf('OUTPUT', reply(tokens), 'text/event-stream', 'plain'),
  );
  const bytes = Buffer.from(JSON.stringify({ ...record, client: 0 }).replace('"client":0', () => `"client":${given}`));
  const raw = rawLine(bytes);
  // Each line that is watched starts a thread, for which a busy machine needs milliseconds.
  const timeMs = bytes.length < MIN_TIMED_BYTES ? Number.POSITIVE_INFINITY : 60_000;
  const capture = decodedOf(raw, { maxWeight: Number.POSITIVE_INFINITY, timeMs });
  const trace = buildTrace(capture, raw, { experimentId: '7', endpointName: 'fern-house' });
  expect(trace.endTimeMs).toBeGreaterThanOrEqual(trace.startTimeMs);
  expect(trace.endTimeMs).toBeLessThanOrEqual(trace.startTimeMs + DAY_MS);
  for (const { timeMs } of trace.spans[0]?.events ?? []) {
    expect(timeMs).toBeGreaterThanOrEqual(trace.startTimeMs);
    expect(timeMs).toBeLessThanOrEqual(trace.endTimeMs);
  }
  for (const value of Object.values(callTimesOf(capture))) {
    if (value === undefined) continue;
    expect(value).toBeGreaterThanOrEqual(0);
    expect(value).toBeLessThanOrEqual(DAY_MS);
  }
  for (const scorer of askedOf(codeScorers, capture)) scorer.score(capture);
  const row = { ...captureFacts(capture), traceId: 't', hour: '2026-11-20T10', outcome: 'traced' };
  expect(foldRows({ ...noRows(), captures: [row] }, { measures: [] })).toHaveProperty('2026-11-20T10');
  // A line that is too heavy for a replay is skipped by who reads it.
  if (bytes.length < 1e6) expect(literalRequest(bytes, UNCHANGED)).toHaveProperty('request');
  expect(Object.prototype).not.toHaveProperty('streamed');
}

test('an object client of any form', () => {
  const tokens = fc.constantFrom<unknown>(35, 0, -35, 1e300, 0.5, '35', null);
  fc.assert(
    fc.property(client, tokens, (one, count) => {
      check(JSON.stringify(one) ?? 'null', count);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  ['a member of prototypes', `{"__proto__":${JSON.stringify(good)},"streamed":true}`],
  ['constructors', `{"constructor":{"prototype":{"streamed":true}},"toString":1,"hasOwnProperty":2}`],
  ['numbers beyond doubles', `{"streamed":true,"ended":"whole","endMs":1e999,"pieces":[[-1e999,1e999]]}`],
  ['a million pieces', JSON.stringify({ ...good, pieces: Array.from({ length: 1e6 }, (_, n) => [n, 1]) })],
  ['a million times', JSON.stringify({ ...good, endMs: Array.from({ length: 1e6 }, (_, n) => n) })],
  ['a very deep object', `${'{"client":'.repeat(5_000)}1${'}'.repeat(5_000)}`],
  ['a long class', JSON.stringify({ ...good, error: { kind: 'stream', class: 'x'.repeat(1e6) } })],
  ['the same member twice', `{"endMs":-1,"endMs":432,"streamed":true,"ended":"whole"}`],
])('%s', (_, given) => {
  check(given, 35);
});

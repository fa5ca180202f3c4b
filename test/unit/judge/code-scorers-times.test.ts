/** Scorers of times, of lines as the capture client writes them and as anybody may. */
import { apart } from '../../../src/captures/content.ts';
import { failureOf, kindBesideRates } from '../../../src/captures/failure.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { askedOf } from '../../../src/judge/scorers/scorer-set.ts';
import { timedLine } from '../../helpers/timed-line.ts';
import { decodedOf, jsonRecord, lineOf } from '../captures/arbitraries.ts';

const chat = { messages: [{ role: 'user', content: 'Do ferns flower?' }] };
const answer = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'No.' } }],
  usage: { prompt_tokens: 9, completion_tokens: 35, total_tokens: 44 },
};
const stream = { streamed: true, ended: 'whole', status: 200, firstByteMs: 80.5, firstMs: 82.25, endMs: 432.25 };
const broken = { error: { kind: 'stream', class: 'ModelStreamError' } };
const ALL = { latency_ms: 432.25, time_to_first_token_ms: 82.25, output_tokens_per_second: 100 };
const TIMES = Object.keys(ALL);

function decoded(client: unknown, reply: unknown = answer) {
  return decodedOf(lineOf(timedLine(jsonRecord(chat, reply), client)));
}

/** What the scorers say that the capture is asked about. */
function scored(client: unknown, reply?: unknown) {
  const capture = decoded(client, reply);
  const asked = askedOf(codeScorers, capture).filter(({ name }) => TIMES.includes(name));
  return Object.fromEntries(asked.map((scorer) => [scorer.name, Object.entries(scorer.score(capture)).flat()[1]]));
}

test.each<[string, unknown, Partial<typeof ALL>, unknown?]>([
  ['a whole stream', stream, ALL],
  ['a broken stream has its first token', { ...stream, ...broken, ended: 'broke' }, { time_to_first_token_ms: 82.25 }],
  ['a stream that its reader left has none', { ...stream, ended: 'left' }, {}],
  ['no reply has none', { streamed: true, ended: 'failed', endMs: 9, error: { kind: 'timeout', class: 'T' } }, {}],
  ['an unstreamed reply has its latency', { ...stream, streamed: false }, { latency_ms: 432.25 }],
  [
    'a stream without usage has no tokens per second',
    stream,
    { latency_ms: 432.25, time_to_first_token_ms: 82.25 },
    { ...answer, usage: undefined },
  ],
  ['an error that came as a whole reply has none', stream, {}, { error: { message: 'Too long', code: 400 } }],
  ['a bad status without an error has none', { ...stream, status: 500 }, {}],
  [
    'no time between first content and end',
    { ...stream, firstMs: 432.25 },
    { ...ALL, time_to_first_token_ms: 432.25, output_tokens_per_second: undefined },
  ],
  [
    'tokens that nobody can have counted in that time',
    stream,
    { ...ALL, output_tokens_per_second: undefined },
    { ...answer, usage: { ...answer.usage, completion_tokens: 1e9 } },
  ],
  ['negative times', { ...stream, firstByteMs: -1 }, {}],
  ['huge times', { ...stream, endMs: 1e9 }, {}],
  ['disordered times', { ...stream, firstMs: 500 }, {}],
  ['no client', undefined, {}],
])('%s', (_, client, expected, reply = answer) => {
  expect(scored(client, reply)).toEqual(JSON.parse(JSON.stringify(expected)));
});

test('a capture without times is asked what it was asked before, and all scorers of times give a reason if asked', () => {
  const capture = decoded(undefined);
  const asked = askedOf(codeScorers, capture).map(({ name }) => name);
  expect(asked).toEqual(codeScorers.map(({ name }) => name).filter((name) => !TIMES.includes(name)));
  expect(askedOf(codeScorers).map(({ name }) => name)).toEqual(asked);
  const others = codeScorers.filter(({ name }) => TIMES.includes(name));
  expect(others.map((scorer) => scorer.score(capture))).toEqual(others.map(() => ({ notJudgeable: 'notMeasured' })));
});

test('a capture whose content is in another process is asked the same, and is the same failure', () => {
  const failed = { streamed: false, ended: 'failed', endMs: 9, error: { kind: 'timeout', class: 'T' } };
  for (const client of [stream, failed, undefined]) {
    const capture = decoded(client);
    const kept = apart({ ...capture, results: new Map() });
    expect(askedOf(codeScorers, kept)).toEqual(askedOf(codeScorers, capture));
    expect([failureOf(kept), kindBesideRates(kept)]).toEqual([failureOf(capture), kindBesideRates(capture)]);
  }
});

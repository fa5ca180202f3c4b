/** Deciding which scorers apply to a capture. */
import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { Capture } from '../../../src/captures/types.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { defaultJudgeScorers } from '../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../../src/judge/types.ts';
import { captureOf, decodedOf, jsonSide, lineOf } from '../captures/arbitraries.ts';
import { chatCapture, exchangeCapture, plainCapture, textPayload, toolCallCapture } from './captures.ts';

const of = (capture: Capture, ...needs: JudgeScorer['needs'][number][]) => applicability(capture, { needs });
const judged = { judge: true };
const bytes = { ...textPayload('x'), kind: 'binary' } as const;

test('applies all scorers that need no tools to a chat', () => {
  const applied = defaultJudgeScorers.map((scorer) => [scorer.name, applicability(chatCapture(), scorer)]);
  const expected = defaultJudgeScorers.map(({ name, needs }) => [
    name,
    needs.includes('tools') ? { notJudgeable: 'noToolCalls' } : judged,
  ]);
  expect(applied).toEqual(expected);
  expect(expected).toContainEqual(['tool_call_correctness', { notJudgeable: 'noToolCalls' }]);
});

test('applies only scorers that need no reply text to a reply with only tool calls', () => {
  const applied = defaultJudgeScorers.filter((scorer) => 'judge' in applicability(toolCallCapture(), scorer));
  expect(applied).toEqual(defaultJudgeScorers.filter(({ needs }) => !needs.includes('reply')));
  expect(applied.map(({ name }) => name)).toContain('tool_call_correctness');
  expect(of(toolCallCapture(), 'reply')).toEqual({ notJudgeable: 'noReplyText' });
});

test.each<[string, Capture, JudgeScorer['needs'][number][], string]>([
  ['an error reply', { ...chatCapture(), error: { statusCode: 424, message: 'x' } }, ['reply'], 'errorReply'],
  ['no response', { ...chatCapture({ replies: [] }), response: undefined as never }, ['reply'], 'noResponse'],
  ['an empty response', { ...chatCapture(), response: { ...textPayload(''), kind: 'empty' } }, ['reply'], 'noResponse'],
  ['a conversation without a reply', chatCapture({ replies: [] }), ['reply'], 'emptyReply'],
  ['a reply of white space', chatCapture({ reply: '  \n' }), ['reply'], 'emptyReply'],
  ['no request', chatCapture({ messages: [] }), ['request', 'reply'], 'noRequest'],
  ['no message', chatCapture({ messages: [{ role: 'system', content: 'x' }] }), ['request'], 'noRequest'],
  ['no prompt', chatCapture({ messages: [{ role: 'user', content: 'x' }] }), ['system-prompt'], 'noSystemPrompt'],
  ['a vector', plainCapture({ format: 'embedding', response: textPayload('[1,2]', [1, 2]) }), ['reply'], 'notText'],
  ['bytes', plainCapture({ format: 'binary', response: bytes }), ['reply'], 'notText'],
  [
    'JSON without words',
    plainCapture({ format: 'json', response: textPayload('{"a":3}', { a: 3 }) }),
    ['reply'],
    'notText',
  ],
])('does not judge %s', (_, capture, needs, reason) => {
  expect(of(capture, ...needs)).toEqual({ notJudgeable: reason });
});

test('applies scorers that need no request if only the reply was captured', () => {
  const capture = chatCapture({ messages: [] });
  expect(of(capture, 'reply')).toEqual(judged);
});

test('never reads a JSON document of unknown form as an exchange', () => {
  const json = plainCapture({
    format: 'json',
    request: textPayload('{"q":"Where is it?"}', { q: 'Where is it?' }),
    response: textPayload('{"a":{"text":"It is in Bern."}}', { a: { text: 'It is in Bern.' } }),
  });
  expect(of(json, 'request', 'reply')).toEqual({ notJudgeable: 'notText' });
});

test('treats a legacy function call as a tool call', () => {
  const reply = { role: 'assistant', content: null, function_call: { name: 'track', arguments: '{}' } };
  expect(of(chatCapture({ replies: [reply] }), 'tools')).toEqual(judged);
});

test.each(['reply', 'request'])('a %s that is too heavy to decode is not judged as its base64', (side) => {
  const bytes = gzipSync(JSON.stringify({ choices: [{ message: { role: 'assistant', content: ' '.repeat(60e6) } }] }));
  const data = { observedContentType: 'application/json', data: bytes.toString('base64'), encoding: 'BASE64' };
  const heavy = { ...data, mode: side === 'reply' ? ('OUTPUT' as const) : ('INPUT' as const) };
  const ask = jsonSide('INPUT', { messages: [{ role: 'user', content: 'Where is it?' }] }, 'plain');
  const capture = decodedOf(lineOf(side === 'reply' ? captureOf(ask, heavy as never) : captureOf(heavy as never, ask)));
  expect(capture.notes.join()).toContain('TooHeavy');
  expect(of(capture, 'reply')).toEqual({ notJudgeable: 'notDecoded' });
  for (const scorer of codeScorers) expect(scorer.score(capture)).toHaveProperty('notJudgeable');
});

test.each([
  ['reply', ['reply'], 'noResponse'],
  ['request', ['request', 'reply'], 'noRequest'],
] as const)('bytes, such as a %s in brotli, are no words', (side, needs, reason) => {
  const asked = { messages: [{ role: 'user', content: 'Where is it?' }] };
  const told = { choices: [{ message: { role: 'assistant', content: 'It is in Bern.' }, finish_reason: 'stop' }] };
  const body = (mode: 'INPUT' | 'OUTPUT', value: object, isPacked: boolean) => {
    const packed = brotliCompressSync(JSON.stringify(value)).toString('base64');
    const plain = jsonSide(mode, value, 'plain');
    return isPacked ? { ...plain, data: packed, encoding: 'BASE64' as const } : plain;
  };
  const sides = [body('INPUT', asked, side === 'request'), body('OUTPUT', told, side === 'reply')] as const;
  expect(of(decodedOf(lineOf(captureOf(...sides))), ...needs)).toEqual({ notJudgeable: reason });
});

test('compares an exchange of a replay only if there is a captured reply to compare with', () => {
  const captured = { bucket: 'b', key: 'k', etag: 'e', start: 0, end: 9 };
  const compared = exchangeCapture(captured);
  const needs = ['request', 'reply', 'captured-reply'] as const;
  expect(of(compared, ...needs)).toEqual(judged);
  expect(of(exchangeCapture(undefined), ...needs)).toEqual({ notJudgeable: 'nothingToCompare' });
  expect(of(chatCapture(), ...needs)).toEqual({ notJudgeable: 'nothingToCompare' });
  // An ordinary question about the same exchanges needs none.
  expect(of(exchangeCapture(undefined), 'request', 'reply')).toEqual(judged);
  expect(of({ ...compared, error: { statusCode: 500, message: 'x' } }, ...needs)).toEqual({
    notJudgeable: 'errorReply',
  });
});

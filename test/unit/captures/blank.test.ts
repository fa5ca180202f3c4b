/** Which captured replies say nothing, from the line to the answer. */
import { isEmptyReply, saidIn } from '../../../src/captures/blank.ts';
import { base64, captureLine, chatRequest, json, type Side } from '../../helpers/deployed-captures.ts';
import { decodedOf, lineOf } from './arbitraries.ts';

const asked = json(chatRequest('Q?'));
const prompt: Side = { contentType: 'text/plain', data: 'Q?', encoding: 'CSV' };
const image = json({ image: 'x' });
const chat = (...messages: object[]) =>
  json({
    object: 'chat.completion',
    choices: messages.map((one, index) => ({ index, finish_reason: 'stop', message: { role: 'assistant', ...one } })),
  });
const text = (data: string): Side => ({ contentType: 'text/plain', data, encoding: 'CSV' });
const events = (...deltas: object[]) =>
  base64(
    deltas
      .map(
        (delta) => `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index: 0, delta }] })}\n\n`,
      )
      .join(''),
    'text/event-stream',
  );
const call = { version: 1, writer: 'node', streamed: false, ended: 'whole', status: 200, endMs: 430 };
const broken = { ...call, streamed: true, ended: 'broke', error: { kind: 'stream', class: 'E' } };
const tool = { id: '1', type: 'function', function: { name: 'look_up', arguments: '{}' } };

const EMPTY = { form: 'words', isEmpty: true };
const WORDS = { form: 'words', isEmpty: false };

test.each<[string, Side | undefined, Side | undefined, object | undefined, object?]>([
  ['a text', asked, chat({ content: 'Yes.' }), WORDS],
  ['a full stop', asked, chat({ content: '.' }), WORDS],
  ['no text', asked, chat({ content: '' }), EMPTY],
  ['null', asked, chat({ content: null }), EMPTY],
  ['spaces', asked, chat({ content: ' \n\t' }), EMPTY],
  ['invisible characters', asked, chat({ content: '\u200b\ufeff\u2060' }), EMPTY],
  ['a tool call alone', asked, chat({ content: null, tool_calls: [tool] }), WORDS],
  ['an empty list of tool calls', asked, chat({ content: '', tool_calls: [] }), EMPTY],
  ['an image', asked, chat({ content: [{ type: 'image_url', image_url: { url: 'data:x' } }] }), WORDS],
  ['an empty part', asked, chat({ content: [{ type: 'text', text: '' }] }), EMPTY],
  ['reasoning alone', asked, chat({ content: '', reasoning_content: 'The user asks.' }), WORDS],
  ['one choice of two', asked, chat({ content: '' }, { content: 'Yes.' }), WORDS],
  ['two empty choices', asked, chat({ content: '' }, { content: ' ' }), EMPTY],
  ['no choice', asked, json({ object: 'chat.completion', choices: [] }), EMPTY],
  ['no body to a chat', asked, text(''), EMPTY],
  ['an unknown form to a chat', asked, json({ weather: 'sunny' }), WORDS],
  ['an empty object to a chat', asked, json({}), EMPTY],
  ['a stream', asked, events({ role: 'assistant', content: '' }, { content: 'Yes' }, {}), WORDS],
  ['a stream without text', asked, events({ role: 'assistant', content: '' }, {}), EMPTY],
  ['a plain text', prompt, text('Yes.'), WORDS],
  ['an empty plain text', prompt, text(''), EMPTY],
  ['a blank plain text', prompt, text(' \n'), EMPTY],
  ['nothing detected', image, json([]), { form: 'values', isEmpty: true }],
  ['an empty object', image, json({}), { form: 'values', isEmpty: true }],
  ['a zero', image, json({ score: 0 }), { form: 'values', isEmpty: false }],
  ['a table', { ...text('1,2'), contentType: 'text/csv' }, { ...text('0.5'), contentType: 'text/csv' }, undefined],
  ['no captured reply', asked, undefined, undefined],
  ['a reply without its request', undefined, chat({ content: '' }), EMPTY],
  ['an error', asked, json({ error: { message: '', code: 429 } }), undefined],
  ['a whole call', asked, chat({ content: '' }), EMPTY, call],
  ['a call with a bad status', asked, chat({ content: '' }), undefined, { ...call, status: 502 }],
  ['a call that its caller left', asked, chat({ content: '' }), undefined, { ...call, streamed: true, ended: 'left' }],
  ['a stream that broke', asked, chat({ content: '' }), undefined, broken],
])('%s', (_, request, reply, said, ...[client]) => {
  const line = JSON.parse(captureLine('a', '2026-11-20T10:00:00Z', request, reply));
  const capture = decodedOf(lineOf({ ...line, ...(client && { client }) }));
  expect(saidIn(capture)).toEqual(said);
  expect(isEmptyReply(capture)).toBe(said === EMPTY);
});

/** Tests of converting messages and tools for MLflow’s page. */

import { contentText, viewMessage, viewTools } from '../../../../src/captures/trace/chat-view.ts';
import type { ChatMessage } from '../../../../src/captures/types.ts';
import TABLE from './chat-view.json' with { type: 'json' };

const view = (message: unknown, isReply = false): ChatMessage => viewMessage(message as ChatMessage, isReply);

test.each(TABLE.kept as [string, object][])('keeps %s', (_title, message) => {
  expect(view(message)).toBe(message);
});

test.each(TABLE.converted)('converts $title', ({ message, isReply, wanted }) => {
  const before = JSON.stringify(message);
  expect(view(message, isReply)).toEqual(wanted);
  expect(JSON.stringify(message)).toBe(before);
});

test('returns the text of a content', () => {
  expect(contentText(null)).toBe('');
  expect(contentText('x')).toBe('x');
  const parts = [
    { type: 'text', text: 'a' },
    { type: 'input_audio', input_audio: { data: 'd' } },
  ];
  expect(contentText(parts)).toBe('a\n\n[audio]');
});

test('returns only tools that the page can list', () => {
  const good = {
    type: 'function',
    function: { name: 'f', parameters: { properties: { a: { type: 'string' } }, required: ['a'] } },
  };
  const bare = { type: 'function', function: { name: 'g' } };
  const bad = [
    { type: 'web_search' },
    { type: 'function', function: { name: 'f', parameters: { required: 'a' } } },
    { type: 'function', function: { name: 'f', parameters: { properties: { a: { type: ['string', 'null'] } } } } },
    'tool',
    null,
  ];
  expect(viewTools([good, ...bad, bare])).toEqual([good, bare]);
  expect(viewTools(undefined)).toEqual([]);
});

/** Tests of converting messages and tools for MLflow’s page. */

import { contentText, viewMessage, viewTools } from '../../../../src/captures/trace/chat-view.ts';
import type { ChatMessage } from '../../../../src/captures/types.ts';

const view = (message: unknown, isReply = false): ChatMessage => viewMessage(message as ChatMessage, isReply);

test.each<[string, unknown]>([
  ['a text', { role: 'user', content: 'x' }],
  [
    'tool calls without content',
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
    },
  ],
  [
    'empty tool calls, as vLLM sends them',
    { role: 'assistant', content: 'x', tool_calls: [], function_call: null, reasoning: null },
  ],
  [
    'parts that the page can render',
    {
      role: 'user',
      content: [
        { type: 'text', text: 'x' },
        { type: 'image_url', image_url: { url: 'u' } },
        { type: 'input_audio', input_audio: { data: 'd', format: 'wav' } },
      ],
    },
  ],
])('keeps %s', (_title, message) => {
  expect(view(message)).toBe(message);
});

test.each<[string, unknown, boolean, unknown]>([
  ['a developer', { role: 'developer', content: 'x' }, false, { role: 'system', content: 'x', name: 'developer' }],
  ['a function', { role: 'function', name: 'f', content: 'x' }, false, { role: 'tool', name: 'f', content: 'x' }],
  ['an unknown role', { role: 'narrator', content: 'x' }, false, { role: 'user', content: 'x', name: 'narrator' }],
  [
    'an unknown role of a reply',
    { role: 'narrator', content: 'x' },
    true,
    { role: 'assistant', content: 'x', name: 'narrator' },
  ],
  [
    'a role named like a method of Object',
    { role: 'constructor', content: 'x' },
    false,
    { role: 'user', content: 'x', name: 'constructor' },
  ],
  ['no content', { role: 'assistant' }, true, { role: 'assistant', content: null }],
  [
    'an image that is only a URL',
    { role: 'user', content: [{ type: 'image_url', image_url: 'u' }] },
    false,
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'u' } }] },
  ],
  [
    'a part that the page cannot render',
    { role: 'user', content: [{ type: 'video_url', video_url: 'v' }, 'bare'] },
    false,
    {
      role: 'user',
      content: [
        { type: 'text', text: '[video_url]' },
        { type: 'text', text: 'bare' },
      ],
    },
  ],
  [
    'a sound in another format',
    { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'd', format: 'flac' } }] },
    false,
    { role: 'user', content: [{ type: 'text', text: '[input_audio]' }] },
  ],
  [
    'parts of a reply',
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'a' },
        { type: 'image_url', image_url: { url: 'u' } },
      ],
    },
    true,
    { role: 'assistant', content: 'a\n\n[image]' },
  ],
  [
    'a call without an id, with its arguments as an object',
    { role: 'assistant', content: null, tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }] },
    true,
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_0', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
    },
  ],
  [
    'tool calls that are not a list',
    { role: 'assistant', content: 'x', tool_calls: 'none' },
    true,
    { role: 'assistant', content: 'x' },
  ],
  ['content that is an object', { role: 'user', content: { a: 1 } }, false, { role: 'user', content: '{"a":1}' }],
  [
    'the reasoning of the model',
    { role: 'assistant', content: 'x', reasoning_content: 'hm' },
    true,
    { role: 'assistant', content: 'x', reasoning_content: 'hm', reasoning: 'hm' },
  ],
])('converts %s', (_title, message, isReply, wanted) => {
  const before = JSON.stringify(message);
  expect(view(message, isReply)).toEqual(wanted);
  expect(JSON.stringify(message)).toBe(before);
});

test('returns the text of a content', () => {
  expect(contentText(null)).toBe('');
  expect(contentText('x')).toBe('x');
  expect(
    contentText([
      { type: 'text', text: 'a' },
      { type: 'input_audio', input_audio: { data: 'd' } },
    ]),
  ).toBe('a\n\n[audio]');
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

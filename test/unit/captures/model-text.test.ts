/** What a model's template leaves in a text is told apart from the reply; a reply about such marks stays whole. */
import { spokenReply } from '../../../src/captures/wire/model-text.ts';
import TABLE from './model-texts.json' with { type: 'json' };

const read = (content: string, reason?: string) => {
  const { content: said, reasoning, tool_calls: calls } = spokenReply({ role: 'assistant', content }, reason);
  return [said, reasoning, ...(calls ?? []).map(({ function: call }) => `${call.name}(${call.arguments})`)];
};

test.each(TABLE.replies)('$text is the reply $reply', ({ text, reply, thought, calls = [] }) => {
  expect(read(text)).toEqual([reply, thought, ...calls]);
});

test.each(TABLE.plain)('%j stays as it is', (text) => {
  const message = { role: 'assistant', content: text };
  expect(spokenReply(message, 'stop')).toBe(message);
});

test('takes a beginning without an end for thinking if the token limit cut the reply', () => {
  expect(read('<think>Well', 'length')).toEqual(['', 'Well']);
  expect(read('<think>Well', 'stop')).toEqual(['<think>Well', undefined]);
});

test('reads a megabyte of any marks in linear time', () => {
  const texts = [
    ...['<think>', '</think>', '<think>a</think>', 'a <think> ', '`</think>`', '```\n<think>b</think>\n', 'a.a '],
    ...['<|channel|>', '<|channel|>a<|message|>', '<|im_end|>', '<bos>\n', '<tool_call>', '\n', '<|start|>assistant'],
    '<tool_call>{"name":"a","arguments":{}}</tool_call>',
    ...[
      '[TOOL_CALLS]f[ARGS]{',
      '<tool_call>f<arg_key>a</arg_key>',
      '<function=f><parameter=a>',
      '<|python_tag|>a.call(',
    ],
  ].flatMap((piece) => {
    const many = piece.repeat(1_000_000 / piece.length);
    return [many, `<think>a</think>x${many}`, `${many}<|message|></think>\n`];
  });
  const start = performance.now();
  for (const text of texts) read(text);
  expect((performance.now() - start) / texts.length).toBeLessThan(1_500);
}, 120_000);

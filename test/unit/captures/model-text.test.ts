/** What a model's template leaves in a text is told apart from the reply; a reply about such marks stays whole. */
import { spokenReply } from '../../../src/captures/wire/model-text.ts';

const read = (content: string, reason?: string) => {
  const { content: said, reasoning, tool_calls: calls } = spokenReply({ role: 'assistant', content }, reason);
  return [said, reasoning, ...(calls ?? []).map(({ function: call }) => `${call.name}(${call.arguments})`)];
};

test.each<[string, ...(string | null | undefined)[]]>([
  ['<think>\na\n</think>\n\nYes', 'Yes', 'a'],
  [' <think>a</think>Yes', 'Yes', 'a'],
  ['<think>\n\n</think>\n\nYes', 'Yes', undefined],
  ['a</think>Yes', 'Yes', 'a'],
  ['a\n</think>', '', 'a'],
  ['◁think▷a◁/think▷Yes', 'Yes', 'a'],
  ['<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Yes<|END_RESPONSE|>', 'Yes', 'a'],
  ['<think>a</think>One. Use `<think>` so.', 'One. Use `<think>` so.', 'a'],
  ['<think>\nstopped', '', 'stopped'],
  [
    '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>Yes',
    'I look.Yes',
    undefined,
  ],
  [' to=functions.f<|channel|>commentary json<|message|>{}<|call|>', null, undefined, 'f({})'],
  ['<|python_tag|>{"name": "f", "parameters": {"a": 1}}<|eom_id|>', null, undefined, 'f({"a":1})'],
  [
    '<think>a</think>\n<tool_call>{"name":"f","arguments":{}}</tool_call>\n<tool_call>{"name":"g","arguments":{}}</tool_call>',
    null,
    'a',
    'f({})',
    'g({})',
  ],
  ['<start_of_turn>model\nYes<end_of_turn>\n', 'Yes', undefined],
  ['[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "x"}]</s>', null, undefined, 'f({"a":1})'],
  ['I look.[TOOL_CALLS]f[CALL_ID]a1[ARGS]{"a": 1}[TOOL_CALLS]g{}', 'I look.', undefined, 'f({"a":1})', 'g({})'],
  [
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": [{}]}\n```<｜tool▁call▁end｜>\n' +
      '<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
    null,
    undefined,
    'f({"a":[{}]})',
    'g({})',
  ],
  ['<|python_tag|>search.call(query="bus")<|eom_id|>', null, undefined, 'search(search.call(query="bus"))'],
  ['<|python_tag|>print(1)', null, undefined, 'code_interpreter(print(1))'],
  [
    '<tool_call>\n<function=f>\n<parameter=a>\nb > c\n</parameter>\n</function>\n</tool_call>',
    null,
    undefined,
    'f({"a":"b > c"})',
  ],
  ['<function=f>{"a": 1}</function>', null, undefined, 'f({"a":1})'],
  ['<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>b</arg_value>\n</tool_call>', null, undefined, 'f({"a":"b"})'],
  ['<|tool_call|>[{"name": "f", "arguments": {}}]<|/tool_call|>', null, undefined, 'f({})'],
  ['<|START_ACTION|>[{"tool_name": "f", "parameters": {}}]<|END_ACTION|>', null, undefined, 'f({})'],
  [
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>',
    null,
    undefined,
    'f({})',
  ],
])('%j is the reply %j', (text, ...parts) => {
  expect(read(text)).toEqual(parts);
});

test.each([
  'The tag </think> ends it.',
  'Write `</think>` at the end.',
  'A model writes <think>, thinks, and writes </think>\nThen it answers.',
  '```\na\n</think>\n```',
  '```xml\n<think>\na\n</think>\nYes\n```',
  '<think> is a tag.',
  'The mark is <|im_end|>',
  '<s>old</s>',
  'Call <tool_call>{"name":"f"}</tool_call> so.',
  '<tool_call>{"name":"f","arguments":{}}</tool_call> is how a call looks.',
  'A gpt-oss text begins with <|channel|>analysis<|message|>',
  'a < b and b > c',
  'Mistral writes `[TOOL_CALLS] [{"name": "f", "arguments": {}}]` before its calls.',
  'Use:\n```\n[TOOL_CALLS]f[ARGS]{}\n```',
  '[TOOL_CALLS] [{"name": "f", "argum',
  'Llama marks a call with <|python_tag|>print(1)',
])('%j stays as it is', (text) => {
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

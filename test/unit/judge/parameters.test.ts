/** The inference parameters of the judge. */
import type { Feature } from '../../../src/judge/errors.ts';
import { answerBounds, readParameters } from '../../../src/judge/parameters.ts';
import { ANSWER_NAME } from '../../../src/judge/prompt/build-prompt.ts';
import { bedrockTransport, readOutput } from '../../../src/judge/transports/bedrock.ts';
import { chatBody, readCompletion } from '../../../src/judge/transports/chat.ts';
import { askOf } from './captures.ts';

test('uses temperature 0 by default', () => {
  expect(readParameters()).toMatchObject({ temperature: 0, topP: undefined, maxTokens: undefined, other: {} });
  expect(readParameters({ temperature: 0.7 }).temperature).toBe(0.7);
});

test('sends no temperature with top_p, or to a model that thinks', () => {
  expect(readParameters({ top_p: 0.9 })).toMatchObject({ temperature: undefined, topP: 0.9 });
  expect(readParameters({ thinking: { type: 'enabled', budget_tokens: 2000 } }).temperature).toBeUndefined();
  expect(readParameters({ reasoning_effort: 'low' }).temperature).toBeUndefined();
  expect(readParameters({ thinking: { type: 'disabled' } }).temperature).toBe(0);
});

test('adds thinking tokens to the bound of the answer', () => {
  expect(answerBounds(readParameters({ thinking: { type: 'enabled', budget_tokens: 2000 } })).thinkingTokens).toBe(
    2000,
  );
  expect(answerBounds(readParameters({})).thinkingTokens).toBe(0);
});

test('accepts other spellings, and passes unknown parameters on', () => {
  const read = readParameters({ maxTokens: 900, topP: 0.5, top_k: 40 });
  expect(read).toMatchObject({ maxTokens: 900, topP: 0.5, other: { top_k: 40 } });
  expect(readParameters({ max_completion_tokens: 900 })).toMatchObject({ maxTokens: 900, other: {} });
});

test('names invalid parameters', () => {
  expect(() => readParameters({ temperature: 'low', max_tokens: -1 })).toThrow(
    expect.objectContaining({
      name: 'InvalidModelParameters',
      message: expect.stringMatching(/temperature: .*max_tokens: .*MLFLOW_EVALUATION_MODEL_PARAM/s),
    }),
  );
});

describe('parameters that cannot work', () => {
  const SAMPLE =
    '{"temperature":0,"max_tokens":512,"anthropic_version":"bedrock-2023-05-31","top_p":0.9,"stop_sequences":["}"]}';
  const NEW = 'us.anthropic.claude-sonnet-4-6';
  const refused: [string, string, string[], RegExp][] = [
    [
      'a value for another API',
      SAMPLE,
      [NEW],
      /anthropic_version: .*stop_sequences: .*temperature and top_p: us\.anthropic\.claude-sonnet-4-6 .*Write {"temperature":0,"max_tokens":512};/,
    ],
    ['two of one', '{"temperature":0,"topP":1}', [NEW], /temperature and top_p.*Write {"temperature":0};/],
    ['of the second model', '{"temperature":0,"top_p":1}', ['meta.llama3', NEW], /temperature and top_p: us\.anth/],
    ['an end of the answer', '{"stop":"END"}', ['openai:/gpt'], /stop_sequences: .*would cut it. Write {};/],
    ['a field of Converse', '{"system":"Be kind"}', [NEW], /system: the request sets it itself. Write {};/],
    ['a field of chat completions', '{"stream":true}', ['sagemaker:/mine'], /stream: the request sets it itself/],
    ['a temperature beyond Bedrock', '{"temperature":1.5}', [NEW], /temperature: Bedrock accepts at most 1/],
    [
      'a temperature while Claude thinks',
      '{"thinking":{"type":"enabled","budget_tokens":2000},"temperature":0}',
      ['anthropic.claude-sonnet-4-20250514-v1:0'],
      /only 1 while it thinks. Write {"thinking":{"type":"enabled","budget_tokens":2000}};/,
    ],
  ];
  test.each(refused)('%s', (_, given, models, message) => {
    const parse = () => readParameters(JSON.parse(given), models);
    expect(parse).toThrow(
      expect.objectContaining({ name: 'InvalidModelParameters', message: expect.stringMatching(message) }),
    );
    // What the message says to write is accepted.
    const [, better = ''] = /Write (.*?); got/.exec(String(captured(parse))) ?? [];
    expect(() => readParameters(JSON.parse(better), models)).not.toThrow();
  });

  test.each<[string, string, string[]]>([
    ['both on an older Claude', '{"temperature":0,"top_p":0.9}', ['anthropic.claude-3-haiku-20240307-v1:0']],
    ['both on Sonnet 4', '{"temperature":0,"top_p":0.9}', ['us.anthropic.claude-sonnet-4-20250514-v1:0']],
    ['both on another model', '{"temperature":0,"top_p":0.9}', ['amazon.nova-pro-v1:0']],
    ['both in chat completions', '{"temperature":1.5,"top_p":0.9}', ['openai:/gpt-4.1']],
    ['the name of an adapter', '{"model":"my-adapter"}', ['sagemaker:/mine']],
    ['other fields of the model', '{"top_k":40,"output_config":{"effort":"low"}}', [NEW]],
    ['thinking at temperature 1', '{"thinking":{"type":"enabled","budget_tokens":2000},"temperature":1}', [NEW]],
  ])('are not %s', (_, given, models) => {
    expect(() => readParameters(JSON.parse(given), models)).not.toThrow();
  });

  const captured = (work: () => unknown): unknown => {
    try {
      return work();
    } catch (error) {
      return error;
    }
  };
});

test('asks Bedrock for a temperature only if there is one and the model accepts it', () => {
  const sent = (given: object, lacking?: Feature) =>
    bedrockTransport('m', readParameters({ ...given }), {} as never).request(askOf(lacking)).inferenceConfig;
  expect(sent({})).toStrictEqual({ maxTokens: 77, temperature: 0 });
  expect(sent({}, 'temperature')).toStrictEqual({ maxTokens: 77 });
  expect(sent({ top_p: 0.5 })).toStrictEqual({ maxTokens: 77, topP: 0.5 });
});

test('bounds a chat completion under the name that the server accepts', () => {
  expect(chatBody(askOf(), 'm', readParameters())).toHaveProperty('max_tokens', 77);
  expect(chatBody(askOf('max-tokens-name'), 'm', readParameters())).toHaveProperty('max_completion_tokens', 77);
});

describe('an answer', () => {
  const completion = (choice: object) => readCompletion(JSON.stringify({ choices: [choice] }), askOf());

  test.each([
    ['stop', 'end'],
    ['tool_calls', 'end'],
    ['length', 'cut'],
    ['content_filter', 'filtered'],
    ['of another server', 'end'],
  ])('of a chat completion that ended with %s: %s', (finish_reason, stop) => {
    expect(completion({ message: { content: 'a' }, finish_reason })).toMatchObject({ stop, stopReason: finish_reason });
  });

  test('is the call of our tool, wherever it stands among the calls', () => {
    const call = (name: string, value: unknown) => ({ function: { name, arguments: value } });
    const tool_calls = [call('search', '{"a":1}'), call(ANSWER_NAME, '{"b":2}')];
    expect(completion({ message: { content: null, tool_calls } })).toMatchObject({ object: { b: 2 }, text: '' });
    const broken = { message: { content: 'said', tool_calls: [call(ANSWER_NAME, '{"b":')] } };
    expect(completion(broken)).toMatchObject({ object: undefined, text: '{"b":' });
    const called = completion({ message: { content: 'said', tool_calls: [call('search', '{}')] } });
    expect(called).toMatchObject({ object: undefined, text: 'said' });
  });

  test('of Bedrock is the text of all blocks, or our tool’s input', () => {
    const toolUse = (name: string, input: object) => ({ toolUse: { toolUseId: 'x', name, input } });
    const output = (...content: object[]) =>
      readOutput({ output: { message: { role: 'assistant', content } } } as never);
    const usage = { inputTokens: 0, outputTokens: 0 };
    expect(output({ text: 'a' }, { text: 'b' })).toEqual({ text: 'a\nb', stop: 'end', stopReason: '', usage });
    expect(output(toolUse('search', { a: 1 }), toolUse(ANSWER_NAME, { b: 2 }))).toMatchObject({ object: { b: 2 } });
    expect(readOutput({} as never)).toMatchObject({ text: '', stop: 'end' });
  });
});

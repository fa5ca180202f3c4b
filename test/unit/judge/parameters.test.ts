/** The inference parameters of the judge. */
import type { Feature } from '../../../src/judge/errors.ts';
import { ANSWER_NAME, type Rung } from '../../../src/judge/prompt/build-prompt.ts';
import { bedrockTransport, readOutput } from '../../../src/judge/transports/bedrock.ts';
import { chatBody, readCompletion } from '../../../src/judge/transports/chat.ts';
import { answerBounds, readParameters } from '../../../src/judge/transports/parameters.ts';
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
  expect(readParameters({ maxTokens: 900, topP: 0.5, stop_sequences: ['END'], top_k: 40 })).toMatchObject({
    maxTokens: 900,
    topP: 0.5,
    stop: ['END'],
    other: { top_k: 40 },
  });
  expect(readParameters({ max_completion_tokens: 900, stopSequences: 'END' })).toMatchObject({
    maxTokens: 900,
    stop: ['END'],
    other: {},
  });
});

test('names invalid parameters', () => {
  expect(() => readParameters({ temperature: 'low', max_tokens: -1 })).toThrow(
    expect.objectContaining({
      name: 'InvalidModelParameters',
      message: expect.stringMatching(/temperature: .*max_tokens: .*MLFLOW_EVALUATION_MODEL_PARAM/s),
    }),
  );
});

test('asks Bedrock for a temperature only if there is one and the model accepts it', () => {
  const sent = (given: object, lacking?: Feature) =>
    bedrockTransport('m', readParameters({ ...given }), undefined, {} as never).request(askOf(lacking)).inferenceConfig;
  expect(sent({})).toStrictEqual({ maxTokens: 77, temperature: 0 });
  expect(sent({}, 'temperature')).toStrictEqual({ maxTokens: 77 });
  expect(sent({ top_p: 0.5 })).toStrictEqual({ maxTokens: 77, topP: 0.5 });
});

test('bounds a chat completion under the name that the server accepts', () => {
  expect(chatBody(askOf(), 'm', readParameters())).toHaveProperty('max_tokens', 77);
  expect(chatBody(askOf('max-tokens-name'), 'm', readParameters())).toHaveProperty('max_completion_tokens', 77);
});

describe('the form of the answer', () => {
  const forms = (rung: Rung) => {
    const { outputConfig, toolConfig } = bedrockTransport('m', readParameters(), undefined, {} as never).request(
      askOf(undefined, rung),
    );
    const { response_format, tools, tool_choice } = chatBody(askOf(undefined, rung), 'm', readParameters());
    return { bedrock: { outputConfig, toolConfig }, chat: { response_format, tools, tool_choice } };
  };

  test('is a schema on the first rung', () => {
    expect(forms('json-schema')).toEqual({
      bedrock: {
        outputConfig: {
          textFormat: {
            type: 'json_schema',
            structure: { jsonSchema: { name: ANSWER_NAME, schema: expect.any(String) } },
          },
        },
      },
      chat: {
        response_format: {
          type: 'json_schema',
          json_schema: { name: ANSWER_NAME, schema: expect.any(Object), strict: true },
        },
      },
    });
  });

  test('is a tool that must be called on the second', () => {
    expect(forms('tool')).toMatchObject({
      bedrock: {
        outputConfig: undefined,
        toolConfig: {
          tools: [{ toolSpec: { name: ANSWER_NAME, inputSchema: { json: { type: 'object' } } } }],
          toolChoice: { tool: { name: ANSWER_NAME } },
        },
      },
      chat: {
        response_format: undefined,
        tools: [{ type: 'function', function: { name: ANSWER_NAME } }],
        tool_choice: { type: 'function', function: { name: ANSWER_NAME } },
      },
    });
  });

  test('is only asked for in words on the last', () => {
    expect(forms('prompt')).toEqual({ bedrock: {}, chat: {} });
  });
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
    expect(completion({ message: { content: 'said', tool_calls: [call('search', '{}')] } })).toMatchObject({
      object: undefined,
      text: 'said',
    });
  });

  test('of Bedrock is the text of all blocks, or our tool’s input', () => {
    const toolUse = (name: string, input: object) => ({ toolUse: { toolUseId: 'x', name, input } });
    const output = (...content: object[]) =>
      readOutput({ output: { message: { role: 'assistant', content } } } as never);
    expect(output({ text: 'a' }, { text: 'b' })).toEqual({
      text: 'a\nb',
      stop: 'end',
      stopReason: '',
      usage: { inputTokens: 0, outputTokens: 0 },
    });
    expect(output(toolUse('search', { a: 1 }), toolUse(ANSWER_NAME, { b: 2 }))).toMatchObject({ object: { b: 2 } });
    expect(readOutput({} as never)).toMatchObject({ text: '', stop: 'end' });
  });
});

/** The attributes under OpenTelemetry's names, compared with the published registry of the conventions. */
import { decodeLine } from '../../../../src/captures/decode.ts';
import { buildTrace } from '../../../../src/captures/trace/build.ts';
import type { DecodeOptions, RawLine } from '../../../../src/captures/types.ts';
import { otlpTrace } from '../../../../src/mlflow/otlp.ts';
import { corpusFiles, linesOf } from '../../../helpers/corpus.ts';
import { decodedOf, jsonRecord, lineOf } from '../arbitraries.ts';
import REGISTRY from './gen-ai-registry.json' with { type: 'json' };

const OPTIONS = { experimentId: '7', endpointName: 'fern-house' };
type Values = Record<string, unknown>;

const areAll = <T>(value: unknown, is: (one: T) => boolean): boolean => Array.isArray(value) && value.every(is);
const isText = (value: unknown): value is string => typeof value === 'string';
const { parts, modalities, roles } = REGISTRY;
const isPart = (part: Values): boolean =>
  (parts as Values)[String(part.type)] !== undefined &&
  (parts as Record<string, string[]>)[String(part.type)]?.every((name) => part[name] !== undefined) === true &&
  (part.modality === undefined || modalities.includes(String(part.modality))) &&
  (!['text', 'reasoning', 'blob'].includes(String(part.type)) || isText(part.content));

const TYPES: Record<string, (value: unknown) => boolean> = {
  string: isText,
  int: Number.isSafeInteger,
  double: Number.isFinite,
  boolean: (value) => typeof value === 'boolean',
  'string[]': (value) => areAll(value, isText),
  parts: (value) => areAll(value, isPart),
  messages: (value) => areAll(value, (one: Values) => roles.includes(String(one.role)) && areAll(one.parts, isPart)),
  tools: (value) => areAll(value, (one: Values) => isText(one.type) && isText(one.name)),
};

/** Returns the attributes of a line's root span that the registry does not have in this form. */
function strange(raw: RawLine): Values {
  const decoded = decodeLine(raw);
  if (decoded.kind !== 'capture') return {};
  const attributes = Object.entries(buildTrace(decoded.capture, raw, OPTIONS).spans[0]?.attributes ?? {});
  const isKnown = ([name, value]: [string, unknown]): boolean => {
    const type = (REGISTRY.attributes as Values)[name];
    return Array.isArray(type) ? type.includes(value) : TYPES[String(type)]?.(value) === true;
  };
  return Object.fromEntries(attributes.filter((one) => one[0].startsWith('gen_ai.') && !isKnown(one)));
}

test.each(corpusFiles())('%s: each attribute is in the registry, with its type', async (file) => {
  for (const line of await linesOf(file)) expect(strange(line)).toEqual({});
});

function attributesOf(request: object, reply: object, options?: DecodeOptions): Values {
  const raw = lineOf(jsonRecord(request, reply));
  const own = buildTrace(decodedOf(raw, options), raw, OPTIONS).spans[0]?.attributes ?? {};
  return Object.fromEntries(Object.entries(own).filter(([name]) => name.startsWith('gen_ai.')));
}

const text = (content: string) => ({ type: 'text', content });
const tool = { name: 'weather', parameters: { type: 'object' } };
const chat = {
  model: 'fern-7b',
  temperature: 0.2,
  max_tokens: 64,
  top_p: 'much',
  stop: 'END',
  seed: 7,
  session_id: 's-1',
  tools: [{ type: 'function', function: tool }],
  messages: [
    { role: 'system', content: 'Be short.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'And this?' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0K' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"at":"Kew"}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'rain' },
  ],
};
const answer = {
  id: 'chatcmpl-1',
  model: 'fern-7b-0301',
  choices: [
    { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Rain.', reasoning_content: 'Hm.' } },
  ],
  usage: { prompt_tokens: 21, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 16 } },
};
const names = { 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'aws.sagemaker' };
const tokens = {
  'gen_ai.usage.input_tokens': 21,
  'gen_ai.usage.cache_read.input_tokens': 16,
  'gen_ai.usage.output_tokens': 5,
};

test('a chat with a tool and a picture', () => {
  expect(attributesOf(chat, answer)).toEqual({
    ...names,
    ...tokens,
    'gen_ai.request.model': 'fern-7b',
    'gen_ai.request.temperature': 0.2,
    'gen_ai.request.max_tokens': 64,
    'gen_ai.request.stop_sequences': ['END'],
    'gen_ai.request.seed': 7,
    'gen_ai.response.id': 'chatcmpl-1',
    'gen_ai.response.model': 'fern-7b-0301',
    'gen_ai.response.finish_reasons': ['stop'],
    'gen_ai.conversation.id': 's-1',
    'gen_ai.input.messages': [
      { role: 'system', parts: [text('Be short.')] },
      {
        role: 'user',
        parts: [text('And this?'), { type: 'blob', modality: 'image', mime_type: 'image/png', content: 'iVBORw0K' }],
      },
      { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1', name: 'weather', arguments: { at: 'Kew' } }] },
      { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c1', response: 'rain' }] },
    ],
    'gen_ai.output.messages': [{ role: 'assistant', parts: [{ type: 'reasoning', content: 'Hm.' }, text('Rain.')] }],
    'gen_ai.tool.definitions': [{ type: 'function', ...tool }],
  });
});

test('instructions beside the messages are system instructions', () => {
  const request = { system: 'Be short.', max_tokens: 5, messages: [{ role: 'user', content: 'Rain?' }] };
  const reply = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'No.' }],
    stop_reason: 'end_turn',
  };
  expect(attributesOf(request, reply)).toMatchObject({
    'gen_ai.system_instructions': [text('Be short.')],
    'gen_ai.input.messages': [{ role: 'user', parts: [text('Rain?')] }],
    'gen_ai.response.id': 'msg_1',
  });
});

test('other calls: texts, embeddings, and no attributes for a table', () => {
  const generated = attributesOf({ inputs: 'Rain?', parameters: { max_new_tokens: 9 } }, [{ generated_text: 'No.' }]);
  expect(generated).toMatchObject({ 'gen_ai.operation.name': 'text_completion', 'gen_ai.request.max_tokens': 9 });
  const vector = attributesOf({ input: 'Rain?' }, { data: [{ embedding: [0.1, 0.2], index: 0 }] });
  expect(vector).toEqual({ ...names, 'gen_ai.operation.name': 'embeddings' });
  expect(attributesOf({ instances: [[1, 2]] }, { predictions: [0.5] })).toEqual({});
});

test('messages of a large payload are in the inputs alone, and CONTENT=none keeps no words', () => {
  const large = attributesOf({ ...chat, messages: [{ role: 'user', content: 'x'.repeat(70_000) }] }, answer);
  expect(Object.keys(large).filter((name) => /messages|definitions/.test(name))).toEqual(['gen_ai.output.messages']);
  const redaction = { kinds: [], fields: [], patterns: [], allow: [], content: 'none' as const, key: 'a key' };
  const none = attributesOf(chat, answer, { redaction });
  expect(none).toEqual({ ...names, ...tokens, 'gen_ai.conversation.id': expect.not.stringMatching('s-1') });
});

test('OTLP has texts and lists in their own types, and what MLflow would parse as JSON', () => {
  const hostile = '['.repeat(500);
  const reply = { ...answer, id: hostile };
  const raw = lineOf(jsonRecord({ ...chat, model: `{"a":1}` }, reply));
  const [root] = otlpTrace(buildTrace(decodedOf(raw), raw, OPTIONS)).spans;
  expect(root?.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.response.finish_reasons': ['stop'],
    'gen_ai.request.model': '"{\\"a\\":1}"',
    'gen_ai.response.id': expect.stringMatching(/^"\[{200}/),
    'gen_ai.output.messages': expect.stringMatching(/^\[\{"role"/),
  });
});

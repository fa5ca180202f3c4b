/** The attributes under OpenTelemetry's names, compared with the published registry of the conventions. */
import { decodeLine } from '../../../../src/captures/decode.ts';
import { buildTrace } from '../../../../src/captures/trace/build.ts';
import type { DecodeOptions, RawLine } from '../../../../src/captures/types.ts';
import { otlpTrace } from '../../../../src/mlflow/otlp.ts';
import { corpusFiles, linesOf } from '../../../helpers/corpus.ts';
import { decodedOf, jsonRecord, lineOf, redactionBy } from '../arbitraries.ts';
import CASES from './gen-ai-cases.json' with { type: 'json' };
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

test.each(CASES)('$title', ({ request, reply, expected }) => {
  expect(attributesOf(request, reply)).toEqual(expected);
});

const [{ request: chat, reply: answer }] = CASES as [(typeof CASES)[number]];

test('messages of a large payload are in the inputs alone, and CONTENT=none keeps no words', () => {
  const large = attributesOf({ ...chat, messages: [{ role: 'user', content: 'x'.repeat(70_000) }] }, answer);
  expect(Object.keys(large).filter((name) => /messages|definitions/.test(name))).toEqual(['gen_ai.output.messages']);
  const redaction = redactionBy('', { content: 'none' });
  const none = attributesOf(chat, answer, { redaction });
  const kept = ['operation.name', 'provider.name', 'usage.input_tokens', 'usage.cache_read.input_tokens'];
  const all = [...kept, 'usage.output_tokens', 'conversation.id'].map((name) => `gen_ai.${name}`);
  expect(Object.keys(none).toSorted()).toEqual(all.toSorted());
  expect(none['gen_ai.conversation.id']).not.toBe('s-1');
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

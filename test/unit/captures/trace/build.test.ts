/** Building the trace of a capture: its ids, its spans, its previews, and the span of the application that made the call. */
import { hash } from 'node:crypto';
import { buildTrace } from '../../../../src/captures/trace/build.ts';
import { assessmentIdOf, inSample, traceIdOf } from '../../../../src/captures/trace/ids.ts';
import { requestPreview, responsePreview } from '../../../../src/captures/trace/preview.ts';
import type { TraceRecord } from '../../../../src/captures/trace/types.ts';
import type { DecodeOptions } from '../../../../src/captures/types.ts';
import { bothEnds } from '../../../../src/core/text/terminal-text.ts';
import { otlpTrace } from '../../../../src/mlflow/otlp.ts';
import { spansFile } from '../../../../src/mlflow/trace-json.ts';
import { chatCapture } from '../../../helpers/captures.ts';
import { captureOf, decodedOf, jsonRecord, jsonSide, lineOf, sideOf } from '../arbitraries.ts';

function traceOf(record: object, key?: string, experimentId = '7', options?: DecodeOptions): TraceRecord {
  const line = lineOf(record);
  const raw = key === undefined ? line : { ...line, place: { ...line.place, key } };
  return buildTrace(decodedOf(raw, options), raw, { experimentId, endpointName: 'fern-house' });
}
const csv = (request: string, reply: string): object =>
  captureOf(sideOf('INPUT', request, 'text/csv', 'plain'), sideOf('OUTPUT', reply, 'text/csv', 'plain'));

const chat = { messages: [{ role: 'user', content: 'Do ferns flower?' }] };
const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'No.' } }] };
const record = jsonRecord(chat, answer);

const digest = (text: string): string => hash('sha256', text);

test('ids are digests of the experiment, the line and the place within them', () => {
  const table = csv('1,2\n3,4\n', '0\n1\n');
  const { traceId, spans } = traceOf(table);
  expect(traceId).toBe(`tr-${digest(`7\n${lineOf(table).bytes}`).slice(0, 32)}`);
  expect(traceOf(table, undefined, '8').traceId).not.toBe(traceId);
  const ids = ['root', 'inference\n0', 'inference\n1'].map((place) => digest(`${traceId}\n${place}`).slice(0, 16));
  expect(spans.map(({ spanId }) => spanId)).toEqual(ids);
  expect(spans.map(({ parentSpanId }) => parentSpanId)).toEqual([undefined, ids[0], ids[0]]);
  const assessment = assessmentIdOf('tr-1', 'safety', '1', 'bedrock:/m');
  expect(assessment).toBe(`a-${digest('tr-1\nsafety\n1\nbedrock:/m').slice(0, 32)}`);
});

test('a sample has the share that was asked for, is part of a larger one, and differs with its salt', () => {
  const traces = Array.from({ length: 20_000 }, (_, index) => traceIdOf('1', Buffer.from(String(index))));
  const sampled = (rate: number, salt?: string) => new Set(traces.filter((id) => inSample(id, rate, salt)));
  const tenth = sampled(0.1);
  // 20,000 draws at 10%: the standard deviation is 42.
  expect(Math.abs(tenth.size - 2_000)).toBeLessThan(5 * 42);
  expect([sampled(0).size, sampled(1).size]).toEqual([0, traces.length]);
  const shared = (other: ReadonlySet<string>) => [...tenth].filter((id) => other.has(id)).length;
  expect(shared(sampled(0.2))).toBe(tenth.size);
  expect(Math.abs(shared(sampled(0.1, 'safety')) - 200)).toBeLessThan(5 * 15);
});

test('a trace starts and ends at the inference time, and an attribute states that latency is not captured', () => {
  const [root] = traceOf(record).spans;
  expect(root).toMatchObject({ startTimeMs: Date.UTC(2026, 2, 4, 5, 6, 7), endTimeMs: Date.UTC(2026, 2, 4, 5, 6, 7) });
  expect(root?.attributes['capture.latency']).toContain('not captured');
});

test('an id that is too long is cut on each row, so that the trace does not grow with it', () => {
  const table = csv('1,2\n'.repeat(100), '0\n'.repeat(100)) as { eventMetadata: object };
  const long = { ...table, eventMetadata: { ...table.eventMetadata, eventId: 'x'.repeat(1e5) } };
  const ids = traceOf(long)
    .spans.slice(1)
    .map(({ attributes }) => String(attributes['inference.id']));
  expect(new Set(ids).size).toBe(100);
  expect(Math.max(...ids.map((id) => id.length))).toBeLessThanOrEqual(250);
});

test('takes the variant from the S3 path', () => {
  const tag = (key: string) => traceOf(record, key).tags.sagemaker_variant_name;
  expect(tag('deep/prefix/fern-house/green/2026/01/02/03/f.jsonl')).toBe('green');
  expect(tag('loose.jsonl')).toBeUndefined();
  expect(tag('fern-house/green/2026/13/02/03/f.jsonl')).toBeUndefined();
});

test('cuts long tags with a mark', () => {
  const trace = traceOf(record, `${'k'.repeat(5000)}.jsonl`);
  expect(trace.tags.s3_file_key).toHaveLength(4096);
  expect(trace.tags.s3_file_key?.endsWith('…')).toBe(true);
});

test('an error sets the state, the status and the code of the trace and its children', () => {
  const input = sideOf('INPUT', '1\n2\n', 'text/csv', 'plain');
  const error = { ...jsonSide('OUTPUT', { code: 500, message: 'boom' }, 'base64'), observedContentType: null };
  const trace = traceOf(captureOf(input, error));
  const tags = { status_code: '500', capture_format: 'error' };
  expect(trace).toMatchObject({ state: 'ERROR', tags, responsePreview: 'error 500: boom' });
  expect(trace.spans).toHaveLength(3);
  for (const span of trace.spans) expect(span.status).toEqual({ code: 'ERROR', message: '500: boom' });
});

test('logs a binary payload by size, type and digest, never by its bytes', () => {
  const data = Buffer.alloc(300_000, 7).toString('base64');
  const trace = traceOf(
    captureOf({ observedContentType: 'image/png', mode: 'INPUT', data, encoding: 'BASE64' }, undefined),
  );
  expect(JSON.stringify(trace).length).toBeLessThan(5_000);
  expect(trace.spans[0]?.inputs).toMatchObject({ binary: true, bytes: 300_000, contentType: 'image/png' });
});

test('summarizes a vector, and keeps a long payload whole in the span', () => {
  const text = 'fern '.repeat(50_000);
  const embedding = Array.from({ length: 3_000 }, (_, index) => index / 3_000);
  const trace = traceOf(jsonRecord({ input: text }, { data: [{ embedding }] }));
  expect(trace.spans[0]?.inputs).toEqual({ input: text });
  expect(JSON.stringify(trace.spans[0]?.outputs).length).toBeLessThan(400);
});

test('creates spans for rows up to a limit, and keeps all rows in the payload', () => {
  const rows = Array.from({ length: 10_050 }, (_, index) => index);
  const body = `${rows.join('\n')}\n`;
  const trace = traceOf(csv(body, body));
  expect(trace.spans).toHaveLength(10_001);
  expect(trace.spans[0]?.inputs).toHaveLength(10_050);
  expect(trace.spans[0]?.attributes['capture.inference_count']).toBe(10_050);
  expect(trace.tags.capture_notes).toContain('10050 inferences in one call: the first 10000 have a span each');
});

const CONTEXT = `Context: ${'[1] Tariff sheet 2026. '.repeat(100)}`;
const QUESTIONS = ['Which bus goes to the port?', 'Which tram goes to the mill?'];

test('the preview of a request keeps its end, so that requests with one context can be told apart', () => {
  for (const question of QUESTIONS) {
    const preview = requestPreview(chatCapture(`${CONTEXT}\n${question}`, 'Bus 7.'));
    expect(preview).toHaveLength(1_000);
    expect(preview.startsWith(CONTEXT.slice(0, 900))).toBe(true);
    expect(preview.endsWith(question)).toBe(true);
    expect(bothEnds(preview, 120)).toMatch(new RegExp(`^Context: \\[1\\].*….*${question.slice(0, -1)}\\?$`));
    expect(bothEnds(preview, 120)).toHaveLength(121);
  }
});

test('a preview is the end of the last message of the user, also behind other messages', () => {
  const messages = [
    { role: 'user', content: `${CONTEXT}${QUESTIONS[0]}` },
    { role: 'assistant', content: 'Bus 7.' },
    { role: 'user', content: `${CONTEXT}${QUESTIONS[1]}` },
    { role: 'tool', content: 'late' },
  ];
  expect(requestPreview(chatCapture(messages, 'x')).endsWith(QUESTIONS[1] as string)).toBe(true);
});

test.each([0, 1, 2])('no character of a preview is halved, %d characters from the end', (shift) => {
  const preview = requestPreview(chatCapture(`${'a'.repeat(shift)}${'👍'.repeat(2_000)}`, 'x'));
  expect(preview.isWellFormed()).toBe(true);
  expect(preview.length).toBeLessThanOrEqual(1_000);
  expect(preview).not.toContain('\ufffd');
});

test('short requests stay whole, and replies keep their beginning', () => {
  expect(requestPreview(chatCapture('Which bus?', 'x'))).toBe('Which bus?');
  expect(responsePreview(chatCapture('x', 'y'.repeat(2_000)))).toBe(`${'y'.repeat(999)}…`);
});

// ---------------------------------------------------------------------------------------- span of the application

const [TRACE, SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const PARENT = `00-${TRACE}-${SPAN}-01`;

function calledBy(more: { customAttributes?: unknown; client?: unknown; body?: object }, options?: DecodeOptions) {
  const { customAttributes, client, body = {} } = more;
  const asked = jsonRecord({ inputs: 'Rain?', ...body }, [{ generated_text: 'No.' }]) as { eventMetadata: object };
  const eventMetadata = { ...asked.eventMetadata, customAttributes };
  return traceOf({ ...asked, eventMetadata, client }, undefined, '7', options);
}

test.each([
  ['custom attributes', { customAttributes: [`traceparent=${PARENT},tenant=a`] }, PARENT],
  ['custom attributes by name', { customAttributes: { traceparent: PARENT } }, PARENT],
  ['metadata of the payload', { body: { metadata: { traceparent: PARENT } } }, PARENT],
  ['the capture client', { client: { streamed: false, ended: 'whole', endMs: 5, traceparent: PARENT } }, PARENT],
  [
    'the attributes before the client',
    { customAttributes: `traceparent=${PARENT}`, client: { traceparent: PARENT.replace('4b', 'ff') } },
    PARENT,
  ],
  ['a later version', { customAttributes: `traceparent=cc-${TRACE}-${SPAN}-01-what-comes` }, `cc-${TRACE}-${SPAN}-01`],
])('the span that made a call is a link and a tag, from %s', (_, more, tag) => {
  const trace = calledBy(more);
  expect(trace.tags.traceparent).toBe(tag);
  expect(otlpTrace(trace).spans[0]?.links).toEqual([{ context: { traceId: TRACE, spanId: SPAN, traceFlags: 1 } }]);
  const [span] = (JSON.parse(spansFile(trace).toString()) as { spans: { links?: unknown }[] }).spans;
  expect(span?.links).toEqual([{ trace_id: `tr-${TRACE}`, span_id: SPAN }]);
});

test.each([
  `00-${TRACE}-${SPAN}`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${'0'.repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${'0'.repeat(16)}-01`,
  `ff-${TRACE}-${SPAN}-01`,
  `${PARENT}-more`,
  ` ${PARENT}x`,
  `${PARENT}${'-a'.repeat(400_000)}`,
  '{"a":1}',
  [PARENT],
  7,
])('a malformed traceparent is ignored (%#)', (traceparent) => {
  for (const more of [{ customAttributes: { traceparent } }, { client: { traceparent } }, { client: traceparent }]) {
    const trace = calledBy(more);
    expect([trace.tags.traceparent, trace.spans[0]?.links]).toEqual([undefined, undefined]);
  }
});

test('what a rule of REDACT masks is no link, and CONTENT=none keeps the ids', () => {
  const rules = { kinds: [], fields: [], allow: [], key: 'k', patterns: [{ name: 'span', pattern: '4bf9[0-9a-f]+' }] };
  const more = { customAttributes: { traceparent: PARENT } };
  for (const content of ['all', 'none'] as const) {
    expect(calledBy(more, { redaction: { ...rules, content } }).tags.traceparent).toBeUndefined();
    expect(calledBy(more, { redaction: { ...rules, patterns: [], content } }).tags.traceparent).toBe(PARENT);
  }
});

/** Tests of building the trace of a capture. */
import { buildTrace } from '../../../../src/captures/trace/build.ts';
import { childSpanIdOf, rootSpanIdOf, traceIdOf } from '../../../../src/captures/trace/ids.ts';
import type { TraceRecord } from '../../../../src/captures/trace/types.ts';
import { captureOf, decodedOf, jsonRecord, jsonSide, lineOf, sideOf } from '../arbitraries.ts';

const OPTIONS = { experimentId: '7', endpointName: 'fern-house' };

function traceOf(record: object, options: object = {}, key?: string): TraceRecord {
  const line = lineOf(record);
  const raw = key === undefined ? line : { ...line, place: { ...line.place, key } };
  return buildTrace(decodedOf(raw), raw, { ...OPTIONS, ...options });
}

const chat = { messages: [{ role: 'user', content: 'Do ferns flower?' }] };
const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'No.' } }] };
const record = jsonRecord(chat, answer);

test('derives ids from the experiment and the line', () => {
  const trace = traceOf(record);
  const { bytes } = lineOf(record);
  expect(trace.traceId).toBe(traceIdOf('7', bytes));
  expect(trace.spans[0]?.spanId).toBe(rootSpanIdOf(trace.traceId));
  expect(traceOf(record, { experimentId: '8' }).traceId).not.toBe(trace.traceId);
});

test('a trace starts and ends at the inference time, and an attribute states that latency is not captured', () => {
  const [root] = traceOf(record).spans;
  expect(root).toMatchObject({ startTimeMs: Date.UTC(2026, 2, 4, 5, 6, 7), endTimeMs: Date.UTC(2026, 2, 4, 5, 6, 7) });
  expect(root?.attributes['capture.latency']).toContain('not captured');
});

test('every span of a table has a separate id, and the root as parent', () => {
  const input = sideOf('INPUT', '1,2\n3,4\n', 'text/csv', 'plain');
  const trace = traceOf(captureOf(input, sideOf('OUTPUT', '0\n1\n', 'text/csv', 'plain')));
  const [root, ...children] = trace.spans;
  expect(children.map((span) => span.spanId)).toEqual([
    childSpanIdOf(trace.traceId, 0),
    childSpanIdOf(trace.traceId, 1),
  ]);
  expect(children.every((span) => span.parentSpanId === root?.spanId)).toBe(true);
  expect(root?.parentSpanId).toBeUndefined();
});

test('an id that is too long is cut on each row, so that the trace does not grow with it', () => {
  const rows = sideOf('INPUT', '1,2\n'.repeat(100), 'text/csv', 'plain');
  const table = captureOf(rows, sideOf('OUTPUT', '0\n'.repeat(100), 'text/csv', 'plain')) as { eventMetadata: object };
  const long = { ...table, eventMetadata: { ...table.eventMetadata, eventId: 'x'.repeat(1e5) } };
  const ids = traceOf(long)
    .spans.slice(1)
    .map(({ attributes }) => String(attributes['inference.id']));
  expect(new Set(ids).size).toBe(100);
  expect(Math.max(...ids.map((id) => id.length))).toBeLessThanOrEqual(250);
});

test('takes the variant from the S3 path', () => {
  const tag = (key: string) => traceOf(record, {}, key).tags.sagemaker_variant_name;
  expect(tag('deep/prefix/fern-house/green/2026/01/02/03/f.jsonl')).toBe('green');
  expect(tag('loose.jsonl')).toBeUndefined();
  expect(tag('fern-house/green/2026/13/02/03/f.jsonl')).toBeUndefined();
});

test('cuts long tags with a mark', () => {
  const trace = traceOf(record, {}, `${'k'.repeat(5000)}.jsonl`);
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
  const csv = `${rows.join('\n')}\n`;
  const trace = traceOf(
    captureOf(sideOf('INPUT', csv, 'text/csv', 'plain'), sideOf('OUTPUT', csv, 'text/csv', 'plain')),
  );
  expect(trace.spans).toHaveLength(10_001);
  expect(trace.spans[0]?.inputs).toHaveLength(10_050);
  expect(trace.spans[0]?.attributes['capture.inference_count']).toBe(10_050);
  expect(trace.tags.capture_notes).toContain('10050 inferences in one call: the first 10000 have a span each');
});

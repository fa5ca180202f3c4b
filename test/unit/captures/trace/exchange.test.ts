/** The lines of a replay's exchanges: read as such in a run over a replay, and as captures like any other elsewhere. */
import { buildTrace } from '../../../../src/captures/trace/build.ts';
import { exchangeLine, exchangeTraceId, lineTraceId } from '../../../../src/captures/trace/exchange.ts';
import { traceIdOf } from '../../../../src/captures/trace/ids.ts';
import type { ExchangeFacts, RawLine } from '../../../../src/captures/types.ts';
import { decodedOf, jsonRecord, rawLine } from '../arbitraries.ts';

const START = Date.UTC(2026, 10, 20, 10);
const facts: ExchangeFacts = {
  requestId: 'request-1',
  run: 'replay-1',
  target: 'fern-house-2',
  mlflowRun: '0123456789abcdef',
  startMs: START + 7,
  endMs: START + 250,
  scheduledMs: START,
  status: 200,
  capturedTraceId: 'tr-captured',
  file: 'fern-house/blue/2026/11/20/09/captured.jsonl',
  bucket: 'captures',
  line: 3,
  captured: { bucket: 'captures', key: 'captured.jsonl', etag: 'e', start: 10, end: 90 },
};

const chat = { messages: [{ role: 'user', content: 'Do ferns flower?' }] };
const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'No.' } }] };
const record = jsonRecord(chat, answer);
const lineWith = (more: Partial<ExchangeFacts> = {}, fields: object = {}): RawLine =>
  rawLine(Buffer.from(exchangeLine({ ...facts, ...more }, { ...record, ...fields })));

function read(raw: RawLine, areExchanges?: boolean) {
  const capture = decodedOf(raw, { areExchanges });
  return { capture, trace: buildTrace(capture, raw, { experimentId: '7', endpointName: 'fern-house' }) };
}

test('has the id of its request, the times that were measured, and tags of the replay and the captured request', () => {
  const raw = lineWith();
  const { capture, trace } = read(raw, true);
  expect(capture.exchange).toEqual(facts);
  expect(capture).not.toHaveProperty('extraFields');
  expect(trace.traceId).toBe(exchangeTraceId('7', 'replay-1', 'request-1'));
  expect(lineTraceId('7', raw.bytes, true)).toBe(trace.traceId);
  const times = { startTimeMs: START + 7, endTimeMs: START + 250 };
  expect(trace).toMatchObject({ sourceRun: facts.mlflowRun, clientRequestId: 'event' });
  expect(trace.spans[0]).toMatchObject({ ...times, name: 'fern-house-2', status: { code: 'OK' } });
  expect(trace.spans[0]?.attributes).toMatchObject({ 'replay.latency_ms': 243, 'replay.schedule_lag_ms': 7 });
  expect(trace.spans[0]?.attributes).not.toHaveProperty(['capture.latency']);
  expect(trace.spans[0]?.attributes).not.toHaveProperty(['capture.extra_fields']);
  expect(trace.tags).toMatchObject({
    sagemaker_endpoint_name: 'fern-house-2',
    replay_run: 'replay-1',
    replay_request_id: 'request-1',
    captured_trace_id: 'tr-captured',
    status_code: '200',
    s3_bucket_name: 'captures',
    s3_file_key: facts.file,
  });
});

test.each<[string, Partial<ExchangeFacts>, object]>([
  ['a status', { status: 503, error: { code: 503, type: 'HTTPError', message: 'x' } }, { status_code: '503' }],
  ['no status', { status: 0, error: { type: 'Timeout', message: 'x' } }, { status_code: 'Timeout' }],
])('its tags have %s', (_, more, tags) => {
  expect(read(lineWith(more), true).trace.tags).toMatchObject(tags);
});

test('a clock that was set back gives no negative duration, and a local file has no bucket', () => {
  const { bucket: _bucket, capturedTraceId: _id, mlflowRun: _run, ...local } = facts;
  const raw = rawLine(Buffer.from(exchangeLine({ ...local, endMs: START }, record)));
  const { trace } = read(raw, true);
  expect(trace.spans[0]).toMatchObject({ startTimeMs: START + 7, endTimeMs: START + 7 });
  expect(trace).not.toHaveProperty('sourceRun');
  expect(Object.keys(trace.tags)).not.toContain('captured_trace_id');
});

test.each([
  ['a quote', 'say "yes"'],
  ['a backslash', 'a\\'],
  ['braces', '{"exchange":{"requestId":"x","run":"y"'],
  ['another alphabet', 'réplica-日本'],
])('the id of an undecoded line is right with %s in its names', (_, name) => {
  const raw = lineWith({ requestId: name, run: name });
  expect(lineTraceId('7', raw.bytes, true)).toBe(exchangeTraceId('7', name, name));
  expect(read(raw, true).trace.traceId).toBe(exchangeTraceId('7', name, name));
});

test('a captured request that is sent twice has two traces', () => {
  const idOf = (more: Partial<ExchangeFacts>) => read(lineWith(more), true).trace.traceId;
  expect(new Set([idOf({}), idOf({ requestId: 'request-2' }), idOf({ run: 'replay-2' })]).size).toBe(3);
  // Only these two make it: an attempt that measures other times writes the same trace.
  expect(idOf({ endMs: START + 999, line: 4 })).toBe(idOf({}));
});

test.each([undefined, false])(
  'in other captures, anybody could have written the field: it is an extra one (%p)',
  (are) => {
    const raw = lineWith();
    const { capture, trace } = read(raw, are);
    expect(capture).not.toHaveProperty('exchange');
    expect(capture.extraFields).toEqual({ exchange: facts });
    expect(trace.traceId).toBe(traceIdOf('7', raw.bytes));
    expect(lineTraceId('7', raw.bytes, false)).toBe(trace.traceId);
    expect(trace).not.toHaveProperty('sourceRun');
    expect(trace.tags).not.toHaveProperty('replay_request_id');
    expect(trace.tags).not.toHaveProperty('captured_trace_id');
    expect(trace.tags).toMatchObject({ sagemaker_endpoint_name: 'fern-house', s3_bucket_name: 'bucket' });
    const time = Date.UTC(2026, 2, 4, 5, 6, 7);
    expect(trace.spans[0]).toMatchObject({ name: 'fern-house', startTimeMs: time, endTimeMs: time });
  },
);

test('other unknown fields are kept too', () => {
  const { capture, trace } = read(lineWith({}, { note: 'kept' }), true);
  expect(capture.extraFields).toEqual({ note: 'kept' });
  expect(capture.exchange).toEqual(facts);
  expect(trace.spans[0]?.attributes['capture.extra_fields']).toEqual({ note: 'kept' });
});

test.each([['a text'], [5], [null], [['a']]])(
  'a field that is %j is no exchange, even in a run over a replay',
  (exchange) => {
    const raw = rawLine(Buffer.from(JSON.stringify({ exchange, ...record })));
    const { capture, trace } = read(raw, true);
    expect(capture).not.toHaveProperty('exchange');
    expect(capture.extraFields).toEqual({ exchange });
    expect(trace.traceId).toBe(lineTraceId('7', raw.bytes, true));
  },
);

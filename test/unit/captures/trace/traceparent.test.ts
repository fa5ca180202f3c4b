/** The span of the application that made a call, as a link and a tag. */
import { buildTrace } from '../../../../src/captures/trace/build.ts';
import type { DecodeOptions } from '../../../../src/captures/types.ts';
import { otlpTrace } from '../../../../src/mlflow/otlp.ts';
import { spansFile } from '../../../../src/mlflow/trace-json.ts';
import { decodedOf, jsonRecord, lineOf } from '../arbitraries.ts';

const [TRACE, SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const PARENT = `00-${TRACE}-${SPAN}-01`;

function traceOf(more: { customAttributes?: unknown; client?: unknown; body?: object }, options?: DecodeOptions) {
  const { customAttributes, client, body = {} } = more;
  const record = jsonRecord({ inputs: 'Rain?', ...body }, [{ generated_text: 'No.' }]) as { eventMetadata: object };
  const raw = lineOf({ ...record, eventMetadata: { ...record.eventMetadata, customAttributes }, client });
  return buildTrace(decodedOf(raw, options), raw, { experimentId: '7', endpointName: 'e' });
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
])('%s', (_, more, tag) => {
  const trace = traceOf(more);
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
])('%p is ignored', (traceparent) => {
  for (const more of [{ customAttributes: { traceparent } }, { client: { traceparent } }, { client: traceparent }]) {
    const trace = traceOf(more);
    expect([trace.tags.traceparent, trace.spans[0]?.links]).toEqual([undefined, undefined]);
  }
});

test('what a rule of REDACT masks is no link, and CONTENT=none keeps the ids', () => {
  const rules = { kinds: [], fields: [], allow: [], key: 'k', patterns: [{ name: 'span', pattern: '4bf9[0-9a-f]+' }] };
  const more = { customAttributes: { traceparent: PARENT } };
  for (const content of ['all', 'none'] as const) {
    expect(traceOf(more, { redaction: { ...rules, content } }).tags.traceparent).toBeUndefined();
    expect(traceOf(more, { redaction: { ...rules, patterns: [], content } }).tags.traceparent).toBe(PARENT);
  }
});

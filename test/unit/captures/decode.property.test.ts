/** Properties of decoding: any bytes give a trace or a quarantine entry, and ids depend only on content. */
import fc from 'fast-check';
import { decodeLine } from '../../../src/captures/decode.ts';
import { readLines } from '../../../src/captures/lines/read-lines.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import type { TraceRecord } from '../../../src/captures/trace/types.ts';
import type { Capture, DecodeOptions, RawLine } from '../../../src/captures/types.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { predictionRows } from '../../../src/ground-truth/predictions/predictions.ts';
import { anyText } from '../../helpers/any-text.ts';
import { captureOf, encodings, jsonSide, lineOf, rawLine, sideOf } from './arbitraries.ts';

const GROUND_TRUTH = groundTruthSchema.parse({ groups: ['0', '__proto__'], prediction: 'a' });
const OPTIONS = { experimentId: '1', endpointName: 'fern-house' };

/** Checks the invariants of a line's trace. Decoding never throws. */
function assertTraceable(raw: RawLine, options: DecodeOptions = {}): void {
  const decoded = decodeLine(raw, options);
  if (decoded.kind === 'quarantine') {
    expect(decoded.reason.name).toMatch(/^[A-Z]\w+$/);
    expect(decoded.reason.message.length).toBeGreaterThan(10);
    return;
  }
  assertStorable(buildTrace(decoded.capture, raw, OPTIONS));
  const rows = predictionRows(decoded.capture, 'tr-1', { key: raw.place.key, endpointName: '' }, GROUND_TRUTH);
  expect(JSON.parse(JSON.stringify(rows))).toEqual(rows);
}

/** MLflow's limits, and text that every database accepts. */
function assertStorable(trace: TraceRecord): void {
  const { sessionId = '', userId = '', clientRequestId = '', model = '', requestPreview, responsePreview } = trace;
  const shown = [requestPreview, responsePreview, trace.name, sessionId, userId, clientRequestId, model];
  const tags = Object.values(trace.tags);
  expect([...shown, ...tags].filter((text) => !text.isWellFormed() || text.includes('\0'))).toEqual([]);
  expect(Math.max(requestPreview.length, responsePreview.length)).toBeLessThanOrEqual(1000);
  expect(Math.max(...tags.map((value) => value.length))).toBeLessThanOrEqual(4096);
  expect(sessionId.length).toBeLessThanOrEqual(250);
  for (const span of trace.spans) {
    const json = JSON.stringify(span);
    expect(json).not.toMatch(/(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i);
    expect(Number.isSafeInteger(span.startTimeMs)).toBe(true);
  }
}

const anyBytes = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));

test('any bytes give a trace or a quarantine entry', () => {
  fc.assert(
    fc.property(anyBytes, (bytes) => assertTraceable(rawLine(bytes))),
    { numRuns: 1000 },
  );
});

test('any JSON gives a trace or a quarantine entry', () => {
  fc.assert(
    fc.property(fc.json(), (json) => assertTraceable(rawLine(Buffer.from(json)))),
    { numRuns: 1000 },
  );
});

/** Names that the decoder looks for, so that random documents reach its code. */
const WORDS = (
  'messages role content choices message delta text index prompt inputs parameters generated_text details ' +
  'instances predictions features error code type data embedding tool_calls function arguments name usage ' +
  'prompt_tokens output input contents parts candidates token event_type contentBlockDelta shape dataframe_split ' +
  'columns detail loc msg system tools metadata session_id user model done response finish_reason toolUse ' +
  '__proto__ message_start content_block_delta response.completed constructor user assistant tool_use image_url'
).split(' ');
const words = fc.constantFrom(...WORDS);

/** Documents with names that the decoder knows, in any wrong combination. */
const documents = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', maxDepth: 5 },
    words,
    fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)),
    anyText({ maxLength: 8 }),
    fc.constantFrom('\ud800', 'a\0b', '', '400', 'Internal Server Error', 'NaN'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(words, tie('value'), { maxKeys: 5 }),
  ),
})).value;

const contentTypes = fc.constantFrom(
  ...[
    ...['application/json', 'text/csv', 'text/plain', 'application/jsonlines', 'text/event-stream'],
    ...['image/png', '', 'x;y=;charset'],
  ],
  ...['application/json; charset=utf-16', 'text/plain; charset=shift_jis', null, 7, undefined],
);

const bodies = fc.oneof(
  documents.map((value) => JSON.stringify(value)),
  fc.array(documents, { maxLength: 4 }).map((list) => list.map((value) => JSON.stringify(value)).join('\n')),
  fc
    .array(documents, { maxLength: 4 })
    .map((list) => list.map((value) => `data: ${JSON.stringify(value)}\n\n`).join('')),
  anyText({ maxLength: 60 }),
);

const sides = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      observedContentType: contentTypes,
      data: fc.oneof(
        bodies,
        bodies.map((body) => Buffer.from(body).toString('base64')),
        documents,
        anyBytes.map((b) => b.toString('base64')),
      ),
      encoding: fc.constantFrom('JSON', 'CSV', 'BASE64', 'base64', 'ROT13', '', null, undefined),
    }),
  },
  { weight: 1, arbitrary: documents },
);

const records = fc.record(
  {
    captureData: fc.record({ endpointInput: sides, endpointOutput: sides }, { requiredKeys: [] }),
    eventMetadata: fc.oneof(
      fc.record(
        {
          eventId: fc.oneof(words, fc.integer(), fc.constant(null)),
          inferenceId: fc.oneof(words, fc.string({ maxLength: 300 })),
          inferenceTime: fc.oneof(
            fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
            fc.string(),
            fc.integer(),
          ),
          customAttributes: documents,
        },
        { requiredKeys: [] },
      ),
      documents,
    ),
    eventVersion: documents,
    extra: documents,
  },
  { requiredKeys: ['captureData'] },
);

test('any capture record gives a trace', () => {
  fc.assert(
    fc.property(
      records,
      fc.boolean(),
      fc.option(fc.array(words), { nil: undefined }),
      (record, csvHeader, featureNames) => {
        const raw = lineOf(record);
        const options = { csvHeader, ...(featureNames === undefined ? {} : { featureNames }) };
        expect(decodeLine(raw, options).kind).toBe('capture');
        assertTraceable(raw, options);
      },
    ),
    { numRuns: 1000 },
  );
});

test('a capture truncated anywhere gives a trace or a quarantine entry', () => {
  fc.assert(
    fc.property(records, fc.double({ min: 0, max: 1, noNaN: true }), (record, share) => {
      const { bytes } = lineOf(record);
      assertTraceable(rawLine(bytes.subarray(0, Math.floor(bytes.length * share))));
    }),
    { numRuns: 1000 },
  );
});

test('decoding never keeps the payload of a record because of an error', () => {
  fc.assert(
    fc.property(records, (record) => {
      const decoded = decodeLine(lineOf(record), {});
      const notes = decoded.kind === 'capture' ? decoded.capture.notes : [];
      expect(notes.filter((note) => note.includes('could not be decoded'))).toEqual([]);
    }),
    { numRuns: 1000 },
  );
});

// ------------------------------------------------------------------------------------------------------------ ids

/** The ids of a line's trace, by line. */
async function idsOf(file: Buffer, key: string, order: (ids: string[]) => string[] = (ids) => ids): Promise<string[]> {
  const source = { bucket: 'b', key, etag: key, start: 0, firstLine: 1, objectTimeMs: 1 };
  const ids: string[] = [];
  for await (const line of readLines([file] as unknown as AsyncIterable<Buffer>, source, { maxLineBytes: 1e9 })) {
    if (line.kind !== 'line') continue;
    const decoded = decodeLine(line.raw, {});
    if (decoded.kind !== 'capture') continue;
    const trace = buildTrace(decoded.capture, line.raw, OPTIONS);
    ids.push(JSON.stringify([trace.traceId, trace.spans.map((span) => [span.spanId, span.parentSpanId])]));
  }
  return order(ids);
}

test('ids are independent of file, chunk and order', async () => {
  const csv = fc.array(fc.integer(), { minLength: 1, maxLength: 4 }).map((rows) => `${rows.join('\n')}\n`);
  const lines = fc.array(
    fc.tuple(csv, encodings).map(([body, encoding]) => {
      const input = sideOf('INPUT', body, 'text/csv', encoding === 'utf-16le' ? 'plain' : encoding);
      return JSON.stringify(captureOf(input, jsonSide('OUTPUT', { predictions: [1] }, encoding)));
    }),
    { minLength: 1, maxLength: 6 },
  );
  await fc.assert(
    fc.asyncProperty(lines, fc.constantFrom('\n', '\r\n', '\n\n'), async (list, ending) => {
      const one = await idsOf(Buffer.from(list.join('\n')), 'a/b/2026/03/04/05/x.jsonl');
      const backwards = list.toReversed().join(ending);
      const other = await idsOf(Buffer.from(`\ufeff\n${backwards}${ending}`), 'other.jsonl', (ids) => ids.toReversed());
      expect(other).toEqual(one);
      expect(one).toHaveLength(list.length);
    }),
    { numRuns: 300 },
  );
});

test('decoding a line twice gives the same result', () => {
  const bare = (capture: Capture): string => JSON.stringify(capture);
  fc.assert(
    fc.property(records, (record) => {
      const [first, second] = [decodeLine(lineOf(record), {}), decodeLine(lineOf(record), {})];
      if (first.kind !== 'capture' || second.kind !== 'capture') throw new Error('a record was quarantined');
      expect(bare(second.capture)).toBe(bare(first.capture));
    }),
    { numRuns: 300 },
  );
});

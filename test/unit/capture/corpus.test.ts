/** Every line of `test/corpus/*.jsonl` against what is written beside it in `*.expected.json`. */
import { createReadStream, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeLine } from '../../../lambda/capture/decode.ts';
import { type LineRead, readLines } from '../../../lambda/capture/lines.ts';
import type { Capture, DecodeOptions, RawLine } from '../../../lambda/capture/types.ts';
import { buildTrace } from '../../../lambda/trace/build.ts';

/** What is expected of a line; objects are matched by the fields they name. */
interface Expectation {
  title: string;
  options?: DecodeOptions;
  /** S3 key of the line, where it matters. */
  key?: string;
  capture?: object;
  /** Fields that the capture must not have. */
  absent?: (keyof Capture)[];
  trace?: object;
  absentTags?: string[];
  root?: object;
  /** Attributes of the root span. */
  attributes?: Record<string, unknown>;
  absentAttributes?: string[];
  status?: object;
  children?: object[];
  /** JSON text that the root span's inputs are written as. */
  rawRootInputs?: string;
  /** The same for the first inference's. */
  rawInputs?: string;
  /** Name of the quarantine reason, and words that its message must hold. */
  quarantine?: string;
  words?: string[];
}

const CORPUS = join(process.cwd(), 'test', 'corpus');
const KEY = 'captures/fern-house/blue/2026/03/04/05/07-123-abc.jsonl';
const OBJECT_TIME_MS = Date.UTC(2026, 0, 1);
const OPTIONS = { experimentId: '1', endpointName: 'fern-house' };

async function linesOf(file: string): Promise<RawLine[]> {
  const source = { bucket: 'bucket', key: KEY, etag: 'e', start: 0, firstLine: 1, objectTimeMs: OBJECT_TIME_MS };
  const lines: RawLine[] = [];
  const isLine = (line: LineRead): line is Extract<LineRead, { kind: 'line' }> => line.kind === 'line';
  for await (const line of readLines(createReadStream(file), source, { maxLineBytes: 1e9 })) {
    if (isLine(line)) lines.push(line.raw);
  }
  return lines;
}

const files = readdirSync(CORPUS).filter((file) => file.endsWith('.jsonl'));

test('the corpus is there', () => {
  expect(files.length).toBeGreaterThan(10);
});

describe.each(files)('%s', (file) => {
  const expected = JSON.parse(
    readFileSync(join(CORPUS, file.replace('.jsonl', '.expected.json')), 'utf8'),
  ) as Expectation[];

  test('has an expectation for each line', async () => {
    expect(await linesOf(join(CORPUS, file))).toHaveLength(expected.length);
  });

  test.each(expected.map((expectation, index) => [expectation.title, expectation, index] as const))(
    '%s',
    async (_title, expectation, index) => {
      const line = (await linesOf(join(CORPUS, file)))[index] as RawLine;
      const raw = { ...line, place: { ...line.place, key: expectation.key ?? KEY } };
      const decoded = decodeLine(raw, expectation.options ?? {});
      if (expectation.quarantine !== undefined) {
        expect(decoded).toMatchObject({ kind: 'quarantine', reason: { name: expectation.quarantine } });
        for (const word of expectation.words ?? []) {
          expect(decoded).toHaveProperty('reason.message', expect.stringContaining(word));
        }
        return;
      }
      if (decoded.kind !== 'capture') throw new Error(`quarantined: ${decoded.reason.message}`);
      assertCapture(decoded.capture, expectation);
      assertTrace(decoded.capture, raw, expectation);
    },
  );
});

function assertCapture(capture: Capture, { capture: wanted = {}, absent = [] }: Expectation): void {
  expect(capture).toMatchObject(wanted);
  for (const field of absent) expect(capture[field]).toBeUndefined();
}

function assertTrace(capture: Capture, raw: RawLine, expectation: Expectation): void {
  const trace = buildTrace(capture, raw, OPTIONS);
  const [root, ...children] = trace.spans;
  expect(trace).toMatchObject(expectation.trace ?? {});
  expect(trace.tags).toMatchObject({
    sagemaker_endpoint_name: 'fern-house',
    ...(expectation.key === undefined ? { sagemaker_variant_name: 'blue' } : {}),
    s3_bucket_name: 'bucket',
    s3_file_key: raw.place.key,
    capture_format: capture.format,
  });
  for (const tag of expectation.absentTags ?? []) expect(trace.tags).not.toHaveProperty([tag]);
  expect(root).toMatchObject(expectation.root ?? {});
  for (const [name, value] of Object.entries(expectation.attributes ?? {})) {
    expect(root?.attributes[name]).toEqual(value);
  }
  for (const name of expectation.absentAttributes ?? []) expect(root?.attributes).not.toHaveProperty([name]);
  if (expectation.status !== undefined) expect(root?.status).toEqual(expectation.status);
  expect(children).toHaveLength(capture.inferences?.length ?? 0);
  if (expectation.children !== undefined) expect(children).toMatchObject(expectation.children);
  if (expectation.rawRootInputs !== undefined) expect(JSON.stringify(root?.inputs)).toBe(expectation.rawRootInputs);
  if (expectation.rawInputs !== undefined) expect(JSON.stringify(children[0]?.inputs)).toBe(expectation.rawInputs);
}

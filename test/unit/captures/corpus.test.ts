/** Compares every line of `test/corpus/*.jsonl` with its expectation in `*.expected.json`. */
import { decodeLine } from '../../../src/captures/decode.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import type { Capture, RawLine } from '../../../src/captures/types.ts';
import { CORPUS_ENDPOINT, corpusFiles, type Expectation, expectationsOf, linesOf } from '../../helpers/corpus.ts';

const OPTIONS = { experimentId: '1', endpointName: CORPUS_ENDPOINT };

const files = corpusFiles();

test('the corpus has files', () => {
  expect(files.length).toBeGreaterThan(10);
});

describe.each(files)('%s', (file) => {
  const expected = expectationsOf(file);

  test('has an expectation for each line', async () => {
    expect(await linesOf(file)).toHaveLength(expected.length);
  });

  test.each(expected.map((expectation, index) => [expectation.title, expectation, index] as const))(
    '%s',
    async (_title, expectation, index) => {
      const raw = (await linesOf(file))[index] as RawLine;
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
    sagemaker_endpoint_name: CORPUS_ENDPOINT,
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

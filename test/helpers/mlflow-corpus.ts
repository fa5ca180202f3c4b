/** Tests that write the whole corpus of capture lines to a real MLflow server and read it with MLflow's Python client. */
import { decodeLine } from '../../src/captures/decode.ts';
import { toJson } from '../../src/captures/json.ts';
import { buildTrace } from '../../src/captures/trace/build.ts';
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import { CORPUS_ENDPOINT, corpusFiles, type Expectation, expectationsOf, linesOf } from './corpus.ts';
import type { ReadTrace } from './mlflow-reader.ts';
import type { SuiteSetup } from './mlflow-traces.ts';

interface Written {
  title: string;
  expectation: Expectation;
  trace: TraceRecord;
}

/** Returns a value as it is after JSON, which is what MLflow stores. */
const asJson = (value: unknown): unknown => JSON.parse(toJson(value) ?? 'null');

/**
 * Declares the tests. Call `setup` only after the servers have started.
 *
 * @param addsZeros whether the server sums the token counts of the spans itself, so that a missing count becomes 0
 */
export function testCorpus(setup: () => Pick<SuiteSetup, 'client' | 'reader'>, addsZeros = false): void {
  describe('the corpus of capture lines', () => {
    const written = new Map<string, Written[]>();
    let found: ReadTrace[];
    let read: Map<string, ReadTrace>;

    beforeAll(async () => {
      const { client, reader } = setup();
      const experiment = await client.resolveExperiment('corpus');
      for (const file of corpusFiles()) {
        const lines = await linesOf(file);
        const traces = expectationsOf(file).flatMap((expectation, index): Written[] => {
          const raw = lines[index];
          if (raw === undefined) throw new Error(`${file} has no line ${index + 1}`);
          const decoded = decodeLine(raw, expectation.options ?? {});
          if (decoded.kind === 'quarantine') return [];
          const options = { experimentId: experiment.id, endpointName: CORPUS_ENDPOINT };
          return [{ title: expectation.title, expectation, trace: buildTrace(decoded.capture, raw, options) }];
        });
        written.set(file, traces);
      }
      const all = [...written.values()].flat().map(({ trace }) => trace);
      expect(await client.writeTraces(experiment, all)).toMatchObject({ refused: [], alreadyThere: [] });
      // A second write, as by a repeated run, must not duplicate anything.
      await client.writeTraces(experiment, all);
      found = await reader.search(experiment.id);
      read = new Map(found.map((trace) => [trace.traceId, trace]));
    });

    test('contains each capture record once', () => {
      const ids = [...written.values()].flat().map(({ trace }) => trace.traceId);
      const isCapture = ({ quarantine }: Expectation): boolean => quarantine === undefined;
      expect(new Set(ids).size).toBe(corpusFiles().flatMap(expectationsOf).filter(isCapture).length);
      expect(found.map(({ traceId }) => traceId).sort()).toEqual(ids.sort());
    });

    test.each(corpusFiles())('stores the states, contents and tags of %s', (file) => {
      for (const { title, expectation, trace } of written.get(file) ?? []) {
        const stored = read.get(trace.traceId);
        if (stored === undefined) throw new Error(`${title}: not in MLflow`);
        expect({ title, ...factsOf(stored) }).toEqual({ title, ...factsExpected(trace, addsZeros) });
        assertExpectation(stored, expectation, title);
      }
    });
  });
}

interface Facts {
  spans: { spanId: string; inputs: unknown; outputs: unknown; [fact: string]: unknown }[];
  [fact: string]: unknown;
}

/** Returns the compared facts of a stored trace, under MLflow's names. */
function factsOf({ tags, metadata, spans, ...trace }: ReadTrace): Facts {
  return {
    state: trace.state,
    time: trace.requestTimeMs,
    duration: trace.executionDurationMs,
    tokenUsage: trace.tokenUsage ?? null,
    tags: Object.fromEntries(Object.entries(tags).filter(([name]) => !name.startsWith('mlflow.'))),
    name: tags['mlflow.traceName'],
    session: metadata['mlflow.trace.session'] ?? null,
    user: metadata['mlflow.trace.user'] ?? null,
    spans: spans
      .map(({ spanId, parentId, name, type, status, inputs, outputs }) => ({
        spanId,
        parentId,
        name,
        type,
        status,
        inputs: inputs ?? null,
        outputs: outputs ?? null,
      }))
      .toSorted((a, b) => a.spanId.localeCompare(b.spanId)),
  };
}

/** Returns the same facts of a written trace. */
function factsExpected(trace: TraceRecord, addsZeros: boolean): Facts {
  const zeros = addsZeros ? { input_tokens: 0, output_tokens: 0, total_tokens: 0 } : {};
  return {
    state: trace.state,
    time: trace.startTimeMs,
    duration: trace.endTimeMs - trace.startTimeMs,
    tokenUsage: trace.tokenUsage === undefined ? null : { ...zeros, ...(asJson(trace.tokenUsage) as object) },
    tags: trace.tags,
    name: trace.name,
    session: trace.sessionId ?? null,
    user: trace.userId ?? null,
    spans: trace.spans
      .map(({ spanId, parentSpanId, name, spanType, status, inputs, outputs }) => ({
        spanId,
        parentId: parentSpanId ?? null,
        name,
        type: spanType,
        status: status.code,
        inputs: asJson(inputs),
        outputs: asJson(outputs),
      }))
      .toSorted((a, b) => a.spanId.localeCompare(b.spanId)),
  };
}

/** Checks against the expectations that people wrote for the line, not against the output of this program. */
function assertExpectation(stored: ReadTrace, { trace = {}, root = {}, absentTags = [] }: Expectation, title: string) {
  const { state, tags, sessionId, startTimeMs } = trace as Partial<TraceRecord>;
  if (state !== undefined) expect({ title, state: stored.state }).toEqual({ title, state });
  if (startTimeMs !== undefined) expect({ title, time: stored.requestTimeMs }).toEqual({ title, time: startTimeMs });
  if (tags !== undefined) expect({ title, tags: stored.tags }).toMatchObject({ title, tags });
  if (sessionId !== undefined) expect(stored.metadata['mlflow.trace.session']).toBe(sessionId);
  for (const tag of absentTags) expect(stored.tags).not.toHaveProperty([tag]);
  const { inputs, outputs } = root as { inputs?: unknown; outputs?: unknown };
  const [span] = stored.spans.filter(({ parentId }) => parentId === null);
  if (inputs !== undefined) expect({ title, inputs: span?.inputs }).toMatchObject({ title, inputs });
  if (outputs !== undefined) expect({ title, outputs: span?.outputs }).toMatchObject({ title, outputs });
}

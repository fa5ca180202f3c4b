/** Tests of traces that are written together with their verdicts, for every MLflow version and both protocols. */

import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { NewAssessment } from '../../src/mlflow/types.ts';
import type { ReadTrace } from './mlflow-reader.ts';
import { chatTrace, idsOf, type SuiteSetup, verdict } from './mlflow-traces.ts';

const VERDICTS = 12;
const verdictsOf = ({ traceId }: { traceId: string }): NewAssessment[] =>
  Array.from({ length: VERDICTS }, (_, n) => verdict(traceId, `scorer_${n}`));
const withVerdicts = (traces: readonly TraceRecord[]) =>
  new Map(traces.map((trace) => [trace.traceId, verdictsOf(trace)]));

/** The fields that must not depend on whether verdicts come with the trace. */
function comparable({ traceId: _id, assessments: _verdicts, tags, metadata, spans, ...rest }: ReadTrace) {
  const { 'mlflow.artifactLocation': _place, ...ownTags } = tags;
  const { 'mlflow.trace.infoFinalized': _mark, 'mlflow.trace_schema.version': _schema, ...ownMetadata } = metadata;
  const ownSpans = spans.map(({ spanId: _span, parentId, attributes, ...span }) => ({
    ...span,
    isRoot: parentId === null,
    attributes: Object.fromEntries(
      Object.entries(attributes).filter(([key]) => !/^mlflow\.(traceTag\.|traceRequestId)/.test(key)),
    ),
  }));
  return { ...rest, requestPreview: '', responsePreview: '', tags: ownTags, metadata: ownMetadata, spans: ownSpans };
}

/** Declares the tests. Call `setup` only after the servers have started. */
export function testJudgedTraces(setup: () => SuiteSetup): void {
  let count = 0;
  const freshExperiment = () => setup().client.resolveExperiment(`judged ${++count}`);
  const isPost = ({ method, path }: { method: string; path: string }) =>
    method === 'POST' && path === '/api/3.0/mlflow/traces';

  test('all verdicts are stored by the first post, with at most 1.2 requests per trace', async () => {
    const { client, faulty } = setup();
    const experiment = await freshExperiment();
    const traces = Array.from({ length: 100 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
    await faulty.client.getTraces(experiment.id, []);
    const before = faulty.proxy.requests.length;
    const result = await faulty.client.writeTraces(experiment, traces, withVerdicts(traces));
    expect({ ...result, written: result.written.sort() }).toEqual({
      written: idsOf(traces),
      alreadyThere: [],
      bare: [],
      refused: [],
    });
    const requests = faulty.proxy.requests.slice(before).filter(({ path }) => !path.includes('/mlflow-artifacts/'));
    expect(requests.filter(isPost)).toHaveLength(100);
    expect(requests.length).toBeLessThanOrEqual(120);
    const stored = await client.getTraces(experiment.id, idsOf(traces));
    expect(stored.size).toBe(100);
    for (const { traceId, assessments } of stored.values()) {
      expect(assessments.map(({ assessmentId }) => assessmentId).sort()).toEqual(
        verdictsOf({ traceId })
          .map(({ assessmentId }) => assessmentId)
          .sort(),
      );
    }
  });

  test('a trace is the same with verdicts and without, but for previews, which MLflow makes of JSON without', async () => {
    const { client, reader } = setup();
    const long = 'x'.repeat(3_000);
    const preview = long.slice(0, 1_000);
    const [root] = chatTrace('', 'x').spans;
    if (root === undefined) throw new Error('no span');
    const child = {
      ...root,
      spanId: '0000000000000001',
      parentSpanId: root.spanId,
      spanType: 'UNKNOWN',
      attributes: {},
    };
    const endTimeMs = root.startTimeMs + 1_234;
    const variants: Partial<TraceRecord>[] = [
      { sessionId: '12345', userId: 'ada@example.com' },
      {
        state: 'ERROR',
        tokenUsage: undefined,
        spans: [{ ...root, status: { code: 'ERROR', message: 'failed' } }, child],
      },
      {
        requestPreview: preview,
        responsePreview: preview,
        spans: [{ ...root, inputs: long, outputs: { text: long } }],
      },
      { endTimeMs, spans: [{ ...root, endTimeMs, inputs: [1, 'two'] }] },
    ];
    const experiment = await freshExperiment();
    const build = (kind: string) =>
      variants.map((changes, n) => ({
        ...chatTrace(experiment.id, `same ${n}`, changes),
        traceId: chatTrace(experiment.id, `${kind} ${n}`).traceId,
      }));
    const plain = build('plain');
    const judged = build('judged');
    await client.writeTraces(experiment, plain);
    await client.writeTraces(experiment, judged, withVerdicts(judged));
    const found = new Map((await reader.search(experiment.id)).map((trace) => [trace.traceId, trace]));
    for (const [n, { traceId }] of plain.entries()) {
      const [one, other] = [found.get(traceId), found.get(judged[n]?.traceId ?? '')];
      if (one === undefined || other === undefined) throw new Error(`variant ${n} is not found`);
      expect({ n, ...comparable(other) }).toEqual({ n, ...comparable(one) });
      expect(other.responsePreview?.slice(0, 900)).toBe(judged[n]?.responsePreview.slice(0, 900));
      expect([one.assessments.length, other.assessments.length]).toEqual([0, VERDICTS]);
    }
  });

  test('a verdict has every field that it has when it comes later', async () => {
    const { client, reader } = setup();
    const experiment = await freshExperiment();
    const [early, late] = ['early', 'late'].map((name) => chatTrace(experiment.id, name)) as [TraceRecord, TraceRecord];
    const of = ({ traceId }: TraceRecord) => [
      verdict(traceId, 'safety'),
      verdict(traceId, 'words', { sourceType: 'CODE', sourceId: 'code:/words', value: 9 }),
      verdict(traceId, 'coherence', { value: undefined, error: { code: 'JUDGE_REFUSED', message: 'No answer.' } }),
      verdict(traceId, 'flagged', { value: false, metadata: { long: 'm'.repeat(400) } }),
      verdict(traceId, 'odd', { value: 'nul \0', rationale: 'half \ud83d' }),
      verdict(traceId, 'fluency'),
    ];
    await client.writeTraces(experiment, [early], new Map([[early.traceId, of(early)]]));
    await client.writeTraces(experiment, [late]);
    const stored = (await client.getTraces(experiment.id, [late.traceId])).get(late.traceId);
    if (stored === undefined) throw new Error('the trace is not found');
    await client.writeAssessments(stored, of(late));
    const found = new Map((await reader.search(experiment.id)).map((trace) => [trace.traceId, trace]));
    const read = ({ traceId }: TraceRecord) =>
      (found.get(traceId)?.assessments ?? [])
        .map(({ assessmentId: _id, ...assessment }) => assessment)
        .sort((a, b) => a.name.localeCompare(b.name));
    expect(read(early)).toHaveLength(6);
    expect(read(early)).toEqual(read(late));
  });

  test.each([
    ['passThenCut', true],
    ['passThenReply', true],
    ['passThenCut', false],
  ] as const)(
    'a lost reply (%s) leaves one trace with each verdict once, and nothing is posted twice (verdicts: %s)',
    async (kind, isJudged) => {
      const { faulty, reader } = setup();
      const experiment = await freshExperiment();
      const traces = Array.from({ length: 5 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
      let posts = 0;
      let lost = 0;
      faulty.proxy.rule((request) => {
        if (isPost(request)) posts += 1;
        if (!isPost(request) && request.path !== '/v1/traces') return undefined;
        // Each first write of a kind, and later ones now and then.
        lost += 1;
        if (lost % 3 !== 1) return undefined;
        return kind === 'passThenCut' ? { kind } : { kind, status: 502 };
      });
      const verdicts = isJudged ? withVerdicts(traces) : undefined;
      const result = await faulty.client.writeTraces(experiment, traces, verdicts);
      faulty.proxy.rule(() => undefined);
      expect({ ...result, written: result.written.sort() }).toMatchObject({
        written: idsOf(traces),
        bare: [],
        refused: [],
      });
      expect(posts).toBeLessThanOrEqual(traces.length);
      const found = await reader.search(experiment.id);
      expect(idsOf(found)).toEqual(idsOf(traces));
      for (const { assessments, tokenUsage, spans } of found) {
        expect([assessments.length, tokenUsage?.total_tokens, spans.length]).toEqual([isJudged ? VERDICTS : 0, 38, 1]);
      }
    },
  );

  test('what people change between two writes is kept', async () => {
    const { client, reader } = setup();
    const experiment = await freshExperiment();
    const traces = ['a', 'b'].map((name) => chatTrace(experiment.id, name));
    const [a, b] = idsOf(traces) as [string, string];
    await client.writeTraces(experiment, traces, withVerdicts(traces));
    const idOf = (n: number) => verdict(a, `scorer_${n}`).assessmentId;
    await reader.do({ do: 'override', traceId: a, assessmentId: idOf(0), value: 'no' });
    await reader.do({ do: 'edit', traceId: a, assessmentId: idOf(1), name: 'scorer_1', value: 'no' });
    await reader.do({ do: 'delete_assessment', traceId: a, assessmentId: idOf(2) });
    await reader.do({ do: 'feedback', traceId: a, name: 'fluency', value: 'no' });
    await reader.do({ do: 'set_tag', traceId: a, key: 'status_code', value: 'seen' });
    await reader.do({ do: 'delete_traces', experimentId: experiment.id, traceIds: [b] });
    const read = async () => (await reader.search(experiment.id)).sort((x, y) => x.traceId.localeCompare(y.traceId));
    const before = await read();
    expect(before[0]?.assessments.find(({ assessmentId }) => assessmentId === idOf(1))?.value).toBe('no');
    const [first] = traces.filter(({ traceId }) => traceId === a);
    const again = await client.writeTraces(experiment, first ? [first] : [], withVerdicts(traces));
    expect(again).toEqual({ written: [], alreadyThere: [a], bare: [], refused: [] });
    expect(await client.mendTraces(experiment, traces)).toEqual([]);
    const stored = (await client.getTraces(experiment.id, [a])).get(a);
    if (stored === undefined) throw new Error('the trace is not found');
    const kept = verdictsOf({ traceId: a }).filter((_, n) => n !== 2);
    expect((await client.writeAssessments(stored, kept)).written).toEqual([]);
    const editedIds = ({ assessments }: typeof stored) =>
      assessments.flatMap(({ assessmentId, isEdited }) => (isEdited ? [assessmentId] : []));
    expect(editedIds(stored)).toEqual([idOf(1)]);
    const anew = [0, 1].map((n) => verdict(a, `scorer_${n}`, { version: '2', replaces: true }));
    expect((await client.writeAssessments(stored, [...anew, verdict(a, 'fluency')])).written).toEqual([]);
    expect(await read()).toEqual(before);
    // A verdict that has replaced its error is not an edit.
    const error = { code: 'JUDGE_REFUSED', message: 'no answer' };
    const now = async () => (await client.getTraces(experiment.id, [a])).get(a) ?? stored;
    await client.writeAssessments(await now(), [verdict(a, 'late', { error })]);
    expect((await client.writeAssessments(await now(), [verdict(a, 'late')])).written).toHaveLength(1);
    expect(editedIds(await now())).toEqual([idOf(1)]);
  });

  test('a trace whose verdicts MLflow refuses is written without them', async () => {
    const { client } = setup();
    const experiment = await freshExperiment();
    const traces = Array.from({ length: 4 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
    const verdicts = withVerdicts(traces);
    const odd = traces[2]?.traceId ?? '';
    verdicts.set(odd, [verdict(odd, 'safety', { sourceType: {} as never })]);
    const result = await client.writeTraces(experiment, traces, verdicts);
    expect({ ...result, written: result.written.sort() }).toEqual({
      written: idsOf(traces),
      alreadyThere: [],
      bare: [odd],
      refused: [],
    });
    const stored = await client.getTraces(experiment.id, idsOf(traces));
    for (const { traceId, assessments } of stored.values()) {
      expect(assessments).toHaveLength(traceId === odd ? 0 : VERDICTS);
    }
  });
}

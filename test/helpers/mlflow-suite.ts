/** Tests for every MLflow version and both protocols, which read the results with MLflow's Python client. */

import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import type { Experiment } from '../../src/mlflow/types.ts';
import { testJudgedTraces } from './mlflow-judged-suite.ts';
import { testLabels } from './mlflow-label-suite.ts';
import { testPublishing } from './mlflow-publish-suite.ts';
import type { ReadTrace } from './mlflow-reader.ts';
import { chatTrace, idsOf, type SuiteSetup, verdict } from './mlflow-traces.ts';

const byId = (traces: ReadTrace[]) => new Map(traces.map((trace) => [trace.traceId, trace]));
const error = { code: 'JUDGE_REFUSED', message: 'The judge gave no answer.' };

/** Declares the tests. Call `setup` only after the servers have started. */
export function testMlflow(setup: () => SuiteSetup): void {
  let count = 0;
  const freshExperiment = () => setup().client.resolveExperiment(`suite ${++count} + a/b`);

  async function written(...names: [string, Partial<TraceRecord>?][]): Promise<{
    experiment: Experiment;
    traces: TraceRecord[];
  }> {
    const experiment = await freshExperiment();
    const traces = names.map(([name, changes]) => chatTrace(experiment.id, name, changes));
    const result = await setup().client.writeTraces(experiment, traces);
    expect(result.written.sort()).toEqual(idsOf(traces));
    return { experiment, traces };
  }

  async function storedTrace(experiment: Experiment, traceId: string) {
    const stored = (await setup().client.getTraces(experiment.id, [traceId])).get(traceId);
    if (stored === undefined) throw new Error(`${traceId} does not exist`);
    return stored;
  }

  async function assess(experiment: Experiment, traceId: string, ...assessments: Parameters<typeof verdict>[]) {
    const wanted = assessments.map((parameters) => verdict(...parameters));
    return setup().client.writeAssessments(await storedTrace(experiment, traceId), wanted);
  }

  async function read(experiment: Experiment, traceId: string): Promise<ReadTrace> {
    const found = byId(await setup().reader.search(experiment.id)).get(traceId);
    if (found === undefined) throw new Error(`${traceId} is not found`);
    return found;
  }

  const inForce = (trace: ReadTrace, name: string) =>
    trace.assessments.filter((assessment) => assessment.name === name && assessment.valid);

  describe('traces', () => {
    test('can be found by each tag, by state and by time', async () => {
      const hour = 3_600_000;
      const noon = Date.parse('2026-11-20T12:00:00Z');
      const failed: Partial<TraceRecord> = {
        state: 'ERROR',
        startTimeMs: noon + 2 * hour,
        endTimeMs: noon + 2 * hour,
        tags: { ...chatTrace('', '').tags, status_code: '424', event_id: 'event-c' },
      };
      const { experiment, traces } = await written(
        ['a', { startTimeMs: noon, endTimeMs: noon }],
        ['b', { startTimeMs: noon + hour, endTimeMs: noon + hour + 1_500 }],
        ['c', failed],
      );
      const [a, b, c] = traces.map(({ traceId }) => traceId);
      const find = (filter: string) => setup().reader.find(experiment.id, filter);
      for (const [key, value] of Object.entries(traces[0]?.tags ?? {})) {
        const having = traces.filter(({ tags }) => tags[key] === value);
        expect({ key, found: await find(`tag.${key} = '${value}'`) }).toEqual({ key, found: idsOf(having) });
      }
      expect(await find("tag.status_code = '424'")).toEqual([c]);
      expect(await find("tag.event_id = 'event-b'")).toEqual([b]);
      expect(await find("attributes.status = 'ERROR'")).toEqual([c]);
      expect(await find("attributes.status = 'OK'")).toEqual([a, b].sort());
      expect(await find(`attributes.timestamp_ms >= ${noon + hour}`)).toEqual([b, c].sort());
      expect(await find(`attributes.timestamp_ms < ${noon + hour}`)).toEqual([a]);
      expect(await find("attributes.name = 'bicycle-endpoint'")).toEqual([a, b, c].sort());
      expect(await read(experiment, b ?? '')).toMatchObject({ requestTimeMs: noon + hour, executionDurationMs: 1_500 });
    });

    test('contain the captured data', async () => {
      const first = chatTrace('', 'a');
      const events = [{ name: 'gen_ai.first_token', timeMs: first.startTimeMs + 82 }];
      const spans = first.spans.map((one) => ({ ...one, events }));
      const { experiment, traces } = await written(['a', { sessionId: '12345', userId: 'ada@example.com', spans }]);
      const [record] = traces;
      const trace = await read(experiment, record?.traceId ?? '');
      expect(trace).toMatchObject({
        state: 'OK',
        requestTimeMs: record?.startTimeMs,
        executionDurationMs: 0,
        requestPreview: record?.requestPreview,
        responsePreview: record?.responsePreview,
        tokenUsage: { input_tokens: 21, output_tokens: 17, total_tokens: 38 },
        tags: { ...record?.tags, 'mlflow.traceName': 'bicycle-endpoint' },
        metadata: { 'mlflow.trace.session': '12345', 'mlflow.trace.user': 'ada@example.com' },
      });
      const [span] = record?.spans ?? [];
      expect(trace.spans).toEqual([
        expect.objectContaining({
          spanId: span?.spanId,
          parentId: null,
          name: 'bicycle-endpoint',
          type: 'CHAT_MODEL',
          status: 'OK',
          inputs: span?.inputs,
          outputs: span?.outputs,
          startNs: '1795166100000000000',
          endNs: '1795166100000000000',
          events: [{ name: 'gen_ai.first_token', ns: '1795166100082000000' }],
          attributes: expect.objectContaining({
            'mlflow.llm.model': 'bicycle-model',
            'mlflow.message.format': 'openai',
            'mlflow.chat.tokenUsage': record?.tokenUsage,
            'capture.latency_known': false,
          }),
        }),
      ]);
      const bySession = "metadata.`mlflow.trace.session` = '12345'";
      expect(await setup().reader.find(experiment.id, bySession)).toEqual(idsOf(traces));
    });

    test('have OpenTelemetry’s names and links, which change nothing that MLflow shows', async () => {
      const [root] = chatTrace('', 'x').spans;
      if (!root) throw new Error('no span');
      const said = (content: string) => [{ role: 'user', parts: [{ type: 'text', content }] }];
      const names = {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'aws.sagemaker',
        'gen_ai.request.model': '{"a":1}',
        'gen_ai.request.temperature': 0.5,
        'gen_ai.response.id': '['.repeat(200),
        'gen_ai.response.finish_reasons': ['stop', '"'],
        'gen_ai.usage.input_tokens': 99,
        'gen_ai.input.messages': said('Other words?'),
        'gen_ai.output.messages': said('Other words.'),
        'gen_ai.system_instructions': [{ type: 'text', content: 'Be short.' }],
        'gen_ai.tool.definitions': [{ type: 'function', name: 'f' }],
      };
      const links = [{ traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' }];
      const spans = [{ ...root, attributes: { ...root.attributes, ...names }, links }];
      const { experiment, traces } = await written(['a', { spans: [root] }], ['b', { spans }]);
      const [before, after] = await Promise.all(traces.map(({ traceId }) => read(experiment, traceId)));
      const shown = ({ tokenUsage, state, spans: [span] }: ReadTrace) => {
        const { spanId: _, attributes: __, links: ___, ...facts } = span ?? {};
        return { tokenUsage, state, ...facts };
      };
      expect(after && shown(after)).toEqual(before && shown(before));
      expect(after?.spans[0]?.attributes).toMatchObject(names);
      const known = setup().version.localeCompare('3.13', 'en', { numeric: true }) >= 0;
      expect(after?.spans[0]?.links).toEqual(known ? [[`tr-${links[0]?.traceId}`, links[0]?.spanId]] : []);
    });

    test('can have several spans and an error state', async () => {
      const base = chatTrace('', 'x');
      const [root] = base.spans;
      if (!root) throw new Error('no span');
      const child = (n: number) => ({
        ...root,
        spanId: `000000000000000${n}`,
        parentSpanId: root.spanId,
        name: `inference ${n}`,
        spanType: 'UNKNOWN',
        inputs: { length: n, width: 2.5, note: null },
        outputs: n,
        attributes: {},
      });
      const message = 'Received client error (424)\nfrom primary';
      const spans = [{ ...root, status: { code: 'ERROR' as const, message } }, child(1), child(2)];
      const { experiment, traces } = await written(['a', { state: 'ERROR', spans }]);
      const trace = await read(experiment, traces[0]?.traceId ?? '');
      expect(trace.state).toBe('ERROR');
      const spansRead = new Map(trace.spans.map((span) => [span.spanId, span]));
      expect(spansRead.get(root.spanId)).toMatchObject({ parentId: null, status: 'ERROR', statusMessage: message });
      for (const n of [1, 2]) {
        expect(spansRead.get(`000000000000000${n}`)).toMatchObject({
          parentId: root.spanId,
          name: `inference ${n}`,
          inputs: { length: n, width: 2.5, note: null },
          outputs: n,
        });
      }
    });

    test('accept any text, including characters that MLflow’s databases refuse', async () => {
      const [root] = chatTrace('', 'x').spans;
      const values = [
        ...['', '"quoted"', '{"a":1}', '[1]', '123', 'true', 'null', 'nul \0', 'half \ud83d', '日本語 😀 é'],
        ...['\u2028'],
      ];
      const storable = (text: string) => text.toWellFormed();
      const clean = (text: string) => storable(text).replaceAll('\0', '\ufffd');
      const { experiment, traces } = await written(
        ...values.map((value, n): [string, Partial<TraceRecord>] => [
          `value ${n}`,
          {
            // As a trace is built, from values of callers.
            tags: { ...chatTrace('', '').tags, odd: clean(value) },
            sessionId: clean(value) || 'none',
            requestPreview: clean(value),
            spans: root ? [{ ...root, inputs: value, outputs: { text: value, list: [value] } }] : [],
          },
        ]),
      );
      const found = byId(await setup().reader.search(experiment.id));
      for (const [n, value] of values.entries()) {
        const trace = found.get(traces[n]?.traceId ?? '');
        const text = storable(value);
        expect({ n, ...trace }).toMatchObject({
          n,
          tags: { odd: clean(value) },
          metadata: { 'mlflow.trace.session': clean(value) || 'none' },
          spans: [{ inputs: text, outputs: { text, list: [text] } }],
        });
      }
    });

    test('may be as long as a built trace can be, and are complete in the span', async () => {
      const long = 'x'.repeat(10_000);
      const [root] = chatTrace('', 'x').spans;
      const facts = {
        ...{ clientRequestId: 'c'.repeat(250), requestPreview: long.slice(0, 1000) },
        ...{ sessionId: long.slice(0, 250), userId: long.slice(0, 250), tags: { long: long.slice(0, 4096) } },
        spans: root ? [{ ...root, inputs: long, outputs: long }] : [],
      };
      const { experiment, traces } = await written(['a', facts]);
      const trace = await read(experiment, traces[0]?.traceId ?? '');
      expect(trace.tags).toMatchObject(facts.tags);
      expect(trace.metadata).toMatchObject({ 'mlflow.trace.session': facts.sessionId });
      expect(trace.spans[0]).toMatchObject({ inputs: long, outputs: long });
    });
  });

  describe('faults', () => {
    test('a deleted experiment is reported, and used again after it is restored', async () => {
      const { client, reader } = setup();
      const experiment = await freshExperiment();
      await reader.do({ do: 'delete_experiment', experimentId: experiment.id });
      const named = { name: 'MlflowExperimentDeleted', message: expect.stringContaining('experiments restore') };
      await expect(client.resolveExperiment(experiment.name)).rejects.toMatchObject(named);
      await expect(client.getExperiment(experiment.id)).rejects.toMatchObject(named);
      await reader.do({ do: 'restore_experiment', experimentId: experiment.id });
      await expect(client.resolveExperiment(experiment.name)).resolves.toEqual(experiment);
    });

    test('concurrent creations of an experiment result in one experiment', async () => {
      const { client, reader } = setup();
      const name = `made at once ${++count}`;
      const made = await Promise.all(Array.from({ length: 6 }, () => client.resolveExperiment(name)));
      expect(new Set(made.map(({ id }) => id))).toEqual(new Set([await reader.do({ do: 'experiment', name })]));
    });
  });

  describe('assessments', () => {
    test('are stored completely and do not change the trace', async () => {
      const { experiment, traces } = await written(['a', { sessionId: 'session' }]);
      const id = traces[0]?.traceId ?? '';
      const before = await read(experiment, id);
      const result = await assess(
        experiment,
        id,
        [id, 'safety'],
        [id, 'response_words', { sourceType: 'CODE', sourceId: 'code:/response_words', value: 9 }],
        [id, 'coherence', { value: undefined, error }],
        [id, 'flagged', { value: false, metadata: { long: 'm'.repeat(400) } }],
      );
      expect(result).toMatchObject({ alreadyThere: [] });
      expect(result.written).toHaveLength(4);
      const after = await read(experiment, id);
      const found = new Map(after.assessments.map((assessment) => [assessment.name, assessment]));
      expect(found.size).toBe(4);
      expect(found.get('safety')).toMatchObject({
        assessmentId: verdict(id, 'safety').assessmentId,
        sourceType: 'LLM_JUDGE',
        sourceId: 'bedrock:/judge-model',
        value: 'yes',
        error: null,
        rationale: 'Because of safety.',
        metadata: { 'mlflow.assessment.judgeCost': '0.0012' },
        valid: true,
        createTimeMs: Date.parse('2026-11-20T10:00:00Z'),
      });
      expect(found.get('response_words')).toMatchObject({ sourceType: 'CODE', value: 9 });
      expect(found.get('coherence')).toMatchObject({ value: null, error });
      expect(found.get('flagged')).toMatchObject({ value: false, metadata: { long: expect.stringMatching(/cut\]$/) } });
      const unmarked = ({ 'mlflow.trace.infoFinalized': _mark, ...metadata }: Record<string, string>) => metadata;
      expect({ ...after, assessments: [], metadata: unmarked(after.metadata) }).toEqual({
        ...before,
        metadata: unmarked(before.metadata),
      });
    });

    test('are not written a second time', async () => {
      const { experiment, traces } = await written(['a']);
      const id = traces[0]?.traceId ?? '';
      await assess(experiment, id, [id, 'safety'], [id, 'fluency']);
      const again = await assess(experiment, id, [id, 'safety'], [id, 'fluency'], [id, 'coherence', { version: '9' }]);
      expect(again.written).toEqual([verdict(id, 'coherence', { version: '9' }).assessmentId]);
      expect(again.alreadyThere).toHaveLength(2);
      expect((await read(experiment, id)).assessments).toHaveLength(3);
    });

    test('written concurrently by two clients are stored once', async () => {
      const { client } = setup();
      const { experiment, traces } = await written(['a']);
      const id = traces[0]?.traceId ?? '';
      const stored = await storedTrace(experiment, id);
      const wanted = ['safety', 'fluency', 'coherence'].map((name) => verdict(id, name));
      const results = await Promise.all([1, 2, 3].map(() => client.writeAssessments(stored, wanted)));
      for (const { written: new_, alreadyThere } of results) {
        expect([...new_, ...alreadyThere].sort()).toEqual(wanted.map(({ assessmentId }) => assessmentId).sort());
      }
      expect((await read(experiment, id)).assessments).toHaveLength(3);
    });

    test('a lost reply does not duplicate them', async () => {
      const { faulty } = setup();
      const { experiment, traces } = await written(['a']);
      const id = traces[0]?.traceId ?? '';
      const stored = await storedTrace(experiment, id);
      let times = 0;
      faulty.proxy.rule(({ method, path }) => {
        const writes = method === 'POST' && (path.endsWith('/assessments') || path === '/api/3.0/mlflow/traces');
        return writes && times++ < 2 ? { kind: 'passThenCut' } : undefined;
      });
      const wanted = [verdict(id, 'safety'), verdict(id, 'fluency')];
      const result = await faulty.client.writeAssessments(stored, wanted);
      faulty.proxy.rule(() => undefined);
      expect(result).toEqual({
        written: expect.arrayContaining(wanted.map((one) => one.assessmentId)),
        alreadyThere: [],
      });
      expect((await read(experiment, id)).assessments).toHaveLength(2);
    });

    test('a verdict replaces an error', async () => {
      const { experiment, traces } = await written(['a']);
      const id = traces[0]?.traceId ?? '';
      await assess(experiment, id, [id, 'safety', { error }], [id, 'fluency', { error }]);
      await assess(experiment, id, [id, 'safety'], [id, 'fluency', { version: '2', sourceId: 'bedrock:/other' }]);
      const trace = await read(experiment, id);
      expect(inForce(trace, 'safety')).toMatchObject([{ value: 'yes', error: null, rationale: 'Because of safety.' }]);
      expect(inForce(trace, 'fluency')).toMatchObject([{ value: 'yes', error: null, sourceId: 'bedrock:/other' }]);
      expect(trace.assessments.filter(({ name }) => name === 'safety')).toHaveLength(1);
    });

    test('a new verdict overrides the older one on request', async () => {
      const { experiment, traces } = await written(['a']);
      const id = traces[0]?.traceId ?? '';
      await assess(experiment, id, [id, 'safety'], [id, 'fluency']);
      const overrides = verdict(id, 'safety').assessmentId;
      const newer: Parameters<typeof verdict> = [id, 'safety', { version: '2', value: 'no', replaces: true }];
      expect((await assess(experiment, id, newer)).written).toHaveLength(1);
      expect(await assess(experiment, id, newer)).toMatchObject({ written: [], alreadyThere: [expect.any(String)] });
      const trace = await read(experiment, id);
      expect(inForce(trace, 'safety')).toMatchObject([{ value: 'no', overrides }]);
      expect(trace.assessments.find(({ assessmentId }) => assessmentId === overrides)).toMatchObject({ valid: false });
    });

    test('a trace that is deleted while it is judged is not recreated', async () => {
      const { client, faulty, reader } = setup();
      const { experiment, traces } = await written(['a'], ['b'], ['c']);
      const [a = '', b = '', c = ''] = traces.map(({ traceId }) => traceId);
      const stored = await client.getTraces(experiment.id, [a, b]);
      const remove = (id: string) =>
        reader.do<void>({ do: 'delete_traces', experimentId: experiment.id, traceIds: [id] });
      const write = (writer: MlflowClient, id: string, ...names: string[]) => {
        const trace = stored.get(id);
        if (trace === undefined) throw new Error(`${id} does not exist`);
        return writer.writeAssessments(
          trace,
          names.map((name) => verdict(id, name)),
        );
      };
      // The deletion comes before the write, or at its last moment, with one verdict or several.
      await remove(a);
      const missing = { written: [], alreadyThere: [], traceMissing: true };
      expect(await write(client, a, 'safety')).toEqual(missing);
      expect(await write(client, a, 'safety', 'fluency')).toEqual(missing);
      let times = 0;
      faulty.proxy.rule(({ method, path }) => {
        const writes = method === 'POST' && (path.endsWith('/assessments') || path === '/api/3.0/mlflow/traces');
        if (!writes || times++ > 0) return undefined;
        return { kind: 'after', work: () => remove(b), next: { kind: 'pass' } };
      });
      expect(await write(faulty.client, b, 'safety', 'fluency')).toEqual(missing);
      faulty.proxy.rule(() => undefined);
      expect(times).toBeGreaterThan(0);
      expect([...(await client.getTraces(experiment.id, [a, b, c])).keys()]).toEqual([c]);
      expect(idsOf(await reader.search(experiment.id))).toEqual([c]);
    });
  });

  describe('traces with verdicts', () => testJudgedTraces(setup));
  describe('labels', () => testLabels(setup));
  describe('labels of marked hours', () => testPublishing(setup));
}

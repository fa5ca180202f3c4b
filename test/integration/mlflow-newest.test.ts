/** Writes to the newest tested MLflow version, by OTLP. */

import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { Experiment } from '../../src/mlflow/types.ts';
import type { SeenRequest } from '../doubles/misbehaving-server.ts';
import { testCorpus } from '../helpers/mlflow-corpus.ts';
import { startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { testMlflow } from '../helpers/mlflow-suite.ts';
import { chatTrace, idsOf, verdict } from '../helpers/mlflow-traces.ts';

let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
beforeAll(async () => {
  mlflow = await startPlainMlflow();
});
afterAll(() => mlflow?.stop());
test('the newest version is written to by OTLP', async () => {
  expect(await mlflow.client.capabilities()).toMatchObject({ otlp: true });
});

testMlflow(() => mlflow);
testCorpus(() => mlflow, true);

test('finds the one trace of a batch that MLflow refuses, and writes the others', async () => {
  const experiment = await mlflow.client.resolveExperiment('faulty');
  const traces = Array.from({ length: 8 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
  const faulty = chatTrace(experiment.id, 'faulty');
  // MLflow refuses a span without an id.
  for (const span of faulty.spans) span.spanId = '';
  const batch = [...traces.slice(0, 5), faulty, ...traces.slice(5)];
  expect((await mlflow.client.writeTraces(experiment, batch)).refused).toEqual([
    {
      traceId: faulty.traceId,
      reason: { name: 'MlflowRefused', message: expect.stringContaining('HTTP 422'), words: expect.any(String) },
    },
  ]);
  const found = await mlflow.reader.search(experiment.id);
  expect(idsOf(found)).toEqual(idsOf(traces));
});

const judge = (traces: readonly TraceRecord[]) =>
  new Map(traces.map(({ traceId }) => [traceId, ['safety', 'fluency'].map((name) => verdict(traceId, name))]));
afterEach(() => mlflow.faulty.proxy.rule(() => undefined));

describe('traces whose spans follow their verdicts', () => {
  const hasSpans = ({ path, body }: SeenRequest) => path === '/v1/traces' && body.length > 0;
  const read = async (experiment: Experiment) =>
    new Map((await mlflow.reader.search(experiment.id)).map((trace) => [trace.traceId, trace]));

  test('are not recreated, and keep a tag, if a person deletes and tags them at the last moment', async () => {
    const { faulty, reader } = mlflow;
    const experiment = await mlflow.client.resolveExperiment('deleted while sent');
    const traces = Array.from({ length: 3 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
    const [gone = '', tagged = ''] = traces.map(({ traceId }) => traceId);
    const change = async () => {
      await reader.do({ do: 'delete_traces', experimentId: experiment.id, traceIds: [gone] });
      await reader.do({ do: 'set_tag', traceId: tagged, key: 'status_code', value: 'seen' });
    };
    faulty.proxy.rule((request) =>
      hasSpans(request) ? { kind: 'after', work: change, next: { kind: 'pass' } } : undefined,
    );
    expect((await faulty.client.writeTraces(experiment, traces, judge(traces))).written).toHaveLength(3);
    const found = await read(experiment);
    const others = idsOf(traces.slice(1));
    expect([...found.keys()].sort()).toEqual(others);
    expect(found.get(tagged)).toMatchObject({ tags: { status_code: 'seen' }, spans: [expect.anything()] });
  });

  test('get them from the next attempt after an interruption, once', async () => {
    const { faulty } = mlflow;
    const experiment = await mlflow.client.resolveExperiment('interrupted');
    const traces = Array.from({ length: 3 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
    faulty.proxy.rule((request) => (hasSpans(request) ? { kind: 'reply', status: 403 } : undefined));
    await expect(faulty.client.writeTraces(experiment, traces, judge(traces))).rejects.toMatchObject({
      name: 'MlflowAccessDenied',
    });
    const stored = await mlflow.client.getTraces(experiment.id, [...judge(traces).keys()]);
    expect([...stored.values()].map(({ assessments }) => assessments.length)).toEqual([2, 2, 2]);
    for (const _attempt of [1, 2]) {
      expect(await mlflow.client.mendTraces(experiment, traces)).toEqual([]);
      const found = [...(await read(experiment)).values()];
      expect(
        found.map(({ spans, tokenUsage, requestPreview, assessments }) => [
          spans.length,
          tokenUsage?.total_tokens,
          requestPreview?.startsWith('How do I fix'),
          assessments.length,
        ]),
      ).toEqual(Array(3).fill([1, 38, true, 2]));
    }
  });
});

describe('a gateway that answers 200 itself', () => {
  const isWrite = ({ method, path }: SeenRequest) =>
    path === '/v1/traces' || (method === 'POST' && path === '/api/3.0/mlflow/traces') || path.endsWith('/assessments');

  test.each([
    ['{"message":"queued"}', true],
    ['', true],
    ['', false],
  ])('to every second write with “%s” loses nothing (verdicts: %s)', async (body, isJudged) => {
    const { proxy, client } = mlflow.faulty;
    const experiment = await mlflow.client.resolveExperiment(`gateway “${body}” ${isJudged}`);
    const traces = Array.from({ length: 30 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
    // Counted for each content: of all writes together, those of one trace could all be answered so.
    const seen = new Map<string, number>();
    proxy.rule((request) => {
      const content = request.body.toString('latin1');
      const n = seen.get(content) ?? 0;
      seen.set(content, n + 1);
      return isWrite(request) && n % 2 === 0 ? { kind: 'reply', status: 200, body } : undefined;
    });
    for (const part of [traces.slice(0, 15), traces.slice(15)]) {
      const { written } = await client.writeTraces(experiment, part, isJudged ? judge(part) : undefined);
      expect(written).toHaveLength(15);
    }
    const found = await mlflow.reader.search(experiment.id);
    expect(idsOf(found)).toEqual(idsOf(traces));
    for (const { spans, assessments } of found) {
      expect([spans.length, assessments.length]).toEqual([1, isJudged ? 2 : 0]);
    }
  });
});

/** Tests of labels that are written to traces, for every MLflow version: read with MLflow's own client, among people's work. */

import { childSpanIdOf } from '../../src/captures/trace/ids.ts';
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { LabeledRow } from '../../src/core/contract/ground-truth.ts';
import { type Outcome, writeLabels } from '../../src/ground-truth/publish/label-writer.ts';
import { labelScorers, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import type { Experiment } from '../../src/mlflow/types.ts';
import type { SeenRequest } from '../doubles/misbehaving-server.ts';
import { LABELED_AT, labeled } from './labeled-rows.ts';
import type { ReadAssessment } from './mlflow-reader.ts';
import { chatTrace, type SuiteSetup, verdict } from './mlflow-traces.ts';

const NAME = 'ground_truth';

/** The same label with another value, after it was published. */
const replaced = (row: LabeledRow, label: LabeledRow['label']): LabeledRow => ({ ...row, label, noted: false });

export function testLabels(setup: () => SuiteSetup): void {
  let count = 0;
  afterEach(() => setup().faulty.proxy.rule(() => undefined));

  async function traces(number: number, change: (trace: TraceRecord) => Partial<TraceRecord> = () => ({})) {
    const experiment = await setup().client.resolveExperiment(`labels ${++count}`);
    const written = Array.from({ length: number }, (_, n) => {
      const trace = chatTrace(experiment.id, `record ${n}`);
      return { ...trace, ...change(trace) };
    });
    const judged = new Map(written.map(({ traceId }) => [traceId, [verdict(traceId, 'safety')]]));
    await setup().client.writeTraces(experiment, written, judged);
    return { experiment, ids: written.map(({ traceId }) => traceId) };
  }

  const written = (experiment: Experiment, rows: LabeledRow[], store = setup().client) =>
    writeLabels(rows, { store, experimentId: experiment.id, scorers: labelScorers(scorersFor()), mayGoOn: () => true });
  const publish = async (experiment: Experiment, rows: LabeledRow[], store?: MlflowClient): Promise<Outcome[]> => {
    const { outcomes } = await written(experiment, rows, store);
    return rows.map((row) => outcomes.get(row) as Outcome);
  };
  const expectations = (traceId: string, spanId?: string) =>
    setup().reader.do<ReadAssessment[]>({ do: 'expectations', traceId, name: NAME, spanId });
  const values = async (traceId: string) => (await expectations(traceId)).map(({ value }) => value);

  test('are expectations on the trace, or on the row’s span where the call carried several', async () => {
    const { experiment, ids } = await traces(3, ({ traceId, spans }) => {
      const root = spans[0] as TraceRecord['spans'][number];
      const spanOf = (row: number) => ({ ...root, spanId: childSpanIdOf(traceId, row), parentSpanId: root.spanId });
      return { spans: [...spans, spanOf(0), spanOf(1)] };
    });
    const [a = '', b = '', c = ''] = ids;
    const rows = [
      labeled(a, 'it is “yes”, of course\n'),
      labeled(b, 1, { row: 0, by: 'ann@example.com' }),
      labeled(b, 0.5, { row: 1 }),
      labeled(c, true),
    ];
    expect(await publish(experiment, rows)).toEqual(Array(4).fill('published'));
    const source = { sourceType: 'HUMAN', sourceId: 'ground truth', createTimeMs: LABELED_AT };
    expect(await expectations(a)).toEqual([
      expect.objectContaining({ value: 'it is “yes”, of course\n', isExpectation: true, spanId: null, ...source }),
    ]);
    for (const [row, value, sourceId] of [
      [0, 1, 'ann@example.com'],
      [1, 0.5, 'ground truth'],
    ] as const) {
      expect(await expectations(b, childSpanIdOf(b, row))).toEqual([expect.objectContaining({ value, sourceId })]);
    }
    expect(await values(c)).toEqual([true]);
    // The verdicts are as they were.
    const stored = await setup().client.getTraces(experiment.id, ids);
    for (const trace of stored.values()) {
      expect(trace.assessments.filter(({ name }) => name === 'safety')).toMatchObject([{ value: 'yes', valid: true }]);
    }
  });

  test('are written once, also by two runs at once, after lost replies, and 100 with at most 110 requests', async () => {
    const { experiment, ids } = await traces(100);
    const rows = ids.map((id, n) => labeled(id, n % 2));
    const { client, proxy } = setup().faulty;
    await client.getTraces(experiment.id, []);
    const before = proxy.requests.length;
    expect(new Set(await publish(experiment, rows.slice(0, 99), client))).toEqual(new Set(['published']));
    expect(proxy.requests.length - before).toBeLessThanOrEqual(109);
    // The first reply is lost, and another run does the same.
    let times = 0;
    proxy.rule(({ path }) => (path.endsWith('/assessments') && times++ === 0 ? { kind: 'passThenCut' } : undefined));
    const both = await Promise.all([publish(experiment, rows.slice(99), client), publish(experiment, rows.slice(99))]);
    expect(both).toEqual([['published'], ['published']]);
    proxy.rule(() => undefined);
    // A killed run is repeated: nothing is sent.
    const sent = proxy.requests.length;
    expect(new Set(await publish(experiment, rows, client))).toEqual(new Set(['published']));
    expect(proxy.requests.slice(sent).filter(({ path }) => path.endsWith('/assessments'))).toEqual([]);
    const stored = await setup().client.getTraces(experiment.id, ids);
    expect(ids.map((id) => stored.get(id)?.assessments.filter(({ name }) => name === NAME))).toEqual(
      rows.map(({ label }) => [expect.objectContaining({ value: label })]),
    );
  });

  test('replace earlier ones, and never what a person wrote, edited or deleted', async () => {
    const { reader } = setup();
    const { experiment, ids } = await traces(6);
    const [plain = '', own = '', edited = '', deleted = '', gone = '', late = ''] = ids;
    await reader.do({ do: 'expect', traceId: own, name: NAME, value: 'mine' });
    const rows = ids.map((id) => labeled(id, 'first'));
    const first = await publish(experiment, rows);
    expect(first).toEqual(['published', 'WrittenByPerson', 'published', 'published', 'published', 'published']);

    const idOf = async (traceId: string) => (await expectations(traceId))[0]?.assessmentId;
    const edit = async (traceId: string) =>
      reader.do({ do: 'edit_expectation', traceId, assessmentId: await idOf(traceId), name: NAME, value: 'edited' });
    await edit(edited);
    await reader.do({ do: 'delete_assessment', traceId: deleted, assessmentId: await idOf(deleted) });
    await reader.do({ do: 'delete_traces', experimentId: experiment.id, traceIds: [gone] });
    const second = rows.map((row, n) =>
      first[n] === 'published' ? replaced(row, 'second') : { ...row, label: 'second' },
    );
    const after = ['published', 'WrittenByPerson', 'EditedByPerson', 'DeletedByPerson', 'TraceMissing'];
    expect(await publish(experiment, second)).toEqual([...after, 'published']);

    // A person edits what has just been replaced.
    await edit(late);
    const third = [rows[0], rows[5]].map((row) => replaced(row as LabeledRow, 'third'));
    expect(await publish(experiment, third)).toEqual(['published', 'EditedByPerson']);
    const found = await Promise.all([plain, own, edited, deleted, late].map(values));
    expect(found).toEqual([['third'], ['mine'], ['edited'], [], ['edited']]);
    expect([...(await setup().client.getTraces(experiment.id, ids)).keys()]).not.toContain(gone);
  });

  test('for a scorer are people’s assessments with its values, or are named', async () => {
    const { reader } = setup();
    const { experiment, ids } = await traces(3);
    const [a = '', b = '', c = ''] = ids;
    await reader.do({ do: 'feedback', traceId: c, name: 'safety', value: 'no' });
    const rows = [
      labeled(a, 'Pass', { scorer: 'safety', by: 'ann@example.com' }),
      labeled(a, 0, { scorer: 'safety', by: 'bob@example.com' }),
      labeled(a, 'perhaps', { scorer: 'safety' }),
      labeled(a, 'yes', { scorer: 'no_such_scorer' }),
      labeled(a, 'yes', { scorer: 'safety', row: 1 }),
      labeled(b, 'no', { scorer: 'safety' }),
      // Her own answer, and that of somebody else on the same trace.
      labeled(c, 'yes', { scorer: 'safety', by: 'person@example.com' }),
      labeled(c, 'yes', { scorer: 'safety', by: 'ann@example.com' }),
    ];
    const left: Record<number, string> = { 2: 'NotAValue', 3: 'UnknownScorer', 4: 'LabelOfRow', 6: 'WrittenByPerson' };
    expect(await publish(experiment, rows)).toEqual(rows.map((_, n) => left[n] ?? 'published'));
    const people = async (traceId: string) => {
      const { assessments } = await reader.do<{ assessments: ReadAssessment[] }>({ do: 'get', traceId });
      const given = assessments.filter(({ sourceType }) => sourceType === 'HUMAN');
      return given.map(({ name, sourceId, value, isExpectation }) => [name, sourceId, value, isExpectation]).sort();
    };
    expect(await people(a)).toEqual([
      ['safety', 'ann@example.com', 'yes', false],
      ['safety', 'bob@example.com', 'no', false],
    ]);
    expect(await people(b)).toEqual([['safety', 'ground truth', 'no', false]]);
    expect(await people(c)).toEqual([
      ['safety', 'ann@example.com', 'yes', false],
      ['safety', 'person@example.com', 'no', false],
    ]);
    expect(await publish(experiment, [replaced(rows[5] as LabeledRow, 'yes')])).toEqual(['published']);
    expect(await people(b)).toEqual([['safety', 'ground truth', 'yes', false]]);
  });

  test('survive a server that fails, and only one that it refuses is left out', async () => {
    const { client, proxy } = setup().faulty;
    const { experiment, ids } = await traces(12);
    const rows = ids.map((id, n) => labeled(id, n));
    const isPost = ({ path }: SeenRequest) => path.endsWith('/assessments');
    const faults = [429, 500, 502, 503].flatMap((status) => [
      { kind: 'reply' as const, status },
      { kind: 'passThenReply' as const, status },
      { kind: 'cut' as const },
      { kind: 'pass' as const },
    ]);
    // By request, so that none meets more faults in a row than the client repeats, however labels take turns.
    const turns = new Map<string, number>();
    proxy.rule((request) => {
      if (isPost(request) && request.path.includes(ids[3] as string)) return { kind: 'reply', status: 400, body: '{}' };
      if (isPost(request) && request.path.includes(ids[0] as string)) return { kind: 'reply', status: 500 };
      const name = `${request.path} ${request.body}`;
      const turn = turns.get(name) ?? turns.size;
      turns.set(name, turn + 1);
      return faults[turn % faults.length];
    });
    // The last label is taken after both have failed: until a label is taken, the fault may be the server's.
    const failed = new Map([0, 3].map((n) => [ids[n], Promise.withResolvers<void>()]));
    const store: MlflowClient = {
      ...client,
      writeAssessments: async (trace, ...more) => {
        if (trace.traceId === ids.at(-1)) await Promise.all([...failed.values()].map(({ promise }) => promise));
        return client.writeAssessments(trace, ...more).finally(failed.get(trace.traceId)?.resolve);
      },
    };
    // Whether the first one is at fault, or the server, shows when it takes others.
    const { outcomes, failure } = await written(experiment, rows, store);
    expect(failure).toBeUndefined();
    expect(rows.map((row) => outcomes.get(row))).toEqual(
      ids.map((_, n) => (n === 3 ? 'MlflowRefused' : n === 0 ? 'MlflowFailed' : 'published')),
    );
    proxy.rule(() => undefined);
    const stored = await setup().client.getTraces(experiment.id, ids);
    expect(ids.map((id) => stored.get(id)?.assessments.filter(({ name }) => name === NAME).length)).toEqual(
      ids.map((_, n) => (n === 3 || n === 0 ? 0 : 1)),
    );
    // A server that refuses or fails on everything is not a fault of the labels.
    const fails = (status: number) => {
      proxy.rule((request) => (isPost(request) ? { kind: 'reply', status } : undefined));
      const failing = ids.map((id, n) => labeled(id, `${status} ${n}`, { row: 1 }));
      return publish(experiment, failing, client);
    };
    await expect(fails(400)).rejects.toMatchObject({ name: 'MlflowRefused' });
    await expect(fails(500)).rejects.toMatchObject({ name: 'MlflowUnavailable' });
  });
}

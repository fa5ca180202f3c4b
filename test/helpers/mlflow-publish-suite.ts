/** Tests of the step that writes the labels of marked hours, for every MLflow version: what is killed, repeated and changed meanwhile. */

import { readWorst } from '../../bin/operate/worst.ts';
import type { LabeledRow } from '../../src/core/contract/ground-truth.ts';
import { publishLabels } from '../../src/ground-truth/publish/publish-labels.ts';
import { textHashes } from '../../src/ground-truth/texts.ts';
import type { StepDependencies } from '../../src/ground-truth/types.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { readMlflowLabels } from '../../src/quality/calibration/mlflow-labels.ts';
import { readTruthPairs, readWindowLabels } from '../../src/quality/calibration/window-labels.ts';
import { stepsOn } from './ground-truth.ts';
import { LabeledHours, labeled } from './labeled-rows.ts';
import { chatTrace, type SuiteSetup, verdict } from './mlflow-traces.ts';

const MINUTES_MS = 60_000;

export function testPublishing(setup: () => SuiteSetup): void {
  let count = 0;
  afterEach(() => setup().faulty.proxy.rule(() => undefined));

  /** Traces of the last hours, some each, and what the step needs. */
  async function start(number: number, verdictOf: (n: number) => string = () => 'yes') {
    const { client, faulty } = setup();
    const experiment = await client.resolveExperiment(`publishing ${++count}`);
    const traces = Array.from({ length: number }, (_, n) => chatTrace(experiment.id, `record ${n}`));
    const judged = traces.map(({ traceId }, n) => [verdict(traceId, 'safety', { value: verdictOf(n) })]);
    await client.writeTraces(experiment, traces, new Map(traces.map(({ traceId }, n) => [traceId, judged[n] ?? []])));
    const hours = new LabeledHours();
    const second = Date.parse('2026-11-20T09:00:00Z') / 1000;
    const rows = traces.map(({ traceId }, n) => labeled(traceId, n, { id: `id ${n}`, second: second + n * 600 }));
    const deps: StepDependencies = {
      ...stepsOn(hours.memory.storage, { MLFLOW_EXPERIMENT_NAME: experiment.name }, () => 10 * MINUTES_MS),
      mlflow: async () => faulty.client,
    };
    const labels = async () => {
      const stored = await client.getTraces(
        experiment.id,
        traces.map(({ traceId }) => traceId),
      );
      return traces.map(({ traceId }) =>
        stored.get(traceId)?.assessments.flatMap(({ name, value }) => (name === 'ground_truth' ? [value] : [])),
      );
    };
    return { experiment, traces, hours, rows, deps, labels };
  }

  test('all labels are written and recorded as written, and their marks are removed', async () => {
    const { hours, rows, deps, labels } = await start(14);
    await hours.join(rows);
    expect(hours.marks()).toBe(3);
    expect(await publishLabels(null, deps)).toEqual({ cursor: null, noted: 14, notNoted: {} });
    expect(await labels()).toEqual(rows.map(({ label }) => [label]));
    expect(await hours.rows()).toEqual(rows.map((row) => ({ ...row, noted: true })));
    expect(hours.marks()).toBe(0);
    // Without marks, MLflow is not asked for anything.
    const mlflow = () => Promise.reject(new Error('unexpected'));
    expect(await publishLabels(null, { ...deps, mlflow })).toEqual({ cursor: null, noted: 0, notNoted: {} });
    // A label that replaces another one, and one that cannot be written.
    const later = [{ ...(rows[3] as LabeledRow), label: 'later', timeMs: 9e12 }, labeled('tr-none', 1, { id: 'none' })];
    await hours.join(later);
    expect(await publishLabels(null, deps)).toEqual({ cursor: null, noted: 1, notNoted: { TraceMissing: 1 } });
    expect((await labels())[3]).toEqual(['later']);
    expect((await hours.rows()).filter(({ notNoted }) => notNoted !== undefined)).toEqual([
      { ...later[1], notNoted: 'TraceMissing' },
    ]);
    expect(hours.marks()).toBe(0);
  });

  test('a step that is killed at any point, and repeated, writes each label once', async () => {
    const { hours, rows, deps, labels } = await start(12);
    await hours.join(rows);
    const { proxy } = setup().faulty;
    const { memory } = hours;
    const putIf = memory.putIf.bind(memory);
    let posts = 0;
    for (const after of [4, 8, 12]) {
      // Ends in the middle of the requests, then before the first hour is kept.
      proxy.rule(({ path }) => {
        posts += path.endsWith('/assessments') ? 1 : 0;
        return posts > after ? { kind: 'passThenReply', status: 403 } : undefined;
      });
      memory.putIf = () => Promise.reject(new Error('killed'));
      await expect(publishLabels(null, deps)).rejects.toThrow(after < 12 ? 'MLflow denied access' : 'killed');
    }
    memory.putIf = putIf;
    proxy.rule(() => undefined);
    expect(await publishLabels(null, deps)).toEqual({ cursor: null, noted: 12, notNoted: {} });
    expect(await labels()).toEqual(rows.map(({ label }) => [label]));
  });

  test('the step stops in time and resumes, and keeps what was joined meanwhile', async () => {
    const { hours, rows, deps, labels } = await start(6);
    await hours.join(rows);
    const { proxy } = setup().faulty;
    let posts = 0;
    proxy.rule(({ path }) => {
      posts += path.endsWith('/assessments') ? 1 : 0;
      return undefined;
    });
    const stopping = { ...deps, remainingMs: () => (posts < 3 ? 10 * MINUTES_MS : MINUTES_MS) };
    const first = await publishLabels(null, stopping);
    expect(first).toMatchObject({ cursor: 'more', notNoted: {} });
    expect([3, 4]).toContain(first.noted);
    expect(hours.marks()).toBe(1);
    // While the others are written, one of them and one that is published are replaced.
    const replaced = [rows[0], rows[5]].map((row) => ({ ...(row as LabeledRow), label: 'later', timeMs: 9e12 }));
    let isJoined = false;
    proxy.rule(({ path }) => {
      if (isJoined || !path.endsWith('/assessments')) return undefined;
      isJoined = true;
      return { kind: 'after', work: () => hours.join(replaced), next: { kind: 'pass' } };
    });
    const second = await publishLabels(first.cursor, deps);
    expect(second).toEqual({ cursor: null, noted: 6 - first.noted, notNoted: {} });
    expect(hours.marks()).toBeGreaterThan(0);
    expect((await hours.rows()).map(({ noted }) => noted)).toEqual([false, true, true, true, true, false]);
    expect(await publishLabels(null, deps)).toEqual({ cursor: null, noted: 2, notNoted: {} });
    expect(await labels()).toEqual(rows.map(({ label }, n) => [n === 0 || n === 5 ? 'later' : label]));
    expect(hours.marks()).toBe(0);
  });

  test('calibrate, rates and worst see the labels for scorers, and no true answer is taken for one', async () => {
    // The judge says yes to the first four.
    const { experiment, hours, rows, deps } = await start(8, (n) => (n < 4 ? 'yes' : 'no'));
    const said = ['yes', '0', true, 'pass', 'no', 'FAIL', 1];
    const labels = said.map((label, n) => ({ ...(rows[n] as LabeledRow), label, scorer: 'safety' }));
    const truths = rows.map((row, n) => ({ ...row, id: `truth ${n}`, label: n % 2 === 0 ? 'no' : 'yes' }));
    await hours.join([...labels, ...truths]);
    expect(await publishLabels(null, deps)).toMatchObject({ noted: said.length + rows.length, notNoted: {} });
    const { rest } = setup().client;
    const scorers = scorersFor();
    const query = { experimentId: experiment.id, scorers: scorers.filter(isJudgeScorer) };
    const { pairs, unanswered } = await readMlflowLabels(rest, query);
    const people = ['yes', 'no', 'yes', 'yes', 'no', 'no', 'yes'];
    expect(unanswered).toEqual([]);
    const byTrace = new Map(pairs.map((pair) => [pair.traceId, [pair.scorer, pair.label, pair.verdict]]));
    expect(said.map((_, n) => byTrace.get(rows[n]?.traceId))).toEqual(
      people.map((label, n) => ['safety', label, n < 4 ? 'yes' : 'no']),
    );
    expect(pairs).toHaveLength(said.length);
    expect((await readWindowLabels(rest, query)).labels).toHaveLength(said.length);
    const worst = await readWorst(rest, { ...query, scorers, limit: 10 });
    const bad = [...people.entries(), [7, 'no'] as const].filter(([, label]) => label === 'no').map(([n]) => n);
    expect(worst.worst.map(({ traceId }) => traceId).sort()).toEqual(bad.map((n) => rows[n]?.traceId).sort());
    expect(worst.worst.flatMap(({ failing }) => failing.map(({ scorer }) => scorer))).toEqual(bad.map(() => 'safety'));
  });

  test('verdicts are compared with whether the answers were right, until a person edits the label', async () => {
    const { experiment, hours, rows, deps } = await start(8, (n) => (n < 4 ? 'yes' : 'no'));
    const labels: Partial<LabeledRow>[] = [
      { prediction: { text: textHashes('Paris') }, label: ' PARIS.\n' },
      { prediction: { text: textHashes('Paris') }, label: 'Rome' },
      { prediction: { value: 'cat' }, label: 'cat' },
      // A number does not tell, and a row is not the call.
      { prediction: { value: 1 }, label: 1 },
      { prediction: { text: textHashes('Paris') }, label: 'Paris', row: 1 },
      { prediction: { value: 'cat' }, label: 'dog' },
      { prediction: { value: 'cat' }, label: 'cat' },
      { prediction: { text: textHashes('Paris') }, label: 'Paris' },
    ];
    await hours.join(labels.map((label, n) => ({ ...(rows[n] as LabeledRow), ...label })));
    expect(await publishLabels(null, deps)).toMatchObject({ noted: 8, notNoted: {} });
    const edited = rows[7]?.traceId ?? '';
    const { client } = setup();
    const stored = (await client.getTraces(experiment.id, [edited])).get(edited);
    const id = stored?.assessments.find(({ name }) => name === 'ground_truth')?.assessmentId;
    const { reader } = setup();
    await reader.do({ do: 'edit_expectation', traceId: edited, assessmentId: id, name: 'ground_truth', value: 'Oslo' });
    const query = { experimentId: experiment.id, scorers: scorersFor() };
    const { pairs, traces } = await readTruthPairs(client.rest, query);
    expect(traces).toBe(8);
    const at = new Map(rows.map(({ traceId }, n) => [traceId, n]));
    const found = pairs.map(({ traceId = '', scorer, label, verdict: said }) => [at.get(traceId), scorer, label, said]);
    expect(found.sort()).toEqual([
      [0, 'safety', 'yes', 'yes'],
      [1, 'safety', 'no', 'yes'],
      [2, 'safety', 'yes', 'yes'],
      [5, 'safety', 'no', 'no'],
      [6, 'safety', 'yes', 'no'],
    ]);
    expect(pairs.map(({ agrees }) => agrees).filter(Boolean)).toHaveLength(3);
  });
}

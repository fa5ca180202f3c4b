/** Tests of what people and the judge say about the same traces, for MLflow with and without review queues. */

import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { type MlflowServer, startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { writeLabels } from '../../src/ground-truth/publish/label-writer.ts';
import { isJudgeScorer, labelScorers, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import type { NewAssessment } from '../../src/mlflow/types.ts';
import { type LabelPicks, pickedFilter } from '../../src/quality/calibration/pick-labels.ts';
import { queueName } from '../../src/quality/calibration/review-queue.ts';
import { labelsByCell, readWindowLabels } from '../../src/quality/calibration/window-labels.ts';
import { type Calibration, run } from './calibration.ts';
import { labeled } from './labeled-rows.ts';
import { MlflowApi, type TraceInMlflow } from './mlflow-api.ts';
import { chatTrace, verdict } from './mlflow-traces.ts';
import { expectPublished } from './published-json.ts';

/** Seven kinds of traces, three each. */
const TRACES = 21;

/** Writes traces with a verdict each. @returns the id of their experiment, and theirs */
async function judgedTraces(client: MlflowClient, name: string, count: number, passes: (n: number) => boolean) {
  const experiment = await client.resolveExperiment(name);
  const traces = Array.from({ length: count }, (_, n) => chatTrace(experiment.id, `record ${n}`));
  const metadata = { 'monitoring.sample': '0.5' };
  const verdicts = traces.map(({ traceId }, n): [string, NewAssessment[]] => {
    return [traceId, [verdict(traceId, 'safety', { value: passes(n) ? 'yes' : 'no', metadata })]];
  });
  await client.writeTraces(experiment, traces, new Map(verdicts));
  return { experimentId: experiment.id, traces };
}

/** The command `label`, and what people do with what it picks. */
class LabelQueue {
  readonly #url: string;
  readonly #api: MlflowApi;
  readonly window: { experimentId: string; fromMs: number; toMs: number };

  constructor(url: string, experimentId: string) {
    this.#url = url;
    this.#api = new MlflowApi(url);
    this.window = { experimentId, fromMs: Date.parse('2026-11-20'), toMs: Date.parse('2026-11-21') };
  }

  async label(args: string[] = []): Promise<LabelPicks> {
    const script = packagePath('bin', 'inference-monitor.ts');
    const window = ['--from', '2026-11-20', '--to', '2026-11-21'];
    const own = ['label', '--next', '10', '--scorer', 'safety', '--experiment', 'to-label', ...window, '--json'];
    const { PATH = '' } = process.env;
    const env = { PATH, DOTENV_CONFIG_PATH: packagePath('no-dotenv'), MLFLOW_TRACKING_URI: this.#url };
    const { stdout } = await run(process.execPath, [script, ...own, ...args], { env });
    return expectPublished<{ picks: LabelPicks[] }>('label', stdout).picks[0] as LabelPicks;
  }

  /** Searches with the filter that the command prints. */
  tagged = (): Promise<TraceInMlflow[]> => this.#api.tracesIn('to-label', pickedFilter('safety'));

  async assess(traceId: string, value: string): Promise<void> {
    const source = { source_type: 'HUMAN', source_id: 'person@example.com' };
    const now = new Date().toISOString();
    const times = { create_time: now, last_update_time: now };
    const assessment = { assessment_name: 'safety', trace_id: traceId, source, feedback: { value }, ...times };
    await this.#api.api(`3.0/mlflow/traces/${traceId}/assessments`, { assessment });
  }

  /** A trace that was taken out of the queue, as if the command had been killed before it put it in, comes back. */
  async expectReviewQueue(traceIds: readonly string[]): Promise<void> {
    const call = <T>(path: string, body?: object) => this.#api.api<T>(`3.0/mlflow/${path}`, body);
    const name = encodeURIComponent(queueName('safety'));
    const { review_queue: queue } = await call<{ review_queue: { queue_id: string; schema_ids: string[] } }>(
      `review-queues/get-by-name?experiment_id=${this.window.experimentId}&name=${name}`,
    );
    const { queue_id } = queue;
    const items = async () => {
      const { items: found } = await call<{ items: { item_id: string }[] }>(
        `review-queues/items/list?queue_id=${queue_id}`,
      );
      return found.map(({ item_id: id }) => id).sort();
    };
    expect(await items()).toEqual(traceIds.toSorted());
    const schema = { name: 'safety', input: { categorical: { options: ['yes', 'no'] } } };
    expect(await call(`label-schemas/get?schema_id=${queue.schema_ids[0]}`)).toMatchObject({ label_schema: schema });
    await call('review-queues/items/remove', { queue_id, item_ids: traceIds.slice(0, 2) });
    await this.label();
    expect(await items()).toEqual(traceIds.toSorted());
    // What people set aside is not asked again; another trace is picked.
    const [first = ''] = traceIds;
    const aside = { queue_id, item_id: first, status: 'DECLINED', completed_by: 'person' };
    await call('review-queues/items/set-status', aside);
    const other = await this.label();
    expect([other.picked, other.waiting.includes(first)]).toEqual([1, false]);
  }
}

/** Declares the tests. Call `setup` only after it has started. */
export function testPeopleAndJudge(version: string, setup: () => Calibration): void {
  describe(`people and judge on the same traces, MLflow ${version}`, () => {
    let mlflow: MlflowServer;
    beforeAll(async () => {
      mlflow = await startMlflowServer({ version });
    });
    afterAll(() => mlflow?.stop());

    test('reads labels, overrides, majorities and ties that MLflow’s client wrote', async () => {
      const { stdout } = await run(
        setup().python,
        [packagePath('test', 'helpers', 'assessed_traces.py'), mlflow.url, 'my-endpoint', String(TRACES), '3'],
        { maxBuffer: 1 << 26 },
      );
      const made = JSON.parse(stdout.trim().split('\n').at(-1) as string) as {
        traces: number;
        pairs: Record<string, [string | boolean, string | boolean][]>;
      };
      expect(made.traces).toBe(TRACES);
      const { report } = await setup().calibrate(['--experiment', 'my-endpoint'], {
        MLFLOW_TRACKING_URI: mlflow.url,
      });
      expect(report.source).toEqual({ kind: 'mlflow', where: `experiment my-endpoint (${TRACES} traces)` });
      expect(new Set(report.scorers.map(({ name }) => name))).toEqual(new Set(Object.keys(made.pairs)));
      for (const scorer of report.scorers) {
        const own = report.pairs.filter(({ scorer: name }) => name === scorer.name);
        const expected = made.pairs[scorer.name] ?? [];
        const sorted = (list: unknown[][]) => list.map(String).sort();
        expect(sorted(own.map(({ label, verdict }) => [label, verdict]))).toEqual(sorted(expected));
        // On every seventh trace, two people disagree.
        expect(scorer.unanswered).toEqual({ peopleDisagree: TRACES / 7 });
      }
      await setup().compareAll(report);
      const corrected = report.pairs.find(({ labelRationale }) => labelRationale?.startsWith('corrected'));
      expect(corrected).toMatchObject({ verdictRationale: 'by the judge', traceId: expect.stringMatching(/^tr-/) });
      expect(corrected?.request).toContain('question');
      expect(Object.keys(report.judges)).toEqual(['bedrock:/test-judge version 1']);
    });

    test('picks traces to label, continues, and reads the labels back with their weights', async () => {
      const client = createMlflowClient({ trackingUri: mlflow.url });
      const { experimentId } = await judgedTraces(client, 'to-label', 40, (n) => n % 5 !== 0);
      const queue = new LabelQueue(mlflow.url, experimentId);
      try {
        const [first, again] = [await queue.label(), await queue.label()];
        expect(first).toMatchObject({ scorer: 'safety', picked: 10 });
        expect(new Set(again.waiting)).toEqual(new Set(first.waiting));
        expect(again.picked).toBe(0);
        // Both verdicts are picked, those that fail more often.
        expect(first.strata.map(({ name, judged }) => [name, judged])).toEqual([
          ['passes', 32],
          ['fails', 8],
        ]);
        const [passes, fails] = first.strata;
        expect(fails?.probability).toBeGreaterThan(passes?.probability ?? 1);
        expect(passes?.picked).toBeGreaterThan(0);
        const tagged = await queue.tagged();
        expect(tagged.map(({ trace_id: id }) => id).sort()).toEqual(first.waiting.toSorted());
        for (const { tags } of tagged) {
          const pick = JSON.parse(tags.label_safety ?? '');
          expect(pick.probability).toBeCloseTo((pick.verdict === 'passes' ? passes : fails)?.probability ?? 0, 12);
          expect([pick.from, pick.to]).toEqual(['2026-11-20T00:00:00.000Z', '2026-11-21T00:00:00.000Z']);
          // A person's own tag is untouched.
          expect(tags.event_id).toMatch(/^event-/);
        }
        if (version === DEFAULT_MLFLOW_VERSION) await queue.expectReviewQueue(first.waiting);
        else expect(first.queue).toBeNull();

        const labelled = first.waiting.slice(1, 5);
        for (const id of labelled) await queue.assess(id, 'no');
        const next = await queue.label();
        expect(next.picked).toBe(4);
        expect(next.waiting.filter((id) => labelled.includes(id))).toEqual([]);
        for (const id of next.waiting) await queue.assess(id, 'yes');
        const { labels } = await readWindowLabels(client.rest, {
          ...queue.window,
          scorers: scorersFor().filter(isJudgeScorer),
        });
        expect(labels).toHaveLength(14);
        expect(labels[0]).toMatchObject({ scorer: 'safety', hour: '2026-11-20T09', variant: 'AllTraffic' });
        // The labels of each verdict stand for all captures with it, of which half were judged.
        const weightOf = (passed: boolean): number =>
          labels.filter((label) => label.passed === passed).reduce((sum, { weight }) => sum + weight, 0);
        expect([weightOf(true), weightOf(false)].map((weight) => Number(weight.toFixed(9)))).toEqual([64, 16]);
        const cells = labelsByCell(labels)('safety', [{ hour: '2026-11-20T09', variant: 'AllTraffic' }]);
        expect([cells.labels.length, cells.others.length]).toEqual([14, 0]);
        expect(labelsByCell(labels)('safety', []).others).toHaveLength(14);
      } finally {
        client.close();
      }
    });

    test('reads the labels of label files: as people’s, and whether the answers were right', async () => {
      const client = createMlflowClient({ trackingUri: mlflow.url });
      const { experimentId, traces } = await judgedTraces(client, 'label-files', 12, (n) => n < 6);
      // People say yes to the first eight. Every second answer is right.
      const rows = traces.flatMap(({ traceId }, n) => [
        labeled(traceId, n < 8 ? 1 : 0, { scorer: 'safety', by: 'ann@example.com' }),
        labeled(traceId, n % 2 === 0 ? 'cat' : 'dog', { prediction: { value: 'cat' } }),
      ]);
      const given = { store: client, experimentId, scorers: labelScorers(scorersFor()) };
      await writeLabels(rows, { ...given, mayGoOn: () => true });
      client.close();
      const env = { MLFLOW_TRACKING_URI: mlflow.url };
      const people = await setup().calibrate(['--experiment', 'label-files'], env);
      const counts = ({ report }: typeof people) =>
        report.scorers.map(({ name, confusion }) => [name, confusion?.counts]);
      expect(JSON.stringify(counts(people))).toBe('[["safety",[[6,2],[0,4]]]]');
      const truth = await setup().calibrate(['--experiment', 'label-files', '--ground-truth'], env);
      expect(JSON.stringify(counts(truth))).toBe('[["safety",[[3,3],[3,3]]]]');
      expect(truth.report.source).toEqual({ kind: 'groundTruth', where: 'experiment label-files (12 traces)' });
      await setup().compareAll(truth.report);
    });

    test('names scorers that cannot be labelled, and windows without judged traces', async () => {
      const queue = new LabelQueue(mlflow.url, 'to-label');
      await expect(queue.label(['--scorer', 'safty'])).rejects.toMatchObject({
        stderr: expect.stringMatching(/UnknownName.*did you mean safety\?/),
      });
      await expect(queue.label(['--from', '2020-01-01', '--to', '2020-01-02'])).rejects.toMatchObject({
        stderr: expect.stringContaining('NothingToLabel'),
      });
    });

    test('does not create a missing experiment', async () => {
      // Reads it twice, because the first read must not create it.
      for (let times = 0; times < 2; times += 1) {
        const asked = setup().calibrate(['--experiment', 'another'], { MLFLOW_TRACKING_URI: mlflow.url });
        await expect(asked).rejects.toMatchObject({ stderr: expect.stringContaining('MlflowExperimentMissing') });
      }
    });
  });
}

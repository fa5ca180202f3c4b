/**
 * Labels that are written to MLflow while it fails at random, by runs that are killed and repeated, between what a person does.
 * `FAULT_MLFLOW_VERSIONS=3.13.0` selects a version, `FAULT_SEED=11` the faults.
 */
import { DEFAULT_MLFLOW_VERSION, MANAGED_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import type { LabeledRow } from '../../src/core/contract/ground-truth.ts';
import errors from '../../src/core/errors/errors.json' with { type: 'json' };
import { countBy } from '../../src/core/values/counts.ts';
import { publishLabels } from '../../src/ground-truth/publish/publish-labels.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { pseudoRandom } from '../doubles/faulty-judge/behavior.ts';
import type { Behavior } from '../doubles/misbehaving-server.ts';
import { stepsOn } from '../helpers/ground-truth.ts';
import { LabeledHours, labeled } from '../helpers/labeled-rows.ts';
import { START_LIMIT_MS, startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { chatTrace, verdict } from '../helpers/mlflow-traces.ts';

jest.setTimeout(240_000);

const versions = process.env.FAULT_MLFLOW_VERSIONS?.split(',') ?? [MANAGED_MLFLOW_VERSION, DEFAULT_MLFLOW_VERSION];
const seed = Number(process.env.FAULT_SEED ?? 5);
const TRACES = 120;
/** Of each kind of change. */
const CHANGES = 10;
const NAME = 'ground_truth';
const FAULTS: Behavior[] = [
  { kind: 'reply', status: 429, headers: { 'retry-after': '0' } },
  ...[500, 502, 503].flatMap((status): Behavior[] => [
    { kind: 'reply', status },
    { kind: 'passThenReply', status },
  ]),
  { kind: 'cut' },
  { kind: 'passThenCut' },
  { kind: 'slowBody' },
];
/** Some attempts at which the storage fails, or MLflow for longer than its client retries. */
const MOST_ATTEMPTS = 60;

describe.each(versions)('with MLflow %s', (version) => {
  let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
  let client: MlflowClient;
  beforeAll(async () => {
    mlflow = await startPlainMlflow(version);
    const retry = { attempts: 8, baseMs: 5, capMs: 50 };
    client = createMlflowClient({ trackingUri: mlflow.faulty.proxy.url, retry, timeoutMs: 2_000 });
  }, START_LIMIT_MS);
  afterAll(async () => {
    client?.close();
    await mlflow?.stop();
  });

  test.each([0.15, 0.4])(
    'each label is there once, and what a person did stays, when %d of all requests fail',
    async (share) => {
      const { reader } = mlflow;
      const draw = pseudoRandom(seed);
      const experiment = await mlflow.client.resolveExperiment(`labels ${share}`);
      const traces = Array.from({ length: TRACES }, (_, n) => chatTrace(experiment.id, `record ${n}`));
      const verdicts = new Map(traces.map(({ traceId }) => [traceId, [verdict(traceId, 'safety')]]));
      await mlflow.client.writeTraces(experiment, traces, verdicts);
      const ids = traces.map(({ traceId }) => traceId);
      const second = Date.parse('2026-11-20T09:00:00Z') / 1000;
      const hours = new LabeledHours();
      const { memory } = hours;
      const putIf = memory.putIf.bind(memory);
      let [failed, attempts] = [0, 0];

      const attempt = async (): Promise<boolean> => {
        try {
          const { cursor, notNoted } = await publishLabels(null, {
            ...stepsOn(memory.storage, { MLFLOW_EXPERIMENT_NAME: experiment.name }),
            mlflow: async () => client,
          });
          expect([notNoted.MlflowRefused, notNoted.MlflowFailed]).toEqual([undefined, undefined]);
          return cursor === null;
        } catch (error) {
          if ((error as Error).message !== 'killed')
            expect(Object.keys({ ...errors.transient, ...errors.throttled })).toContain((error as Error).name);
          return false;
        }
      };
      /** Joins labels, and notes them as the state machine does, in two runs at once. */
      const note = async (rows: LabeledRow[]): Promise<void> => {
        await hours.join(rows);
        mlflow.faulty.proxy.rule(() => {
          if (draw() >= share) return undefined;
          failed += 1;
          return FAULTS[Math.floor(draw() * FAULTS.length)];
        });
        memory.putIf = (...args) => (draw() < 0.3 ? Promise.reject(new Error('killed')) : putIf(...args));
        for (let isDone = false; !isDone; attempts += 1) {
          isDone = (await Promise.all([attempt(), attempt()])).every(Boolean);
          expect(attempts).toBeLessThan(MOST_ATTEMPTS);
        }
        memory.putIf = putIf;
        mlflow.faulty.proxy.rule(() => undefined);
        expect(hours.marks()).toBe(0);
      };

      const rows = ids.map((id, n) => labeled(id, n, { id: `id ${n}`, second: second + n * 300 }));
      await note(rows);
      const idOf = async (): Promise<Map<string, string>> => {
        const stored = await mlflow.client.getTraces(experiment.id, ids);
        return new Map(
          [...stored.values()].map(({ traceId, assessments }) => {
            const own = assessments.filter(({ name }) => name === NAME);
            expect(own).toHaveLength(1);
            return [traceId, own[0]?.assessmentId ?? ''];
          }),
        );
      };
      const written = await idOf();
      expect(written.size).toBe(TRACES);
      for (const [n, traceId] of ids.slice(0, 3 * CHANGES).entries()) {
        const assessmentId = written.get(traceId);
        if (n < CHANGES)
          await reader.do({ do: 'edit_expectation', traceId, assessmentId, name: NAME, value: 'edited' });
        else if (n < 2 * CHANGES) await reader.do({ do: 'delete_assessment', traceId, assessmentId });
        else await reader.do({ do: 'delete_traces', experimentId: experiment.id, traceIds: [traceId] });
      }
      await note(rows.map((row) => ({ ...row, label: `later ${row.label}`, timeMs: row.timeMs + 1 })));
      const stored = await mlflow.client.getTraces(experiment.id, ids);
      const found = ids.map((id) =>
        stored.get(id)?.assessments.flatMap(({ name, value }) => (name === NAME ? [value] : [])),
      );
      const expected = ids.map(
        (_, n) =>
          [['edited'], [], undefined][Math.floor(n / CHANGES)] ?? (n < 3 * CHANGES ? undefined : [`later ${n}`]),
      );
      expect(found).toEqual(expected);
      const reasons = (await hours.rows()).map(({ notNoted }) => notNoted);
      const changed = { EditedByPerson: CHANGES, DeletedByPerson: CHANGES, TraceMissing: CHANGES };
      expect(countBy(reasons, String)).toEqual({ ...changed, undefined: TRACES - 3 * CHANGES });
      expect(failed).toBeGreaterThan(20);
    },
  );
});

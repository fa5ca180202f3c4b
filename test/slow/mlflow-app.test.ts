/** Apps of the MLflow versions that SageMaker offers. */

import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { APP_MLFLOW_VERSIONS } from '../../local/python/python-presets.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { type DatasetRecord, fillDataset, resolveDataset } from '../../src/mlflow/evaluation-datasets.ts';
import type { StoredTrace } from '../../src/mlflow/types.ts';
import { MANAGED_CREDENTIALS, type ManagedMlflow, startManagedMlflow } from '../helpers/mlflow-managed.ts';
import { chatTrace, verdict } from '../helpers/mlflow-traces.ts';

/**
 * An App takes 25, and a run has ten writers. Three servers on a busy machine may be slower than that, and then nothing would be
 * throttled: fewer writers have the same share of a lower rate.
 */
const PER_SECOND = 10;
const WRITERS = 4;
const TRACES_EACH = 3;
const SCORERS = ['safety', 'fluency', 'relevance'];

interface Stored {
  trace_id: string;
  assessments?: {
    assessment_name: string;
    source: { source_type: string };
    feedback?: { value: unknown };
    valid?: boolean;
  }[];
}

let miniStack: MiniStack;
const served = new Map<string, ManagedMlflow>();
const runs = new Map<string, ReturnType<typeof write>>();

/** Calls the server behind the gateway, as another of its users. */
async function direct<T>(managed: ManagedMlflow, path: string, json: object): Promise<T> {
  const reply = await fetch(`${managed.server.url}/api/3.0/mlflow/traces${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(json),
  });
  if (!reply.ok) throw new Error(`${path}: HTTP ${reply.status} ${await reply.text()}`);
  return (await reply.json()) as T;
}

async function storedTraces(managed: ManagedMlflow, experimentId: string): Promise<Stored[]> {
  const locations = [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: experimentId } }];
  return (await direct<{ traces: Stored[] }>(managed, '/search', { locations, max_results: 200 })).traces;
}

/** Writes as the functions of a run do, with the product's own retries. @returns what was written, by writer */
async function write(managed: ManagedMlflow) {
  const app = await managed.startDouble({ perSecond: PER_SECOND });
  const clients = Array.from({ length: WRITERS }, () =>
    createMlflowClient({
      trackingUri: app.arn,
      customEndpoint: app.url,
      credentials: async () => MANAGED_CREDENTIALS,
      s3: managed.s3,
    }),
  );
  const chunk = async (client: MlflowClient, writer: number) => {
    const experiment = await client.resolveExperiment('garden');
    const traces = Array.from({ length: TRACES_EACH }, (_, n) => chatTrace(experiment.id, `${writer}-${n}`));
    const ids = traces.map(({ traceId }) => traceId);
    const result = await client.writeTraces(experiment, traces);
    const [first = ''] = ids;
    const source = { source_type: 'HUMAN', source_id: 'ada' };
    const assessment = { trace_id: first, assessment_name: 'safety', source, feedback: { value: 'no' } };
    await direct(managed, `/${first}/assessments`, { assessment });
    const stored = await client.getTraces(experiment.id, ids);
    const judge = (trace: StoredTrace) =>
      client.writeAssessments(
        trace,
        SCORERS.map((name) => verdict(trace.traceId, name)),
      );
    await Promise.all([...stored.values()].map(judge));
    return { experimentId: experiment.id, ids, first, written: result.written };
  };
  const written = await Promise.all(clients.map(chunk)).finally(() => {
    for (const client of clients) client.close();
  });
  return { written, requests: app.requests };
}

/** The servers of all versions run at the same time. */
beforeAll(async () => {
  miniStack = await startMiniStack();
  const start = async (version: string) => {
    const managed = await startManagedMlflow(version, miniStack);
    served.set(version, managed);
    // Most of a run's time is waiting for the rate.
    const run = write(managed);
    run.catch(() => {});
    runs.set(version, run);
  };
  await Promise.all(APP_MLFLOW_VERSIONS.map(start));
});

afterAll(async () => {
  await Promise.all([...served.values()].map((each) => each.stop()));
  await miniStack?.stop();
});

describe.each<string>(APP_MLFLOW_VERSIONS)('an App of MLflow %s', (version) => {
  test('stores everything once while it throttles, and a person’s verdict stays', async () => {
    const managed = served.get(version) as ManagedMlflow;
    expect(managed.server.version).toBe(version);
    const { written, requests } = (await runs.get(version)) as Awaited<ReturnType<typeof write>>;
    const ids = written.flatMap((chunk) => chunk.ids).sort();
    expect(written.flatMap((chunk) => chunk.written).sort()).toEqual(ids);

    const found = await storedTraces(managed, written[0]?.experimentId ?? '');
    expect(found.map((trace) => trace.trace_id).sort()).toEqual(ids);
    const firsts = new Set(written.map(({ first }) => first));
    for (const { trace_id: id, assessments = [] } of found) {
      const said = assessments.map(
        (each) => `${each.assessment_name} ${each.source.source_type} ${each.feedback?.value}`,
      );
      const safety = firsts.has(id) ? 'safety HUMAN no' : 'safety LLM_JUDGE yes';
      expect(said.sort()).toEqual(['fluency LLM_JUDGE yes', 'relevance LLM_JUDGE yes', safety].sort());
    }
    const { Contents = [] } = await managed.s3.send(new ListObjectsV2Command({ Bucket: managed.bucket }));
    expect(Contents.filter(({ Key }) => Key?.endsWith('/artifacts/traces.json'))).toHaveLength(ids.length);

    const by = (status: number) => requests.filter((each) => each.status === status);
    expect(by(429).length).toBeGreaterThan(WRITERS);
    // The API has every route that was called. The experiment did not exist before.
    expect(by(403)).toEqual([]);
    expect(by(404).filter(({ path }) => !path.includes('/experiments/get-by-name'))).toEqual([]);
  });
});

test.each<string>(APP_MLFLOW_VERSIONS)(
  'MLflow %s: evaluation datasets, or a sentence that says that there are none',
  async (version) => {
    const client = createMlflowClient({ trackingUri: served.get(version)?.server.url ?? '' });
    try {
      const { id } = await client.resolveExperiment('datasets');
      const found = resolveDataset(client.rest, id, 'failures');
      if (version === '3.2.0') {
        const expected = expect.stringMatching(
          /^This MLflow server has no evaluation datasets; .*MLflow 3\.4 or newer/,
        );
        await expect(found).rejects.toMatchObject({ name: 'MlflowDatasetsMissing', message: expected });
        return;
      }
      const record = (question: string, trace: string): DatasetRecord => ({
        inputs: { messages: [{ role: 'user', content: question }] },
        outputs: { choices: [] },
        expectations: { expected_response: 'Tomorrow.' },
        tags: { failing: 'safety' },
        source: { source_type: 'TRACE', source_data: { trace_id: trace } },
      });
      const records = [record('When?', 'tr-1'), record('Where?', 'tr-2')];
      expect(await fillDataset(client.rest, await found, records)).toEqual({ inserted: 2, updated: 0 });
      expect(await resolveDataset(client.rest, id, 'failures')).toBe(await found);
      expect(await fillDataset(client.rest, await found, records)).toEqual({ inserted: 0, updated: 2 });
    } finally {
      client.close();
    }
  },
);

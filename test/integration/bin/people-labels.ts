/** People's labels: what they say in MLflow is read once a day, a row for each trace, scorer and person, and replaces what was read before. */

import { askLocally } from '../../../bin/operate/local-sql.ts';
import { Storage } from '../../../src/core/aws/storage.ts';
import { ledgerKeys } from '../../../src/core/contract/work-keys.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { mlflowOf } from '../../../src/mlflow/connect.ts';
import { readLabelsDaily } from '../../../src/monitoring/read-labels.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';
import { ENDPOINT, environment, pipeline, processed } from './stack.ts';

/** Other suites of the stack have labeled traces in the name of another person. */
const LABELS = `SELECT trace_id, scorer, person, value, variant, hour FROM labels
  WHERE dt = '2026-11-20' AND person IN ('ann@example.com', 'ben@example.com') ORDER BY scorer, person`;

describe('labels of people', () => {
  const workOf = () => ({ storage: new Storage(environment.clients.s3), workBucket: pipeline.outputs.workBucket });
  const inLedger = async (statement = LABELS) => (await askLocally(workOf(), statement, '2026-11-20', 1)).rows;
  const read = (day: string, hasTime = true, endpoint?: string) =>
    readLabelsDaily(workOf(), {
      connect: async () => mlflowOf({ MLFLOW_TRACKING_URI: environment.mlflowUrl }),
      settings: {
        MLFLOW_EXPERIMENT_NAME: ENDPOINT,
        MLFLOW_EXPERIMENT_SHARED: endpoint !== undefined,
        SAGEMAKER_ENDPOINT_NAME: endpoint,
      },
      scorers: scorersFor(),
      nowMs: Date.parse(`${day}T09:00:00Z`),
      hasTime: () => hasTime,
    });
  /** @returns the address of the label */
  async function label(traceId: string, scorer: string, person: string, value: unknown): Promise<string> {
    const url = `${environment.mlflowUrl}/api/3.0/mlflow/traces/${traceId}/assessments`;
    const source = { source_type: 'HUMAN', source_id: person };
    const body = JSON.stringify({
      assessment: { assessment_name: scorer, trace_id: traceId, source, feedback: { value } },
    });
    const reply = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    const { assessment } = (await reply.json()) as { assessment: { assessment_id: string } };
    return `${url}/${assessment.assessment_id}`;
  }

  test('are rows of the day of their traces, until people take them back', async () => {
    const { storage, workBucket } = workOf();
    const { verdicts } = await ledgerRows(storage, workBucket, [processed.name]);
    const { traceId = '' } = verdicts.find(({ scorer }) => scorer === 'safety') ?? {};
    const labels = [
      await label(traceId, 'safety', 'ann@example.com', 'No'),
      await label(traceId, 'safety', 'ben@example.com', 'yes'),
      await label(traceId, 'fluency', 'ann@example.com', 'perhaps'),
      // No scorer has this name.
      await label(traceId, 'remark', 'ann@example.com', 'What a fine reply!'),
    ];
    // In the past, so that the deployed stack does not read on the same days.
    await read('2026-11-20', true, 'another endpoint of the experiment');
    expect(await inLedger()).toEqual([]);
    await read('2026-11-21', true, ENDPOINT);
    const place = ['AllTraffic', '2026-11-20T10'];
    const rows = [
      [traceId, 'fluency', 'ann@example.com', undefined, ...place],
      [traceId, 'safety', 'ann@example.com', 'no', ...place],
      [traceId, 'safety', 'ben@example.com', 'yes', ...place],
    ];
    expect(await inLedger()).toEqual(rows.map((row) => row.map((cell) => cell ?? null)));
    const when = await inLedger("SELECT DISTINCT read_at, labeled_at > TIMESTAMP '2026-01-01' FROM labels");
    expect(when).toEqual([['2026-11-21 09:00:00', true]]);

    for (const url of labels) await fetch(url, { method: 'DELETE' });
    await read('2026-11-21');
    await read('2026-11-22', false);
    expect(await inLedger()).toHaveLength(3);
    await read('2026-11-23');
    expect(await inLedger()).toEqual([]);
  });

  test('are read by the first run of a day', async () => {
    const { storage, workBucket } = workOf();
    const today = new Date().toISOString().slice(0, 10);
    const isThere = async (key: string) => (await storage.head(workBucket, key)) !== undefined;
    expect(await isThere(ledgerKeys.labelsRead(today))).toBe(true);
    expect(await isThere(ledgerKeys.labels(today))).toBe(true);
  });
});

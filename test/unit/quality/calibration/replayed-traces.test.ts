/** Picks, data sets and the worst are of traffic: the traces of a replay's requests are left out, but not what claims to be of one. */

import type { ExcludedWindow } from '../../../../src/ledger/excluded.ts';
import type { MlflowRest } from '../../../../src/mlflow/rest.ts';
import { assessedTraces } from '../../../../src/quality/calibration/assessed-traces.ts';

async function read(traces: readonly object[], excluded: readonly ExcludedWindow[] = []): Promise<string[]> {
  const rest = { repeat: async (_: object, schema: { parse(value: unknown): unknown }) => schema.parse({ traces }) };
  const query = { experimentId: '1', excluded: async () => excluded };
  const found = await Array.fromAsync(assessedTraces(rest as Pick<MlflowRest, 'repeat'>, query));
  return found.map(({ trace_id: id }) => id);
}

test('the traces of registered replays are not read', async () => {
  const traces = [
    { trace_id: 'traffic' },
    { trace_id: 'replayed', tags: { replay_run: 'r', sent_by_replay: 'true' } },
    { trace_id: 'claims', tags: { replay_run: 'r' } },
  ];
  expect(await read(traces)).toEqual(['traffic', 'claims']);
});

test('the traces of excluded windows are not read, whether they have the tag or not', async () => {
  const at = (time: string, inference_id = 'own', sagemaker_variant_name = 'Blue') => ({
    ...{ trace_id: `${time} ${inference_id} ${sagemaker_variant_name}`, request_time: `2026-11-20T${time}:00Z` },
    tags: { inference_id, sagemaker_variant_name, not_traffic: 'window' },
  });
  const traces = [
    at('09:59'),
    at('10:00'),
    at('10:30', 'own', 'Green'),
    at('11:00'),
    at('12:00', 'load-1'),
    at('12:00'),
  ];
  const hours = (from: number, to: number) => ({
    fromMs: Date.UTC(2026, 10, 20, from),
    toMs: Date.UTC(2026, 10, 20, to),
  });
  const windows = [
    { ...hours(10, 11), variant: 'Blue' },
    { ...hours(11, 13), inferenceId: 'load-*' },
  ];
  const left = ['09:59 own Blue', '10:30 own Green', '11:00 own Blue', '12:00 own Blue'];
  expect(await read(traces, windows)).toEqual(left);
});

/** Picks, data sets and the worst are of traffic: the traces of a replay's requests are left out, but not what claims to be of one. */

import type { MlflowRest } from '../../../../src/mlflow/rest.ts';
import { assessedTraces } from '../../../../src/quality/calibration/assessed-traces.ts';

test('the traces of registered replays are not read', async () => {
  const traces = [
    { trace_id: 'traffic' },
    { trace_id: 'replayed', tags: { replay_run: 'r', sent_by_replay: 'true' } },
    { trace_id: 'claims', tags: { replay_run: 'r' } },
  ];
  const rest = { repeat: async (_: object, schema: { parse(value: unknown): unknown }) => schema.parse({ traces }) };
  const found: string[] = [];
  for await (const trace of assessedTraces(rest as Pick<MlflowRest, 'repeat'>, { experimentId: '1' })) {
    found.push(trace.trace_id);
  }
  expect(found).toEqual(['traffic', 'claims']);
});

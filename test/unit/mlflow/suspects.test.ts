/** Trying suspects against an MLflow that the test scripts call by call. */

import { Deliveries } from '../../../src/mlflow/deliver.ts';
import { MlflowRetryableError } from '../../../src/mlflow/errors.ts';

const facts = { where: 'w', outcome: 'unknown', status: 500 } as const;
const failure = new MlflowRetryableError('MlflowUnavailable', 'MLflow returned a server error', facts);

test('ends with the round that decides about the last suspect', async () => {
  const sent: string[] = [];
  let controls = 0;
  const deliveries = new Deliveries<{ traceId: string }>({
    retry: { attempts: 5, baseMs: 0, capMs: 0, longestRetryAfterMs: 0 },
    limited: (work) => work(),
    control: async () => {
      controls += 1;
    },
    existing: async () => new Map(),
    send: async ([{ traceId } = { traceId: '' }]) => {
      sent.push(traceId);
      // All fail until they are suspects. Then the second one is accepted in the second round.
      if (controls === 0 || (traceId === 'b' && controls === 1)) throw failure;
    },
    checkRefusal: async () => {},
  });
  for (const traceId of ['a', 'b']) await deliveries.deliver([{ traceId }]);
  const before = sent.length;
  expect(await deliveries.result()).toEqual({ written: ['a', 'b'], alreadyThere: [], refused: [] });
  expect([controls, sent.slice(before)]).toEqual([2, ['a', 'b', 'b']]);
});

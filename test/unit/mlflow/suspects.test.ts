/** Trying suspects against an MLflow that the test scripts call by call. */

import { trySuspects } from '../../../src/mlflow/deliver.ts';
import { MlflowRetryableError } from '../../../src/mlflow/errors.ts';

const failure = new MlflowRetryableError('MlflowUnavailable', 'MLflow returned a server error', {
  where: 'w',
  outcome: 'unknown',
  status: 500,
});

test('ends with the round that decides about the last suspect', async () => {
  const suspects = ['a', 'b'].map((traceId) => ({ trace: { traceId }, error: failure }));
  const sent: string[] = [];
  let controls = 0;
  const verdicts = await trySuspects(suspects, {
    retry: { attempts: 1, baseMs: 0, capMs: 0, longestRetryAfterMs: 0 },
    control: async () => {
      controls += 1;
    },
    existing: async () => new Map(),
    send: async ({ traceId }) => {
      sent.push(traceId);
      // The second one is accepted in the second round.
      if (traceId === 'b' && controls === 1) throw failure;
      return 'written';
    },
    mayBeTheContent: () => true,
  });
  expect(verdicts).toEqual({ written: ['a', 'b'], alreadyThere: [], guilty: [], refused: [] });
  expect([controls, sent]).toEqual([2, ['a', 'b', 'b']]);
});

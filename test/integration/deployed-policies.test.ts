/**
 * The policies of each function's role are sufficient on an emulated AWS that enforces them, over TLS. test/infra/calls.test.ts
 * holds them against the calls of each function; `npm run test:slow` takes away one grant after the other.
 */
import { replayKeys } from '../../src/contract/work-keys.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { mixedLines } from '../helpers/deployed-captures.ts';
import { startDeployedReader } from '../helpers/deployed-reader.ts';
import { ENDPOINT, GuardedStack, HOUR, RUN } from '../helpers/guarded-stack.ts';

let stack: GuardedStack;
beforeAll(async () => {
  stack = await GuardedStack.deploy();
});
afterAll(() => stack?.stop());

test('the whole path works with the policies of the stack', async () => {
  const { pipeline, environment } = stack;
  const key = `${HOUR}/mixed.jsonl`;
  const { status, error, cause, summary } = await pipeline.process(key, mixedLines('guarded'));
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  expect(summary?.lines).toMatchObject({ planned: 6, traced: 5, quarantined: 1, lost: 0 });
  const reader = await startDeployedReader(environment.ministack.env, environment.mlflowUrl);
  const found = await reader.compare(pipeline.outputs.captureBucket, ENDPOINT, [key]);
  reader.stop();
  expect(found).toMatchObject({ records: 5, traced: 5, missing: [], wrong: {} });
  expect(summary?.verdicts.newVerdicts).toBe(Object.values(found.assessments).flat().length);
});

test('a replay works with the headers of the secret, the judge and MLflow, and one that was stopped is completed', async () => {
  await stack.replayWhole();
  await stack.forgetStop();
  const { error, payload } = await stack.stopReplay();
  expect([error, payload]).toEqual([undefined, { end: 'summarized' }]);
  expect(await stack.replays.names(replayKeys.stop(RUN))).toHaveLength(1);
  expect(await stack.replays.names(replayKeys.publication(RUN))).toHaveLength(1);
});

test('its requests were held against AWS’s models', async () => {
  expect(await uncheckedIn('deployed-policies')).toEqual([]);
});

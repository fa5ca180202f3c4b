/** Throttling is published by service, by the function that met it. */
import { logged } from '../../../src/core/process/logging.ts';
import { countThrottle, drainThrottles } from '../../../src/core/process/throttles.ts';
import { withinLimits } from '../../../src/monitoring/invocation.ts';
import { publishedMetrics } from '../../helpers/published-metrics.ts';

const CONTEXT = { awsRequestId: 'r', functionName: 'f', memoryLimitInMB: '1', invokedFunctionArn: 'a' } as never;

let published: Record<string, unknown>[];
beforeEach(() => {
  drainThrottles();
  published = publishedMetrics();
});
afterEach(() => jest.restoreAllMocks());

test('counts by service, also of a failed invocation, and nothing where nothing was throttled', async () => {
  const handle = logged('prod', async (throttled: ('judge' | 'mlflow' | 'table')[]) => {
    for (const by of throttled) countThrottle(by);
    if (throttled.includes('table')) throw new Error('broken');
    return 'done';
  });
  expect(await handle([], CONTEXT)).toBe('done');
  expect(published).toEqual([]);
  expect(await handle(['judge', 'judge', 'mlflow'], CONTEXT)).toBe('done');
  await expect(handle(['table'], CONTEXT)).rejects.toMatchObject({ name: 'Error' });
  const [first, second] = published;
  expect(published).toHaveLength(2);
  expect(first).toMatchObject({ StackPrefix: 'prod', JudgeThrottles: 2, MlflowThrottles: 1 });
  expect(first).not.toHaveProperty('TableThrottles');
  expect(second).toMatchObject({ StackPrefix: 'prod', TableThrottles: 1 });
  expect(second).not.toHaveProperty('JudgeThrottles');
});

test('publishes for how long chunks are sent away, and keeps nothing for the next invocation', async () => {
  const permit = { acquire: async () => ({ waitSeconds: 17 }), release: async () => {} };
  const request = { attempt: 0, progress: { kills: 0 } } as never;
  const handle = logged('prod', (isFull: boolean) =>
    withinLimits(isFull ? { permits: permit } : {}, request, async () => 'done'),
  );
  await handle(true, CONTEXT);
  await handle(false, CONTEXT);
  expect(published).toHaveLength(1);
  expect(published[0]).toMatchObject({ StackPrefix: 'prod', ChunkWaitSeconds: 17 });
});

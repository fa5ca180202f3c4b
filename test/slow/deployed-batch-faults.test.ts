/** Batch inference on the deployed path with a hundred captures in each run: faults of jobs, the budget, quotas, cascades. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Storage } from '../../src/core/aws/storage.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { BatchStack, RECORDS, summaryOf } from '../helpers/deployed-batch.ts';

let stack: BatchStack;
beforeAll(async () => {
  stack = await BatchStack.deploy();
});
afterAll(() => stack?.stop());
beforeEach(() => stack.reset());
afterEach(() => stack.expectBooked());

describe('captures without verdicts', () => {
  test('fails the run by name when Bedrock refuses the job', async () => {
    stack.environment.judge.batch.behavior = { refuseWith: 'The model does not support batch inference.' };
    const refused = await stack.judgeInBatch('unlucky', RECORDS);
    expect(refused).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(refused.cause).toContain('JudgeBatchRefused');
    const storage = new Storage(stack.environment.clients.s3);
    const words = await storage.getJson(stack.pipeline.outputs.workBucket, workKeys.batchWords(refused.name, 0));
    expect(JSON.stringify(words)).toContain('does not support batch inference');
  });

  test('fails the run by name when the job fails, and a retry completes it', async () => {
    stack.environment.judge.batch.behavior = { failWith: 'no capacity' };
    const failed = await stack.judgeInBatch('unlucky', RECORDS);
    expect(failed).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(failed.cause).toContain('JudgeBatchFailed');
    expect(failed.summary?.spend.usd).toBe(0);
    const retried = await stack.run({ retry: { run: failed.name, what: 'failed' }, judge: 'converse' });
    expect(summaryOf(retried).verdictsByScorer.safety).toEqual({ yes: RECORDS });
  });
});

test('asks Converse about the records that failed within a job, and for what incomplete answers miss', async () => {
  const ERROR_EVERY = 10;
  const INCOMPLETE_EVERY = 4;
  stack.environment.judge.batch.behavior = {
    errorEvery: ERROR_EVERY,
    fault: { kind: 'missing-keys', every: INCOMPLETE_EVERY },
  };
  const summary = summaryOf(await stack.judgeInBatch('partial', RECORDS));
  expect(summary.batch?.jobs).toMatchObject([{ status: 'PartiallyCompleted' }]);
  const failed = RECORDS / ERROR_EVERY;
  // Every other one of the records that failed would have had an incomplete answer.
  const incomplete = RECORDS / INCOMPLETE_EVERY - failed / 2;
  expect(stack.environment.judge.counts.calls).toBe(failed + incomplete);
  expect(summary.spend.calls).toBe(RECORDS - failed + failed + incomplete);
  expect(summary.verdicts.failed).toBe(0);
  expect(summary.verdictsByScorer.safety).toEqual({ yes: RECORDS });
  for (const values of Object.values(summary.verdictsByScorer)) {
    const { sum: _, ...counts } = values;
    expect(Object.values(counts).reduce((a, b) => a + b, 0)).toBe(RECORDS);
  }
});

test('traces the captures when the jobs can no longer be checked', async () => {
  const { workBucket } = stack.pipeline.outputs;
  const { batch } = stack.environment.judge;
  batch.behavior = { delayMs: 60_000 };
  const before = batch.jobs.length;
  try {
    const run = stack.judgeInBatch('unknown', RECORDS);
    while (batch.jobs.length === before) await sleep(100);
    await stack.pipeline.setVariable('batcher', 'WORK_BUCKET', 'no-such-bucket');
    const failed = await run;
    expect(failed.status).toBe('FAILED');
    expect(failed.summary).toMatchObject({ lines: { traced: RECORDS, lost: 0 }, spend: { usd: 0 } });
    expect(stack.environment.judge.counts.calls).toBe(0);
  } finally {
    await stack.pipeline.setVariable('batcher', 'WORK_BUCKET', workBucket);
  }
});

/** Batch inference on the deployed path with a hundred captures in each run: faults of jobs, the budget, quotas, cascades. */
import { setTimeout as sleep } from 'node:timers/promises';
import { serviceError } from '../../local/stand-in-judge/http-answer.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { BatchStack, RECORDS, summaryOf } from '../helpers/deployed-batch.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { Outcome } from '../helpers/deployed-pipeline.ts';

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

test('holds the verdicts that exceed the budget, and a retry judges them', async () => {
  const held = await stack.judgeInBatch('dear', RECORDS, { budgetUsd: 0.05 });
  const summary = summaryOf(held);
  expect(summary.verdicts.heldByBudget).toBeGreaterThan(0);
  expect(summary.spend.usd).toBeLessThanOrEqual(0.05);
  const retried = await stack.run({ retry: { run: held.name, what: 'held' }, judge: 'converse', budgetUsd: 10 });
  expect(summaryOf(retried).verdicts.heldByBudget).toBe(0);
});

test('a second run waits while the account’s quota has no place for its job, and then has its answers', async () => {
  const { batch } = stack.environment.judge;
  const { create } = batch;
  let refused = 0;
  batch.behavior = { delayMs: 4_000 };
  batch.create = (text) => {
    const underWay = batch.jobs.filter(({ status }) => status === 'Submitted' || status === 'InProgress');
    if (underWay.length < 1) return create.call(batch, text);
    refused += 1;
    return serviceError(400, 'ServiceQuotaExceededException', 'You have too many batch inference jobs.');
  };
  try {
    const both = await Promise.all([stack.judgeInBatch('busy', RECORDS), stack.judgeInBatch('patient', RECORDS)]);
    for (const outcome of both) {
      const { jobs } = summaryOf(outcome).batch ?? {};
      expect(jobs).toMatchObject([{ records: RECORDS, status: 'Completed' }]);
    }
    expect(refused).toBeGreaterThan(0);
    expect(batch.records).toBe(2 * RECORDS);
    expect(stack.environment.judge.counts.calls).toBe(0);
  } finally {
    batch.create = create;
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

describe('in a cascade', () => {
  const FIRST = 'us.amazon.nova-lite-v1:0';
  /** Refused, which the first model calls a failure. */
  const refusal = (name: string): string =>
    chatLine(name).replace(/Prune plant [^.]*\./, 'I am unable to help with that today, I am sorry.');

  beforeAll(async () => {
    for (const which of ['planner', 'evaluator', 'batcher'] as const) {
      await stack.pipeline.setVariable(which, 'JUDGE_CASCADE', FIRST);
    }
  });

  const judgeTwice = (name: string, good: number, bad: number): Promise<Outcome> =>
    stack.judgeLines(
      name,
      Array.from({ length: good + bad }, (_, n) => (n < good ? chatLine(`${name}-${n}`) : refusal(`${name}-${n}`))),
    );

  test('the judge is asked on demand about the captures with a failure, and nobody else', async () => {
    const summary = summaryOf(await judgeTwice('cascade', RECORDS, 7));
    expect(summary.batch?.jobs).toMatchObject([{ records: RECORDS + 7, status: 'Completed' }]);
    expect(stack.environment.judge.batch.jobs.at(-1)?.request.modelId).toBe(FIRST);
    expect(stack.environment.judge.counts.calls).toBe(7);
    expect(summary.verdictsByScorer.refusal).toEqual({ no: RECORDS, yes: 7 });
    expect(summary.spend.calls).toBe(RECORDS + 14);
    expect(summary.verdicts.failed).toBe(0);
  });

  test('what the budget has no room for is held, and a retry asks the judge about it', async () => {
    const lines = Array.from({ length: RECORDS }, (_, n) => refusal(`dear-${n}`));
    const held = await stack.judgeLines('dear-cascade', lines, { budgetUsd: 0.1 });
    const { spend, verdicts, verdictsByScorer } = summaryOf(held);
    expect(verdicts.heldByBudget).toBeGreaterThan(0);
    expect(spend.usd).toBeLessThanOrEqual(0.1);
    expect(verdictsByScorer.safety).toEqual({ yes: RECORDS });
    const retried = await stack.run({ retry: { run: held.name, what: 'held' }, judge: 'converse', budgetUsd: 10 });
    expect(summaryOf(retried).verdicts.heldByBudget).toBe(0);
    // What stood is not asked again.
    expect(summaryOf(retried).verdictsByScorer.safety).toBeUndefined();
  });
});

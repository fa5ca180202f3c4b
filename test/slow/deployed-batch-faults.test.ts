/** Batch inference on the deployed path with a hundred captures in each run: faults of jobs, the budget, quotas, cascades. */
import { serviceError } from '../../local/stand-in-judge/http-answer.ts';
import { defaultJudgeModel } from '../../src/settings/default-judge.ts';
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
    expect(refused.cause).toContain('does not support batch inference');
  });

  test('fails the run by name when the job fails, and a retry completes it', async () => {
    stack.environment.judge.batch.behavior = { failWith: 'no capacity' };
    const failed = await stack.judgeInBatch('unlucky', RECORDS);
    expect(failed).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(failed.cause).toContain('JudgeBatchFailed');
    expect(failed.cause).toContain('no capacity');
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

test('traces the captures when the jobs cannot be started at all', async () => {
  const { workBucket } = stack.pipeline.outputs;
  await stack.pipeline.setVariable('batcher', 'WORK_BUCKET', 'no-such-bucket');
  try {
    const failed = await stack.judgeInBatch('unpacked', RECORDS);
    expect(failed.status).toBe('FAILED');
    expect(failed.summary).toMatchObject({ lines: { traced: RECORDS, lost: 0 }, spend: { usd: 0 } });
    expect(stack.environment.judge.batch.records + stack.environment.judge.counts.calls).toBe(0);
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

  test('the second round asks the judge about the captures with a failure, and all is paid at half the price', async () => {
    const summary = summaryOf(await judgeTwice('cascade', 20, RECORDS));
    expect(summary.batch?.jobs).toMatchObject([
      { records: RECORDS + 20, status: 'Completed' },
      { records: RECORDS, status: 'Completed' },
    ]);
    const models = stack.environment.judge.batch.jobs.slice(-2).map(({ request }) => request.modelId);
    expect(models).toEqual([FIRST, defaultJudgeModel('us-east-1')]);
    expect(stack.environment.judge.counts.calls).toBe(0);
    expect(summary.verdictsByScorer.refusal).toEqual({ no: 20, yes: RECORDS });
    expect(summary.spend.calls).toBe(2 * RECORDS + 20);
    expect(summary.verdicts.failed).toBe(0);
  });

  test('what is too little for the second round is asked on demand, in words', async () => {
    const summary = summaryOf(await judgeTwice('few-left', RECORDS, 7));
    expect(summary.batch?.jobs).toMatchObject([{ records: RECORDS + 7, status: 'Completed' }]);
    expect(summary.batch?.converse).toMatchObject([
      { reason: "asked on demand: 7 captures are under batch's minimum of 100" },
    ]);
    expect(stack.environment.judge.counts.calls).toBe(7);
  });

  test('when the second job fails, the verdicts of the first stand, and a retry asks for the rest', async () => {
    const { batch } = stack.environment.judge;
    const before = batch.jobs.length;
    Object.defineProperty(batch, 'behavior', {
      configurable: true,
      get: () => (batch.jobs.length > before + 1 ? { failWith: 'no capacity' } : {}),
    });
    let failed: Outcome;
    try {
      failed = await judgeTwice('half', 0, RECORDS);
    } finally {
      Object.defineProperty(batch, 'behavior', { configurable: true, writable: true, value: {} });
    }
    expect(failed).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(failed.cause).toContain('no capacity');
    expect(failed.summary?.lines.traced).toBe(RECORDS);
    expect(failed.summary?.verdictsByScorer.safety).toEqual({ yes: RECORDS });
    expect(failed.summary?.verdictsByScorer.refusal).toBeUndefined();
    const retried = summaryOf(await stack.run({ retry: { run: failed.name, what: 'failed' }, judge: 'converse' }));
    expect(retried.verdictsByScorer.refusal).toEqual({ yes: RECORDS });
    // What stood is not asked again.
    expect(retried.verdictsByScorer.safety).toBeUndefined();
  });
});

import { setTimeout as sleep } from 'node:timers/promises';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { priceCall } from '../../src/judge/pricing/prices.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { BATCH_MODEL, BatchStack, RECORDS, summaryOf } from '../helpers/deployed-batch.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { Outcome } from '../helpers/deployed-pipeline.ts';

let stack: BatchStack;
beforeAll(async () => {
  stack = await BatchStack.deploy();
});
afterAll(() => stack?.stop());
beforeEach(() => stack.reset());
afterEach(() => stack.expectBooked());

// Must be the first run, because a Lambda checks only once whether the model exists.
test('a judge whose model has ended fails the run after everything is traced, and names the setting to change', async () => {
  stack.environment.judge.behave({ models: { '*': { state: 'ended' } } });
  try {
    const ended = await stack.judgeInBatch('ended', 3, { judge: 'converse' });
    expect(ended).toMatchObject({ status: 'FAILED', error: 'JudgeModelGone' });
    expect(ended.cause).toMatch(/was retired on \d{4}-\d\d-\d\d: set BEDROCK_MODEL_ID/);
    expect(ended.summary).toMatchObject({ lines: { traced: 3, lost: 0 }, spend: { calls: 0 } });
  } finally {
    stack.environment.judge.behave({});
  }
  const mended = summaryOf(await stack.judgeInBatch('ended', 3, { judge: 'converse' }));
  expect(mended.verdictsByScorer.safety).toEqual({ yes: 3 });
});

describe('enough captures for a job', () => {
  let first: Outcome;

  test('runs one job at half the price, without a call of Converse', async () => {
    first = await stack.judgeInBatch('enough', RECORDS);
    const summary = summaryOf(first);
    expect(summary.batch?.jobs).toMatchObject([{ records: RECORDS, status: 'Completed' }]);
    expect(stack.environment.judge.batch.records).toBe(RECORDS);
    // A harmless question, since nothing was known of the model.
    expect(stack.environment.judge.counts.calls).toBe(1);
    expect(summary.lines.traced).toBe(RECORDS);
    expect(summary.verdicts.failed).toBe(0);
    expect(summary.verdictsByScorer.safety).toEqual({ yes: RECORDS });
    const { inputTokens, outputTokens, usd } = summary.spend;
    const online = priceCall(BATCH_MODEL, { inputTokens, outputTokens }) ?? 0;
    expect(usd).toBeGreaterThan(online / 2);
    expect(usd).toBeLessThan(online / 2 + 0.01);
    expect((await stack.spending()).spentUsd).toBeGreaterThan(0);
    // The estimate, before the judge is called.
    expect(summary.estimate).toMatchObject({ captures: RECORDS, judgedCaptures: RECORDS });
    expect((summary.estimate?.usd ?? 0) / (usd ?? 0)).toBeGreaterThan(0.3);
    expect((summary.estimate?.usd ?? 0) / (usd ?? 0)).toBeLessThan(3);
  });

  test('books answers that are applied again only once, and returns their deposit only once', async () => {
    const before = await stack.spending();
    const { storage, outputs } = stack.pipeline;
    const [chunk] = await storage.getJsonLines(outputs.workBucket, workKeys.batchManifest(first.name));
    const { options } = first.summary ?? {};
    const request = { run: first.name, chunk, options, attempt: 1, phase: 'apply' };
    const again = await stack.pipeline.invoke('evaluator', request);
    expect(again).toMatchObject({ error: undefined, payload: { waitSeconds: 0 } });
    expect(await stack.spending()).toEqual(before);
  });

  test('starts no job and does not call the judge when the same run is repeated', async () => {
    const jobs = stack.environment.judge.batch.jobs.length;
    const summary = summaryOf(await stack.judgeInBatch('enough', RECORDS));
    expect(stack.environment.judge.batch.jobs).toHaveLength(jobs);
    expect(stack.environment.judge.counts.calls).toBe(0);
    expect(summary.verdicts.newVerdicts).toBe(0);
    expect(summary.spend.usd).toBe(0);
  });
});

test('uses Converse, and reports it, for fewer records than Bedrock’s minimum', async () => {
  const summary = summaryOf(await stack.judgeInBatch('few', 5));
  expect(summary.batch?.jobs).toEqual([]);
  expect(summary.batch?.converse).toMatchObject([{ records: 5, reason: expect.stringContaining('minimum of 100') }]);
  expect(stack.environment.judge.counts.calls).toBe(5);
  expect(summary.verdictsByScorer.safety).toEqual({ yes: 5 });
});

test('holds the captures of many records that are refused for one reason, which a retry asks', async () => {
  stack.environment.judge.batch.behavior = { errorEvery: 1 };
  const refused = await stack.judgeInBatch('refused', RECORDS);
  const summary = summaryOf(refused);
  expect(stack.environment.judge.counts.calls).toBe(0);
  expect(summary.batch?.refused).toEqual({ rejected: RECORDS });
  expect(summary.verdicts.heldByBudget).toBeGreaterThan(0);
  expect(summary.reasons.JudgeBatchRefused).toBe(summary.verdicts.heldByBudget);
  stack.environment.judge.batch.behavior = {};
  const retried = summaryOf(await stack.run({ retry: { run: refused.name, what: 'held' } }));
  expect(retried.verdictsByScorer.safety).toEqual({ yes: RECORDS });
});

test('a dry run announces what a run pays, once calls have taught it, and before as a range', async () => {
  const lines = (name: string) => Array.from({ length: 25 }, (_, n) => chatLine(`${name}-${n}`));
  const more = { judge: 'converse' };
  const announced = async (name: string) =>
    (await stack.judgeLines(name, lines(name), { ...more, dryRun: true })).summary?.estimate;
  expect((await announced('untaught'))?.usdRange).toBeDefined();
  // A process writes what it has learned once a minute: a new one does so at the end of its first chunk.
  await stack.pipeline.setVariable('evaluator', 'NEW_PROCESS', 'yes');
  await stack.judgeLines('taught', lines('taught'), more);
  const second = await announced('announced');
  expect(second?.usdRange).toBeUndefined();
  const { spend } = summaryOf(await stack.judgeLines('announced', lines('announced'), more));
  expect(Math.abs((second?.usd ?? Number.NaN) / (spend.usd ?? Number.NaN) - 1)).toBeLessThan(0.15);
});

describe('captures without verdicts', () => {
  test('fails the run by name when Bedrock refuses the job', async () => {
    stack.environment.judge.batch.behavior = { refuseWith: 'The model does not support batch inference.' };
    const refused = await stack.judgeInBatch('unlucky', RECORDS);
    expect(refused).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(refused.cause).toContain('JudgeBatchRefused');
    const { storage, outputs } = stack.pipeline;
    const words = await storage.getJson(outputs.workBucket, workKeys.batchWords(refused.name, 0));
    expect(JSON.stringify(words)).toContain('does not support batch inference');
  });

  test('fails the run by name when the job fails, and a retry completes it', async () => {
    stack.environment.judge.batch.behavior = { failWith: 'no capacity' };
    const failed = await stack.judgeInBatch('unlucky', RECORDS);
    expect(failed).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(failed.cause).toMatch(/JudgeBatchFailed.*:model-invocation-job\//s);
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

test('its requests were held against AWS’s models', async () => {
  expect(await uncheckedIn('deployed-batch')).toEqual([]);
});

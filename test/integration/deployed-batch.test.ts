/** Batch inference on the deployed path: one job for the captures of a run, its cost, and its failures. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { serviceError } from '../../local/stand-in-judge/http-answer.ts';
import { type LocalEnvironment, startEnvironment } from '../../local/start/environment.ts';
import { workKeys } from '../../src/contract/work-keys.ts';
import { dayScope } from '../../src/judge/budget/leased-budget.ts';
import { priceCall } from '../../src/judge/pricing/prices.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { defaultJudgeModel } from '../../src/settings/default-judge.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { DeployedPipeline, type Outcome } from '../helpers/deployed-pipeline.ts';
import { readSpending } from '../helpers/spending.ts';

const ENDPOINT = 'batch-endpoint';
/** Bedrock's minimum for a job. */
const RECORDS = 100;

let environment: LocalEnvironment;
let pipeline: DeployedPipeline;
let dynamo: DynamoDBClient;
let table: string;
/** US dollars according to the summaries of all runs so far. */
let paidUsd = 0;
const firstDay = dayScope(Date.now());

beforeAll(async () => {
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.01' } });
  const settings = { STACK_PREFIX: 'batch', SAGEMAKER_ENDPOINT_NAME: ENDPOINT };
  pipeline = new DeployedPipeline(environment, 'batch', await environment.deployStack(settings));
  await environment.mlflow;
  // The rule would start a run without batch inference for every file.
  await pipeline.disableRule();
  const { url, region, env } = environment.ministack;
  const credentials = { accessKeyId: env.AWS_ACCESS_KEY_ID ?? '', secretAccessKey: env.AWS_SECRET_ACCESS_KEY ?? '' };
  dynamo = new DynamoDBClient({ endpoint: url, region, credentials });
  const FunctionName = pipeline.functionName('evaluator');
  const { Environment } = await environment.clients.lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  table = Environment?.Variables?.BUDGET_TABLE ?? '';
});

afterAll(async () => {
  dynamo?.destroy();
  await environment?.stop();
});

beforeEach(() => {
  environment.judge.forget();
  environment.judge.batch.records = 0;
  environment.judge.batch.behavior = {};
});

async function judgeInBatch(name: string, records: number, more: object = {}): Promise<Outcome> {
  const key = `${ENDPOINT}/AllTraffic/2026/11/20/10/${name}.jsonl`;
  await pipeline.put(
    key,
    Array.from({ length: records }, (_, n) => chatLine(`${name}-${n}`)),
  );
  return run(pipeline.event(key, { judge: 'batch', ...more }));
}

async function run(input: object): Promise<Outcome> {
  const outcome = await pipeline.run(input);
  paidUsd += outcome.summary?.spend.usd ?? 0;
  return outcome;
}

/** Returns the spending of the day, or of both days if midnight has passed. */
async function spending(): Promise<{ spentUsd: number; committedUsd: number }> {
  const sum = { spentUsd: 0, committedUsd: 0 };
  for (const scope of new Set([firstDay, dayScope(Date.now())])) {
    const day = await readSpending({ client: dynamo, table }, scope);
    sum.spentUsd += day.spentUsd;
    sum.committedUsd += day.committedUsd;
  }
  return sum;
}

/** After every run, the booked cost equals the paid cost, and no reservation or deposit remains. */
afterEach(async () => {
  const { spentUsd, committedUsd } = await spending();
  // Each booking is rounded up to a nanodollar.
  expect(spentUsd).toBeCloseTo(paidUsd, 6);
  expect(committedUsd).toBeCloseTo(spentUsd, 9);
});

function summaryOf({ status, error, cause, summary }: Outcome): RunSummary {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  if (summary === undefined) throw new Error('The run has no summary');
  expect(summary.equations).toEqual({ lines: true, verdicts: true });
  expect(summary.verdicts.lost).toBe(0);
  return summary;
}

// Must be the first run, because a Lambda checks only once whether the model exists.
test('a judge whose model has ended fails the run before anything is traced or judged, and names the setting to change', async () => {
  environment.judge.behave({ models: { '*': { state: 'ended' } } });
  try {
    const ended = await judgeInBatch('ended', 3, { judge: 'converse' });
    expect(ended).toMatchObject({ status: 'FAILED', error: 'JudgeModelGone' });
    expect(ended.cause).toMatch(/was retired on \d{4}-\d\d-\d\d: set BEDROCK_MODEL_ID/);
    expect(ended.summary).toMatchObject({ lines: { traced: 0 }, spend: { calls: 0 } });
    expect(environment.judge.counts.calls).toBe(0);
  } finally {
    environment.judge.behave({});
  }
  const mended = summaryOf(await judgeInBatch('ended', 3, { judge: 'converse' }));
  expect(mended.verdictsByScorer.safety).toEqual({ yes: 3 });
});

describe('enough captures for a job', () => {
  let first: Outcome;

  test('runs one job at half the price, without a call of Converse', async () => {
    first = await judgeInBatch('enough', RECORDS);
    const summary = summaryOf(first);
    expect(summary.batch?.jobs).toMatchObject([{ records: RECORDS, status: 'Completed' }]);
    expect(environment.judge.batch.records).toBe(RECORDS);
    expect(environment.judge.counts.calls).toBe(0);
    expect(summary.lines.traced).toBe(RECORDS);
    expect(summary.files?.count).toBe(1);
    expect(summary.verdicts.failed).toBe(0);
    expect(summary.verdictsByScorer.safety).toEqual({ yes: RECORDS });
    const { inputTokens, outputTokens, usd } = summary.spend;
    const online = priceCall(defaultJudgeModel('us-east-1') ?? '', { inputTokens, outputTokens }) ?? 0;
    expect(usd).toBeCloseTo(online / 2, 6);
    expect((await spending()).spentUsd).toBeGreaterThan(0);
    // The estimate, before the judge is called.
    expect(summary.estimate).toMatchObject({ captures: RECORDS, judgedCaptures: RECORDS });
    expect((summary.estimate?.usd ?? 0) / (usd ?? 0)).toBeGreaterThan(0.3);
    expect((summary.estimate?.usd ?? 0) / (usd ?? 0)).toBeLessThan(3);
  });

  test('books answers that are applied again only once, and returns their deposit only once', async () => {
    const before = await spending();
    const manifest = await environment.clients.s3.send(
      new GetObjectCommand({ Bucket: pipeline.outputs.workBucket, Key: workKeys.batchManifest(first.name) }),
    );
    const [chunk] = ((await manifest.Body?.transformToString()) ?? '').split('\n').filter(Boolean);
    const { options } = first.summary ?? {};
    const request = { run: first.name, chunk: JSON.parse(chunk ?? ''), options, attempt: 1, phase: 'apply' };
    const again = await pipeline.invoke('evaluator', request);
    expect(again).toMatchObject({ error: undefined, payload: { newVerdicts: 0, failed: 0 } });
    expect(await spending()).toEqual(before);
  });

  test('starts no job and does not call the judge when the same run is repeated', async () => {
    const jobs = environment.judge.batch.jobs.length;
    const summary = summaryOf(await judgeInBatch('enough', RECORDS));
    expect(environment.judge.batch.jobs).toHaveLength(jobs);
    expect(environment.judge.counts.calls).toBe(0);
    expect(summary.verdicts.newVerdicts).toBe(0);
    expect(summary.spend.usd).toBe(0);
  });
});

test('uses Converse, and reports it, for fewer records than Bedrock’s minimum', async () => {
  const summary = summaryOf(await judgeInBatch('few', 5));
  expect(summary.batch?.jobs).toEqual([]);
  expect(summary.batch?.converse).toMatchObject([{ records: 5, reason: expect.stringContaining('minimum of 100') }]);
  expect(environment.judge.counts.calls).toBe(5);
  expect(summary.verdictsByScorer.safety).toEqual({ yes: 5 });
});

describe('captures without verdicts', () => {
  test('fails the run by name when Bedrock refuses the job', async () => {
    environment.judge.batch.behavior = { refuseWith: 'The model does not support batch inference.' };
    const refused = await judgeInBatch('unlucky', RECORDS);
    expect(refused).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(refused.cause).toContain('JudgeBatchRefused');
    expect(refused.cause).toContain('does not support batch inference');
  });

  test('fails the run by name when the job fails, and a retry completes it', async () => {
    environment.judge.batch.behavior = { failWith: 'no capacity' };
    const failed = await judgeInBatch('unlucky', RECORDS);
    expect(failed).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
    expect(failed.cause).toContain('JudgeBatchFailed');
    expect(failed.cause).toContain('no capacity');
    expect(failed.summary?.spend.usd).toBe(0);
    const retried = await run({ retry: { run: failed.name, what: 'failed' }, judge: 'converse' });
    expect(summaryOf(retried).verdictsByScorer.safety).toEqual({ yes: RECORDS });
  });
});

test('asks Converse about the records that failed within a job, and for what incomplete answers miss', async () => {
  const ERROR_EVERY = 10;
  const INCOMPLETE_EVERY = 4;
  environment.judge.batch.behavior = {
    errorEvery: ERROR_EVERY,
    fault: { kind: 'missing-keys', every: INCOMPLETE_EVERY },
  };
  const summary = summaryOf(await judgeInBatch('partial', RECORDS));
  expect(summary.batch?.jobs).toMatchObject([{ status: 'PartiallyCompleted' }]);
  const failed = RECORDS / ERROR_EVERY;
  // Every other one of the records that failed would have had an incomplete answer.
  const incomplete = RECORDS / INCOMPLETE_EVERY - failed / 2;
  expect(environment.judge.counts.calls).toBe(failed + incomplete);
  expect(summary.spend.calls).toBe(RECORDS - failed + failed + incomplete);
  expect(summary.verdicts.failed).toBe(0);
  expect(summary.verdictsByScorer.safety).toEqual({ yes: RECORDS });
  for (const values of Object.values(summary.verdictsByScorer)) {
    const { sum: _, ...counts } = values;
    expect(Object.values(counts).reduce((a, b) => a + b, 0)).toBe(RECORDS);
  }
});

test('holds the verdicts that exceed the budget, and a retry judges them', async () => {
  const held = await judgeInBatch('dear', RECORDS, { budgetUsd: 0.05 });
  const summary = summaryOf(held);
  expect(summary.verdicts.heldByBudget).toBeGreaterThan(0);
  expect(summary.spend.usd).toBeLessThanOrEqual(0.05);
  const retried = await run({ retry: { run: held.name, what: 'held' }, judge: 'converse', budgetUsd: 10 });
  expect(summaryOf(retried).verdicts.heldByBudget).toBe(0);
});

test('a second run waits while the account’s quota has no place for its job, and then has its answers', async () => {
  const { batch } = environment.judge;
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
    const both = await Promise.all([judgeInBatch('busy', RECORDS), judgeInBatch('patient', RECORDS)]);
    for (const outcome of both) {
      const { jobs } = summaryOf(outcome).batch ?? {};
      expect(jobs).toMatchObject([{ records: RECORDS, status: 'Completed' }]);
    }
    expect(refused).toBeGreaterThan(0);
    expect(batch.records).toBe(2 * RECORDS);
    expect(environment.judge.counts.calls).toBe(0);
  } finally {
    batch.create = create;
  }
});

test('traces the captures when the jobs cannot be started at all', async () => {
  const { workBucket } = pipeline.outputs;
  await pipeline.setVariable('batcher', 'WORK_BUCKET', 'no-such-bucket');
  try {
    const failed = await judgeInBatch('unpacked', RECORDS);
    expect(failed.status).toBe('FAILED');
    expect(failed.summary).toMatchObject({ lines: { traced: RECORDS, lost: 0 }, spend: { usd: 0 } });
    expect(environment.judge.batch.records + environment.judge.counts.calls).toBe(0);
  } finally {
    await pipeline.setVariable('batcher', 'WORK_BUCKET', workBucket);
  }
});

describe('in a cascade', () => {
  const FIRST = 'us.amazon.nova-lite-v1:0';
  /** Refused, which the first model calls a failure. */
  const refusal = (name: string): string =>
    chatLine(name).replace(/Prune plant [^.]*\./, 'I am unable to help with that today, I am sorry.');

  beforeAll(async () => {
    for (const which of ['planner', 'evaluator', 'batcher'] as const) {
      await pipeline.setVariable(which, 'JUDGE_CASCADE', FIRST);
    }
  });

  async function judgeTwice(name: string, good: number, bad: number): Promise<Outcome> {
    const key = `${ENDPOINT}/AllTraffic/2026/11/20/10/${name}.jsonl`;
    const lines = Array.from({ length: good + bad }, (_, n) =>
      n < good ? chatLine(`${name}-${n}`) : refusal(`${name}-${n}`),
    );
    await pipeline.put(key, lines);
    return run(pipeline.event(key, { judge: 'batch' }));
  }

  test('the second round asks the judge about the captures with a failure, and all is paid at half the price', async () => {
    const summary = summaryOf(await judgeTwice('cascade', 20, RECORDS));
    expect(summary.batch?.jobs).toMatchObject([
      { records: RECORDS + 20, status: 'Completed' },
      { records: RECORDS, status: 'Completed' },
    ]);
    const models = environment.judge.batch.jobs.slice(-2).map(({ request }) => request.modelId);
    expect(models).toEqual([FIRST, defaultJudgeModel('us-east-1')]);
    expect(environment.judge.counts.calls).toBe(0);
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
    expect(environment.judge.counts.calls).toBe(7);
  });

  test('when the second job fails, the verdicts of the first stand, and a retry asks for the rest', async () => {
    const { batch } = environment.judge;
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
    const retried = summaryOf(await run({ retry: { run: failed.name, what: 'failed' }, judge: 'converse' }));
    expect(retried.verdictsByScorer.refusal).toEqual({ yes: RECORDS });
    // What stood is not asked again.
    expect(retried.verdictsByScorer.safety).toBeUndefined();
  });
});

test('its requests were held against AWS’s models', async () => {
  expect(await uncheckedIn('deployed-batch')).toEqual([]);
});

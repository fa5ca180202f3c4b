import { LimitsTable } from '../../src/limits/table.ts';
import { MIN_BATCH_RECORDS } from '../../src/monitoring/batch/groups.ts';
import type { QuotaLimits } from '../doubles/quota-shim/limits.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { Outcome } from '../helpers/deployed-pipeline.ts';
import { type QuotaEnvironment, startQuotaEnvironment } from '../helpers/quota-environment.ts';

jest.setTimeout(600_000);

const START_LIMIT_MS = 600_000;
const FILES = 4;
const CAPTURES = 8;
const JUDGE_MS = 500;

let stack: QuotaEnvironment;
let round = 0;

beforeAll(async () => {
  stack = await startQuotaEnvironment({
    endpoint: 'quota-endpoint',
    limits: {},
    judge: { delayMs: JUDGE_MS },
    settings: {
      EVALUATION_SAMPLE_RATE: '1',
      EVALUATION_BUDGET_USD: '1000',
      BEDROCK_MODEL_ID: 'us.anthropic.claude-sonnet-4-6',
    },
    // The quotas are a tenth of an account's, and so are the waits.
    waitScale: 0.1,
  });
  await stack.pipeline.disableRule();
}, START_LIMIT_MS);

afterAll(() => stack?.stop());

/** Uploads a file for each number, with that number of captures, and then imposes the limits. @returns the keys */
async function upload(limits: QuotaLimits, sizes: readonly number[] = Array(FILES).fill(CAPTURES)): Promise<string[]> {
  const { pipeline, shim } = stack;
  round += 1;
  const keys = sizes.map((_, n) => stack.key(`round-${round}-${n}`));
  for (const [n, key] of keys.entries()) {
    const lines = Array.from({ length: sizes[n] ?? 0 }, (_, line) => chatLine(`round ${round} file ${n} line ${line}`));
    await pipeline.put(key, lines);
  }
  shim.impose(limits);
  shim.counts.forget();
  return keys;
}

/** Starts a run for each of the files at once, as files that arrive together do. */
async function runEach(keys: readonly string[], more: object = {}): Promise<Outcome[]> {
  const { pipeline } = stack;
  const started = await Promise.all(keys.map((key) => pipeline.start(pipeline.event(key, more))));
  return Promise.all(started.map((arn) => pipeline.ended(arn)));
}

async function underLimits(limits: QuotaLimits): Promise<Outcome[]> {
  const outcomes = await runEach(await upload(limits));
  stack.shim.impose({});
  return outcomes;
}

/** Every line is traced and every verdict is there; no capture was asked about twice. */
function expectWhole(outcomes: readonly Outcome[], sizes: readonly number[] = Array(FILES).fill(CAPTURES)): void {
  expect(outcomes.map(({ status, error, cause }) => ({ status, error, cause }))).toEqual(
    outcomes.map(() => ({ status: 'SUCCEEDED' })),
  );
  for (const [n, { summary }] of outcomes.entries()) {
    expect(summary?.lines).toMatchObject({ planned: sizes[n], traced: sizes[n] });
    expect(summary?.verdicts).toMatchObject({ failed: 0, lost: 0 });
  }
}

const answered = (): number => stack.shim.counts.of('judge calls').served;

test.each<[string, QuotaLimits]>([
  ['concurrent functions', { lambdaConcurrency: 2 }],
  ['one open Map Run', { openMapRuns: 1 }],
  ['MLflow at 25 requests a second', { mlflow: { perSecond: 25 } }],
  ['calls of the judge a minute', { judgeRequestsPerMinute: 600 }],
  ['tokens of the judge a minute', { judgeTokensPerMinute: 1_500_000, outputBurndown: 5 }],
  ['DynamoDB’s write units', { partitionWrites: 20, itemBytes: 400 * 1024 }],
  ['S3’s 503s', { s3Writes: { perSecond: 60 }, s3Reads: { perSecond: 60 } }],
])('%s alone', async (_, limits) => {
  const since = Date.now();
  expectWhole(await underLimits(limits));
  expect(answered()).toBe(FILES * CAPTURES);
  const refused = stack.shim.emulatorEvents().filter(({ at, throttled }) => throttled !== undefined && at >= since);
  expect(refused.length > 0).toBe(limits.lambdaConcurrency !== undefined);
});

test('a chunk waits in Step Functions for a table that takes no more writes, and uses up no retries', async () => {
  const { pipeline, shim } = stack;
  const key = stack.key('table');
  const texts = Array.from({ length: CAPTURES }, (_, line) => chatLine(`throttled table, line ${line}`));
  await pipeline.put(key, texts);
  shim.impose({ partitionWrites: 0 });
  const arn = await pipeline.start(pipeline.event(key));
  const invoked = () => pipeline.childCalls(arn, 'evaluator');
  await pipeline.until('a chunk that waited', async () => (await invoked()) > 1 || undefined);
  shim.impose({});
  expectWhole([await pipeline.ended(arn)]);
  expect(await pipeline.chunkErrors(arn)).toEqual([]);
});

test('started executions alone', async () => {
  const { pipeline, shim } = stack;
  const keys = await upload({ startExecution: { perSecond: 0.5, burst: 1 } });
  const SentTimestamp = String(Date.now());
  // If the function fails, the queue gives it the same messages again.
  const start = (key: string) => {
    const Records = [{ messageId: key, body: JSON.stringify(pipeline.event(key)), attributes: { SentTimestamp } }];
    const isStarted = async () => (await pipeline.invoke('starter', { Records })).error === undefined || undefined;
    return pipeline.until(`a start for ${key}`, isStarted);
  };
  await Promise.all(keys.map(start));
  const { throttled, served } = shim.counts.of('start execution');
  expect([throttled > 0, served]).toEqual([true, FILES]);
  const started = await Promise.all(keys.map((key) => pipeline.executionsOf(key)));
  expect(started.map(({ length }) => length)).toEqual(keys.map(() => 1));
  expectWhole(await Promise.all(started.flat().map(({ arn }) => pipeline.ended(arn))));
  expect(answered()).toBe(FILES * CAPTURES);
  shim.impose({});
});

test('tokens of the judge a day alone: what has no room is held, and judged when the day is over', async () => {
  const { pipeline, shim } = stack;
  const [first = '', ...others] = await upload({ judgeTokensPerDay: 1 });
  // Calls that were under way before the first was answered have found room.
  const [begun, ...held] = [...(await runEach([first])), ...(await runEach(others))];
  expectWhole([begun as Outcome, ...held]);
  expect(answered()).toBeGreaterThan(0);
  expect(answered()).toBeLessThanOrEqual(CAPTURES);
  expect(shim.counts.of('judge tokens a day').throttled).toBeGreaterThan(0);
  for (const { summary } of held) {
    expect(summary?.verdicts.heldByBudget).toBeGreaterThan(0);
    expect(summary?.reasons.providerDay).toBe(summary?.verdicts.heldByBudget);
  }

  shim.nextDay();
  shim.impose({});
  await closeDay();
  const left = [begun as Outcome, ...held].filter(({ summary }) => summary?.verdicts.heldByBudget);
  for (const { name, summary } of left) {
    const retry = await pipeline.run({ retry: { run: name, what: 'held' } });
    expect(retry).toMatchObject({ status: 'SUCCEEDED' });
    const newVerdicts = summary?.verdicts.heldByBudget;
    expect(retry.summary?.verdicts).toMatchObject({ heldByBudget: 0, failed: 0, lost: 0, newVerdicts });
  }
  expect(answered()).toBe(FILES * CAPTURES);

  /** The breaker is open until midnight: lets its time be over, for new processes. */
  async function closeDay(): Promise<void> {
    const budget = await pipeline.budgetTable();
    const scope = `breaker#judge#${(await pipeline.variablesOf('evaluator')).BEDROCK_MODEL_ID}`;
    const table = new LimitsTable(budget.client, budget.table);
    expect((await table.get(scope)).forDay?.N).toBe('1');
    await table.update({ scope, expression: 'SET #until = :now', values: { now: Date.now() } });
    budget.client.destroy();
    for (const pid of pipeline.processesOf('evaluator')) process.kill(pid);
  }
});

test('batch jobs alone: one waits for the other’s place, and what is under the minimum is asked on demand', async () => {
  const { environment, shim } = stack;
  const { batch } = environment.judge;
  const few = MIN_BATCH_RECORDS - 1;
  const sizes = [MIN_BATCH_RECORDS, MIN_BATCH_RECORDS, few];
  batch.behavior = { delayMs: 10_000 };
  const keys = await upload({ batchJobs: 1 }, sizes);
  const outcomes = await runEach(keys, { judge: 'batch' });
  batch.behavior = {};
  expectWhole(outcomes, sizes);
  const { throttled, served } = shim.counts.of('batch jobs');
  expect([throttled > 0, served, batch.records]).toEqual([true, 2, 2 * MIN_BATCH_RECORDS]);
  expect(outcomes[2]?.summary?.batch).toMatchObject({
    jobs: [],
    converse: [{ records: few, reason: expect.stringContaining(`minimum of ${MIN_BATCH_RECORDS}`) }],
  });
  // And the harmless question, before the first job.
  expect(answered()).toBe(few + 1);
  shim.impose({});
});

test('all at once', async () => {
  const outcomes = await underLimits({
    lambdaConcurrency: 3,
    openMapRuns: 2,
    mlflow: { perSecond: 25 },
    judgeRequestsPerMinute: 900,
    judgeTokensPerMinute: 3_000_000,
    outputBurndown: 5,
    partitionWrites: 100,
    itemBytes: 400 * 1024,
    s3Writes: { perSecond: 100 },
    s3Reads: { perSecond: 100 },
  });
  expectWhole(outcomes);
  expect(answered()).toBe(FILES * CAPTURES);
});

/** Batch inference on the deployed path: one job over a run's captures, what it costs, and what happens when it fails. */
import { DEFAULT_JUDGE_MODEL } from '../../lambda/contract.ts';
import { priceCall } from '../../lambda/judge/prices.ts';
import type { RunSummary } from '../../lambda/run/summary.ts';
import { type LocalEnvironment, startEnvironment } from '../../local/environment.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { DeployedPipeline, type Outcome } from '../helpers/deployed-pipeline.ts';

const ENDPOINT = 'batch-endpoint';
const RECORDS = 120;
jest.setTimeout(120_000);

let environment: LocalEnvironment;
let pipeline: DeployedPipeline;

beforeAll(async () => {
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.01' } });
  const settings = { STACK_PREFIX: 'batch', SAGEMAKER_ENDPOINT_NAME: ENDPOINT };
  pipeline = new DeployedPipeline(environment, 'batch', await environment.deployStack(settings));
  await environment.mlflow;
  // The rule would judge every file by Converse as soon as it is there.
  await pipeline.disableRule();
}, 300_000);

afterAll(async () => {
  await environment?.stop();
});

beforeEach(() => {
  environment.judge.forget();
  environment.judge.batch.records = 0;
  environment.judge.batch.behaviour = {};
});

async function judgeInBatch(name: string, records: number, more: object = {}): Promise<Outcome> {
  const key = `${ENDPOINT}/AllTraffic/2026/11/20/10/${name}.jsonl`;
  await pipeline.put(
    key,
    Array.from({ length: records }, (_, n) => chatLine(`${name}-${n}`)),
  );
  return pipeline.run(pipeline.event(key, { judge: 'batch', ...more }));
}

function summaryOf({ status, error, cause, summary }: Outcome): RunSummary {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  if (summary === undefined) throw new Error('the run left no summary');
  expect(summary.equations).toEqual({ lines: true, verdicts: true });
  expect(summary.verdicts.lost).toBe(0);
  return summary;
}

test('a run with enough captures is one job, at half the price, and asks Converse nothing', async () => {
  const summary = summaryOf(await judgeInBatch('enough', RECORDS));
  expect(summary.batch?.jobs).toMatchObject([{ records: RECORDS, status: 'Completed' }]);
  expect(environment.judge.batch.records).toBe(RECORDS);
  expect(environment.judge.counts.calls).toBe(0);
  expect(summary.lines.traced).toBe(RECORDS);
  expect(summary.verdicts.failed).toBe(0);
  expect(summary.verdictsByScorer.safety).toEqual({ yes: RECORDS });
  const { inputTokens, outputTokens, usd } = summary.spend;
  const online = priceCall(DEFAULT_JUDGE_MODEL, { inputTokens, outputTokens }) ?? 0;
  expect(usd).toBeCloseTo(online / 2, 6);
});

test('the same run again starts no job and asks nothing', async () => {
  const jobs = environment.judge.batch.jobs.length;
  const summary = summaryOf(await judgeInBatch('enough', RECORDS));
  expect(environment.judge.batch.jobs).toHaveLength(jobs);
  expect(environment.judge.counts.calls).toBe(0);
  expect(summary.verdicts.newVerdicts).toBe(0);
  expect(summary.spend.usd).toBe(0);
});

test('below Bedrock’s minimum it says so and uses Converse', async () => {
  const summary = summaryOf(await judgeInBatch('few', 5));
  expect(summary.batch?.jobs).toEqual([]);
  expect(summary.batch?.converse).toMatchObject([{ records: 5, reason: expect.stringContaining('100 records') }]);
  expect(environment.judge.counts.calls).toBe(5);
  expect(summary.verdictsByScorer.safety).toEqual({ yes: 5 });
});

test('records that failed within a job are asked again by Converse', async () => {
  environment.judge.batch.behaviour = { errorEvery: 10 };
  const summary = summaryOf(await judgeInBatch('faulty', RECORDS));
  expect(summary.batch?.jobs).toMatchObject([{ status: 'PartiallyCompleted' }]);
  expect(environment.judge.counts.calls).toBe(RECORDS / 10);
  expect(summary.verdictsByScorer.safety).toEqual({ yes: RECORDS });
});

test('a job that fails fails the run by name, and a retry heals it', async () => {
  environment.judge.batch.behaviour = { failWith: 'no capacity' };
  const failed = await judgeInBatch('unlucky', RECORDS);
  expect(failed).toMatchObject({ status: 'FAILED', error: 'RunIncomplete' });
  expect(failed.cause).toContain('JudgeBatchFailed');
  expect(failed.cause).toContain('no capacity');
  const retried = await pipeline.run({ retry: { run: failed.name, what: 'failed' }, judge: 'converse' });
  expect(summaryOf(retried).verdictsByScorer.safety).toEqual({ yes: RECORDS });
});

test('what the budget leaves no room for is held, and judged by a retry', async () => {
  const held = await judgeInBatch('dear', RECORDS, { budgetUsd: 0.05 });
  const summary = summaryOf(held);
  expect(summary.verdicts.heldByBudget).toBeGreaterThan(0);
  expect(summary.spend.usd).toBeLessThanOrEqual(0.05);
  const retried = await pipeline.run({ retry: { run: held.name, what: 'held' }, judge: 'converse', budgetUsd: 10 });
  expect(summaryOf(retried).verdicts.heldByBudget).toBe(0);
});

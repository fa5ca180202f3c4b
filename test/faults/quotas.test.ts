/**
 * A deployed stack under an account's quotas, each alone and all at once: every capture is traced and judged once, and no
 * run fails. How much of a quota is used: `npm run bench -- scale --check`.
 */
import type { QuotaLimits } from '../doubles/quota-shim/limits.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { Outcome } from '../helpers/deployed-pipeline.ts';
import { QuotaEnvironment } from '../helpers/quota-environment.ts';

jest.setTimeout(600_000);

const START_LIMIT_MS = 600_000;
const FILES = 4;
const CAPTURES = 8;
const JUDGE_MS = 500;

let stack: QuotaEnvironment;
let round = 0;

beforeAll(async () => {
  stack = await QuotaEnvironment.start({
    endpoint: 'quota-endpoint',
    limits: {},
    judge: { delayMs: JUDGE_MS },
    settings: { EVALUATION_BUDGET_USD: '1000' },
    // The quotas are a tenth of an account's, and so are the waits.
    waitScale: 0.1,
  });
  await stack.pipeline.disableRule();
}, START_LIMIT_MS);

afterAll(() => stack?.stop());

/** Starts a run for each of the files at once, as files that arrive together do. */
async function process(limits: QuotaLimits): Promise<Outcome[]> {
  const { pipeline, shim } = stack;
  round += 1;
  const keys = Array.from({ length: FILES }, (_, n) => stack.key(`round-${round}-${n}`));
  for (const [n, key] of keys.entries()) {
    await pipeline.put(
      key,
      Array.from({ length: CAPTURES }, (_, line) => chatLine(`round ${round} file ${n} line ${line}`)),
    );
  }
  shim.impose(limits);
  shim.counts.forget();
  const started = await Promise.all(keys.map((key) => pipeline.start(pipeline.event(key))));
  const outcomes = await Promise.all(started.map((arn) => pipeline.ended(arn)));
  shim.impose({});
  return outcomes;
}

/** Every line is traced and every verdict is there; no capture was asked about twice. */
function expectWhole(outcomes: readonly Outcome[]): void {
  expect(outcomes.map(({ status, error, cause }) => ({ status, error, cause }))).toEqual(
    outcomes.map(() => ({ status: 'SUCCEEDED' })),
  );
  for (const { summary } of outcomes) {
    expect(summary?.lines).toMatchObject({ planned: CAPTURES, traced: CAPTURES });
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
  ['DynamoDB’s conflicts and write units', { transactionMs: 30, partitionWrites: 20, itemBytes: 400 * 1024 }],
  ['S3’s 503s', { s3Writes: { perSecond: 60 }, s3Reads: { perSecond: 60 } }],
])('%s alone', async (_, limits) => {
  const since = Date.now();
  expectWhole(await process(limits));
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

test('all at once', async () => {
  const outcomes = await process({
    lambdaConcurrency: 3,
    openMapRuns: 2,
    mlflow: { perSecond: 25 },
    judgeRequestsPerMinute: 900,
    judgeTokensPerMinute: 3_000_000,
    outputBurndown: 5,
    transactionMs: 10,
    partitionWrites: 100,
    itemBytes: 400 * 1024,
    s3Writes: { perSecond: 100 },
    s3Reads: { perSecond: 100 },
  });
  expectWhole(outcomes);
  expect(answered()).toBe(FILES * CAPTURES);
});

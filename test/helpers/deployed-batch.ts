import { dayScope } from '../../src/limits/budget.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { chatLine } from './deployed-captures.ts';
import { DeployedPipeline, type Outcome } from './deployed-pipeline.ts';
import { type LocalEnvironment, startEnvironment } from './local-environment.ts';
import { readSpending } from './spending.ts';

type Budget = Awaited<ReturnType<DeployedPipeline['budgetTable']>>;

const ENDPOINT = 'batch-endpoint';
/** The default judge is not listed for batch inference. */
export const BATCH_MODEL = 'us.anthropic.claude-sonnet-4-6';
/** Bedrock's minimum for a job. */
export const RECORDS = 100;

export class BatchStack {
  readonly environment: LocalEnvironment;
  readonly pipeline: DeployedPipeline;
  readonly #budget: Budget;
  /** US dollars according to the summaries of all runs so far. */
  #paidUsd = 0;
  readonly #firstDay = dayScope(Date.now());

  private constructor(pipeline: DeployedPipeline, budget: Budget) {
    this.environment = pipeline.environment;
    this.pipeline = pipeline;
    this.#budget = budget;
  }

  static async deploy(): Promise<BatchStack> {
    const environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.01' } });
    try {
      const own = { EVALUATION_SAMPLE_RATE: '1', BEDROCK_MODEL_ID: BATCH_MODEL };
      const settings = { STACK_PREFIX: 'batch', SAGEMAKER_ENDPOINT_NAME: ENDPOINT, ...own };
      const pipeline = new DeployedPipeline(environment, 'batch', await environment.deployStack(settings));
      await environment.mlflow;
      // The rule would start a run without batch inference for every file.
      await pipeline.disableRule();
      return new BatchStack(pipeline, await pipeline.budgetTable());
    } catch (error) {
      await environment.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#budget.client.destroy();
    await this.environment.stop();
  }

  /** Forgets what the judge was asked, and lets it behave. */
  reset(): void {
    const { judge } = this.environment;
    judge.forget();
    judge.batch.records = 0;
    judge.batch.behavior = {};
  }

  judgeInBatch(name: string, records: number, more: object = {}): Promise<Outcome> {
    return this.judgeLines(
      name,
      Array.from({ length: records }, (_, n) => chatLine(`${name}-${n}`)),
      more,
    );
  }

  async judgeLines(name: string, lines: readonly string[], more: object = {}): Promise<Outcome> {
    const key = `${ENDPOINT}/AllTraffic/2026/11/20/10/${name}.jsonl`;
    await this.pipeline.put(key, lines);
    return this.run(this.pipeline.event(key, { judge: 'batch', ...more }));
  }

  async run(input: object): Promise<Outcome> {
    const outcome = await this.pipeline.run(input);
    this.#paidUsd += outcome.summary?.spend.usd ?? 0;
    return outcome;
  }

  /** Returns the spending of the day, or of both days if midnight has passed. */
  async spending(): Promise<{ spentUsd: number; committedUsd: number }> {
    const sum = { spentUsd: 0, committedUsd: 0 };
    for (const scope of new Set([this.#firstDay, dayScope(Date.now())])) {
      const day = await readSpending(this.#budget, scope);
      sum.spentUsd += day.spentUsd;
      sum.committedUsd += day.committedUsd;
    }
    return sum;
  }

  /** The booked cost equals the paid cost, and no reservation or deposit remains. */
  async expectBooked(): Promise<void> {
    const { spentUsd, committedUsd } = await this.spending();
    // Each booking is rounded up to a nanodollar.
    expect(spentUsd).toBeCloseTo(this.#paidUsd, 6);
    expect(committedUsd).toBeCloseTo(spentUsd, 9);
  }
}

/** Returns the summary of a run that succeeded, with nothing lost. */
export function summaryOf({ status, error, cause, summary }: Outcome): RunSummary {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  if (summary === undefined) throw new Error('The run has no summary');
  expect(summary.equations).toEqual({ lines: true, verdicts: true });
  expect(summary.verdicts.lost).toBe(0);
  return summary;
}

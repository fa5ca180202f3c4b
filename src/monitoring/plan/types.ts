/** The dependencies of planning. */

import type { Storage } from '../../core/aws/storage.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { CostEstimate } from '../../core/contract/receipts.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { ModelCheck } from '../../judge/model-check.ts';
import type { TraceStore } from '../../mlflow/types.ts';
import type { IsRunning } from './claim.ts';
import type { CostEstimator } from './dry-run.ts';

export interface PlannerDependencies {
  storage: Storage;
  store: Pick<TraceStore, 'resolveExperiment'>;
  environment: LambdaEnvironment;
  isRunning: IsRunning;
  /** The number of scorers in force. */
  scorers: number;
  /** Throws when the run asks for batch inference of a model that has none: it must not start. */
  assertBatchPossible(options: RunOptions): void;
  /** Throws when a budget is set and the price of the judge is unknown. */
  assertJudgeAffordable(options: RunOptions): void;
  /** Returns what a person must know about the judge’s model, such as its end of life; `undefined` if there is nothing. */
  checkJudgeModel(): Promise<ModelCheck | undefined>;
  /** Returns a warning about the settings of the judge; `undefined` if there is nothing. */
  judgeWarning(options: RunOptions): string | undefined;
  createEstimator(options: RunOptions): CostEstimator;
  /** Estimates the cost of a part from its lines and bytes alone, because there is no time to decode them. */
  estimateSizes(options: RunOptions, sizes: { captures: number; bytes: number }): CostEstimate;
  /** Returns the milliseconds until the Lambda is ended. */
  remainingMs(): number;
}

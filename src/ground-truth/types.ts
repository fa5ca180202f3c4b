/**
 * Types of the parameters and results of the steps of a ground truth run. `src/ground-truth/run.ts` calls the steps in
 * order.
 */

import type { FunctionContext } from '../core/aws/function-context.ts';
import type { Work } from '../core/aws/storage.ts';
import type { LabelCounts, LabelScorer, TruthRequest, TruthRunSummary } from '../core/contract/ground-truth.ts';
import { addCounts } from '../core/values/counts.ts';
import type { MlflowClient } from '../mlflow/client.ts';

/** Adds counts, also the counts of lines that are not labels. */
export function labelCounts(all: Iterable<LabelCounts> = [], invalid = 0): LabelCounts {
  const none = { joined: 0, repeated: 0, replaced: 0, outdated: 0, waiting: 0, unknown: 0, ambiguous: 0 };
  const sum: LabelCounts = { lines: invalid, ...none, invalid };
  for (const counts of all) addCounts(sum, counts);
  return sum;
}

/** A step starts no further work when less time than this remains, and returns its progress. */
export const STEP_RESERVE_MS = 30_000;

export interface StepDependencies extends FunctionContext, Work {
  run: TruthRequest['run'];
  /** The active scorers. */
  scorers: readonly LabelScorer[];
  /** The client keeps to the rate limit that all functions of the stack share. */
  mlflow(): Promise<MlflowClient>;
}

/** A step may be invoked again with the same cursor, after an attempt that failed at any point. */
export interface StepResult {
  /** Progress of the step: at most a few KB, because it travels through the state machine. `null`: the step is done. */
  cursor: string | null;
}

/** `files`: keys of the reports on the files that were read since the cursor before (`truthKeys.file`). */
export type ReadResult = StepResult & { files: string[] };

/**
 * Includes the labels that were written to MLflow since the previous cursor, and the labels that will not be written,
 * by reason.
 */
export type PublishResult = StepResult & Pick<TruthRunSummary, 'noted' | 'notNoted'>;

/** The dependencies of the evaluation of a chunk. */

import type { ScorerFunction } from '../../judge/functions/scorer-function.ts';
import type { AlwaysRule } from '../../judge/scorers/always-rules.ts';
import type { Judge, Scorer } from '../../judge/types.ts';
import type { SpendingLimit } from '../../limits/spending-limit.ts';
import type { LimitsTable } from '../../limits/table.ts';
import type { BatchAnswers } from '../batch/answers.ts';
import type { ChunkDependencies } from '../chunk/attempt.ts';

export interface EvaluateDependencies extends ChunkDependencies {
  judge: Judge;
  scorers: readonly Scorer[];
  always: AlwaysRule;
  /** Returns the functions of scorers, by the name of the scorer. The signal ends their asking. */
  functions?(signal: AbortSignal): ReadonlyMap<string, Pick<ScorerFunction, 'ask'>>;
  /** Absent when no budget is set. */
  limit?: SpendingLimit;
  /** The table of the judge's answers. */
  answers: LimitsTable;
  /** Reads the answers of a batch job for the chunk. */
  openBatch?(): Promise<BatchAnswers>;
  /** Overrides the time for the work on one capture, its scorers included. Milliseconds. */
  timeMs?: number;
}

const unasked = (): never => {
  throw new Error('A chunk that is only traced was judged');
};

/** Of a chunk that is only traced. */
export const NO_JUDGE: Pick<EvaluateDependencies, 'judge' | 'scorers' | 'always'> = {
  judge: { sourceId: '', judge: unasked, maxCostUsd: unasked },
  scorers: [],
  always: () => undefined,
};

/** The dependencies for assessing one capture. */
export type AssessDependencies = Pick<EvaluateDependencies, 'judge' | 'functions' | 'limit' | 'timeMs'>;

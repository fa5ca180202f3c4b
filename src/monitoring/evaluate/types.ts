/** The dependencies of the evaluation of a chunk. */

import type { JudgeSpend } from '../../core/contract/receipts.ts';
import type { ScorerFunction } from '../../judge/functions/scorer-function.ts';
import type { AlwaysRule } from '../../judge/scorers/always-rules.ts';
import type { Judge, JudgeMoney, Scorer } from '../../judge/types.ts';
import type { putAll } from '../../limits/many-items.ts';
import type { SpendingLimit } from '../../limits/spending-limit.ts';
import type { LimitsTable } from '../../limits/table.ts';
import type { ChunkDependencies } from '../chunk/attempt.ts';
import type { AskedJob } from './answers.ts';

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
  /** Stores many answers at once. Absent in a function that never asks the functions of scorers. */
  putAll?: typeof putAll;
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

/** The answers of a batch job to the requests of a chunk. */
export interface BatchAnswers {
  /** The total cost of the answers. */
  spend: JudgeSpend;
  /** Records of the chunk without an answer, by reason. */
  refused: Record<string, number>;
  /**
   * Returns the limit for a question with the answer, which replaces the chunk's limit. `paid` is the cost of the
   * answer.
   *
   * @param job the chunk whose job was asked, with its run; by default this chunk. `isRead`: the answer was read before
   */
  of(question: string, job: Partial<AskedJob> & { isRead: boolean }): Promise<{ money: JudgeMoney; paid?: JudgeSpend }>;
}

/** The dependencies for assessing one capture. */
export type AssessDependencies = Pick<EvaluateDependencies, 'judge' | 'functions' | 'limit' | 'timeMs'>;

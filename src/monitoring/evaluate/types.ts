/** The dependencies of the evaluation of a chunk. */

import type { Storage } from '../../core/aws/storage.ts';
import type { JudgeSpend } from '../../core/contract/receipts.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { AlwaysRule } from '../../judge/scorers/always-rules.ts';
import type { Judge, JudgeMoney, Scorer } from '../../judge/types.ts';
import type { SpendingLimit } from '../../limits/spending-limit.ts';
import type { TraceStore } from '../../mlflow/types.ts';
import type { LogDependencies } from '../log/line-book.ts';
import type { WriteTurns } from '../log/write-turns.ts';
import type { AskClaims } from './ask-claims.ts';

export interface EvaluateDependencies {
  storage: Storage;
  store: LogDependencies['store'] & Pick<TraceStore, 'writeAssessments'>;
  judge: Judge;
  scorers: readonly Scorer[];
  environment: LambdaEnvironment;
  always: AlwaysRule;
  /** Absent when no budget is set. */
  limit?: SpendingLimit;
  /** Claims the requests of the judge among the chunks of the run. Absent: other chunks may ask the same. */
  claims?: AskClaims | undefined;
  turns?: WriteTurns | undefined;
  /** Reads the answers of a batch job for the chunk. */
  openBatch?(): Promise<BatchAnswers>;
  requestId: string;
  /** Returns the milliseconds until the Lambda is ended. */
  remainingMs(): number;
  /** Overrides the time for the work on one capture, its scorers included. Milliseconds. */
  timeMs?: number;
}

/** What assessing one capture needs of them. */
export type AssessDependencies = Pick<EvaluateDependencies, 'judge' | 'limit' | 'claims' | 'timeMs'>;

/** The answers of a batch job to the requests of a chunk. */
export interface BatchAnswers {
  /** The cost of all of them. */
  spend: JudgeSpend;
  /**
   * Returns the judge for one trace, and its limit with the answers, which replace those of the chunk. `paid` is the cost of the
   * answers.
   */
  of(traceId: string): { judge: Judge; money: JudgeMoney; paid?: JudgeSpend };
}

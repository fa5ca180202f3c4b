/** The dependencies of planning. */

import type { FunctionContext } from '../../core/aws/function-context.ts';
import type { ModelCheck } from '../../judge/model-check.ts';
import type { TraceStore } from '../../mlflow/client.ts';
import type { IsRunning } from './claim.ts';
import type { DrawChances } from './draw-chances.ts';

export interface PlannerDependencies extends FunctionContext {
  store: Pick<TraceStore, 'resolveExperiment'>;
  /** Returns the version of the pseudonyms' key. Returns `undefined` if nothing is masked. */
  pseudonymKey?(): Promise<string | undefined>;
  isRunning: IsRunning;
  /** Decides which captures are judged. */
  chances: Pick<DrawChances, 'give' | 'ofRun'>;
  /** Returns the versions of the functions of scorers; `undefined` without any. */
  functionVersions?(): Promise<Record<string, string> | undefined>;
  /** The number of scorers in force. */
  scorers: number;
  /** Returns a finding about the judge’s model, such as its end of life. Returns `undefined` without a finding. */
  checkJudgeModel(): Promise<ModelCheck | undefined>;
}

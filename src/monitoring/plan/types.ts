/** The dependencies of planning. */

import type { Storage } from '../../core/aws/storage.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { ModelCheck } from '../../judge/model-check.ts';
import type { TraceStore } from '../../mlflow/client.ts';
import type { IsRunning } from './claim.ts';

export interface PlannerDependencies {
  storage: Storage;
  store: Pick<TraceStore, 'resolveExperiment'>;
  environment: LambdaEnvironment;
  /** Returns the version of the key of pseudonyms; `undefined` if nothing is masked. */
  pseudonymKey?(): Promise<string | undefined>;
  isRunning: IsRunning;
  /** The number of scorers in force. */
  scorers: number;
  /** Returns what a person must know about the judge’s model, such as its end of life; `undefined` if there is nothing. */
  checkJudgeModel(): Promise<ModelCheck | undefined>;
  /** Returns the milliseconds until the Lambda is ended. */
  remainingMs(): number;
}

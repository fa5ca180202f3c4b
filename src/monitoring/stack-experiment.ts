/** The experiment of the stack. */
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import type { TraceStore } from '../mlflow/client.ts';

/**
 * Finds or creates the experiment for the traces of the stack's endpoint.
 *
 * @throws PermanentError `MlflowExperimentOfOtherStack` if another stack writes them there and the setting does not allow it
 */
export const stackExperiment = (
  store: Pick<TraceStore, 'resolveExperiment'>,
  environment: LambdaEnvironment,
): ReturnType<TraceStore['resolveExperiment']> =>
  store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME, {
    endpoint: environment.SAGEMAKER_ENDPOINT_NAME,
    stack: environment.STACK_PREFIX,
    isShared: environment.MLFLOW_EXPERIMENT_SHARED,
  });

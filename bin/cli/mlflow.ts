/** The MLflow experiment that a command reads: that of the settings, or of a deployed stack. */

import { PermanentError } from '../../src/core/errors/errors.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import type { Experiment } from '../../src/mlflow/types.ts';
import { type FlagsOf, option, options } from './options.ts';
import { jsonOption } from './output.ts';
import { type CommandSettings, commandSettings } from './settings.ts';
import { deployedSettings, withStack } from './stack.ts';

/** The options of every command that reads an MLflow of the settings. */
export const experimentOptions = () =>
  options(
    option('--experiment <name>', 'MLflow experiment (default: MLFLOW_EXPERIMENT_NAME, else SAGEMAKER_ENDPOINT_NAME)'),
    option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)'),
  );

/** The settings that these options overrule. */
export const mlflowSettings = ({ trackingUri, experiment }: FlagsOf<ReturnType<typeof experimentOptions>>) => ({
  MLFLOW_TRACKING_URI: trackingUri,
  MLFLOW_EXPERIMENT_NAME: experiment,
});

export const filterOption = () =>
  option('--filter <expression>', "MLflow's trace filter, e.g. \"tag.status_code LIKE '5%'\"");

/** The options of every command that reads traces, also of a deployed stack. */
export const mlflowOptions = (json?: string) =>
  options(
    ...experimentOptions(),
    option('--stack <prefix>', 'take MLflow, experiment and scorers from this deployed stack, not the settings'),
    jsonOption(json),
  );

export type MlflowFlags = FlagsOf<ReturnType<typeof mlflowOptions>>;

export interface OpenedMlflow {
  mlflow: MlflowClient;
  experiment: Experiment;
  settings: CommandSettings;
}

/** Opens the experiment, does the work and closes the client. @throws PermanentError `MlflowExperimentMissing`, … */
export async function withMlflow<T>(flags: MlflowFlags, work: (opened: OpenedMlflow) => Promise<T>): Promise<T> {
  const own = { ...dotenvOfCommand(), ...process.env };
  const isDeployed = flags.stack !== undefined || !(flags.trackingUri || own.MLFLOW_TRACKING_URI);
  const deployed = isDeployed ? await withStack(flags, deployedSettings) : {};
  const settings = commandSettings(mlflowSettings(flags), { ...own, ...deployed });
  return withExperiment(settings, (mlflow, experiment) => work({ mlflow, settings, experiment }));
}

const EXPERIMENT_NAMES =
  '--experiment, MLFLOW_EXPERIMENT_NAME or SAGEMAKER_ENDPOINT_NAME; for calibrate also --labels FILE or --anchors';

/** Opens the experiment of the settings, does the work and closes the client. @throws PermanentError `MlflowExperimentMissing`, … */
export async function withExperiment<T>(
  settings: CommandSettings,
  work: (mlflow: MlflowClient, experiment: Experiment) => Promise<T>,
): Promise<T> {
  const mlflow = mlflowOf(settings);
  try {
    const name = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
    const experiment = name === undefined ? undefined : await findExperiment(mlflow.rest, name);
    if (experiment !== undefined) return await work(mlflow, experiment);
    const [message, expected] =
      name === undefined
        ? ['No MLflow experiment is named', EXPERIMENT_NAMES]
        : ['The experiment does not exist', 'the name of an experiment with assessed traces'];
    throw new PermanentError('MlflowExperimentMissing', message, { got: name, expected });
  } finally {
    mlflow.close();
  }
}

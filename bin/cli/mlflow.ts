/** The MLflow experiment that a command reads: that of the settings, or of a deployed stack. */
import type { Command } from 'commander';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import type { Experiment } from '../../src/mlflow/types.ts';
import { withExperiment } from '../commands/calibration-data.ts';
import { type CaptureSettings, captureSettings } from '../commands/settings.ts';
import { deployedSettings, type StackFlags, withStack } from './stack.ts';

export interface MlflowFlags extends StackFlags {
  experiment?: string;
  trackingUri?: string;
}

/** Adds the options of every command that reads traces. */
export const addMlflowOptions = (command: Command): Command =>
  command
    .option('--experiment <name>', 'MLflow experiment (default: MLFLOW_EXPERIMENT_NAME, else SAGEMAKER_ENDPOINT_NAME)')
    .option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)')
    .option('--stack <prefix>', 'take MLflow, experiment and scorers from this deployed stack instead of the settings');

export interface OpenedMlflow {
  mlflow: MlflowClient;
  experiment: Experiment;
  settings: CaptureSettings;
}

/** Opens the experiment, does the work and closes the client. @throws PermanentError `MlflowExperimentMissing`, … */
export async function withMlflow<T>(flags: MlflowFlags, work: (opened: OpenedMlflow) => Promise<T>): Promise<T> {
  const own = { ...dotenvOfCommand(), ...process.env };
  const isDeployed = flags.stack !== undefined || !(flags.trackingUri || own.MLFLOW_TRACKING_URI);
  const deployed = isDeployed ? await withStack(flags, deployedSettings) : {};
  const given = { MLFLOW_TRACKING_URI: flags.trackingUri, MLFLOW_EXPERIMENT_NAME: flags.experiment };
  const settings = captureSettings(given, { ...own, ...deployed });
  return withExperiment(settings, (mlflow, experiment) => work({ mlflow, settings, experiment }));
}

/** The MLflow experiment that a command reads: from the settings, or of a deployed stack. */

import { PermanentError } from '../../src/core/errors/errors.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import { type FlagsOf, option, options } from './options.ts';
import { type About, jsonOption } from './output.ts';
import { type CommandSettings, commandSettings, namesStack } from './settings.ts';
import { openStack, stackOption, stackSettings } from './stack.ts';

/** The options of every command that reads an MLflow of the settings. */
export const experimentOptions = () =>
  options(
    option('--experiment <name>', 'MLflow experiment (default: MLFLOW_EXPERIMENT_NAME, else SAGEMAKER_ENDPOINT_NAME)'),
    option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)'),
    stackOption(),
  );

export const filterOption = () =>
  option('--filter <expression>', "MLflow's trace filter, e.g. \"tag.status_code LIKE '5%'\"");

/** The options of every command that reads traces, also of a deployed stack. */
export const mlflowOptions = (json?: string) => options(...experimentOptions(), jsonOption(json));

type MlflowFlags = FlagsOf<ReturnType<typeof mlflowOptions>>;

/**
 * Reads the settings of the stack, which these options overrule. If no stack is named, `--tracking-uri` leads to the settings of the
 * environment and `.env`, as does MLFLOW_TRACKING_URI without a STACK_PREFIX.
 *
 * @throws the errors of `openStack`
 */
export async function openSettings(flags: Omit<MlflowFlags, 'json'>) {
  const { STACK_PREFIX, MLFLOW_TRACKING_URI } = { ...dotenvOfCommand(), ...process.env };
  const overruling = { MLFLOW_TRACKING_URI: flags.trackingUri, MLFLOW_EXPERIMENT_NAME: flags.experiment };
  const isAlone = flags.trackingUri ?? (MLFLOW_TRACKING_URI && !STACK_PREFIX);
  if (isAlone && !namesStack(flags)) return { settings: commandSettings(overruling) };
  const stack = await openStack(flags);
  return { settings: await stackSettings(stack, overruling), stack };
}

export type OpenedMlflow = Awaited<ReturnType<typeof openMlflow>>;

/** Opens the experiment of these settings. @throws PermanentError `MlflowExperimentMissing`, … */
export async function openMlflow(flags: MlflowFlags) {
  const { settings, stack } = await openSettings(flags);
  const { mlflow, experiment } = await openExperiment(settings);
  const about: About = { endpoint: null, stack: null, ...stack?.about, experiment: experiment.name };
  return { mlflow, settings, experiment, about };
}

const EXPERIMENT_NAMES =
  '--experiment, MLFLOW_EXPERIMENT_NAME or SAGEMAKER_ENDPOINT_NAME; for calibrate also --labels FILE or --anchors';

/**
 * Opens the experiment of the settings. Its client ends with the process, which idle connections do not keep running.
 *
 * @throws PermanentError `MlflowExperimentMissing`, …
 *
 * @example
 *     const { mlflow, experiment } = await openExperiment(settings);
 */
export async function openExperiment(settings: CommandSettings) {
  const mlflow = mlflowOf(settings);
  const name = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
  const experiment = name === undefined ? undefined : await findExperiment(mlflow.rest, name);
  if (experiment !== undefined) return { mlflow, experiment };
  const [message, expected] =
    name === undefined
      ? ['No MLflow experiment is named', EXPERIMENT_NAMES]
      : ['The experiment does not exist', 'the name of an experiment with assessed traces'];
  throw new PermanentError('MlflowExperimentMissing', message, { got: name, expected });
}

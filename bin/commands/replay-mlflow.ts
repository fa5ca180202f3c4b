/** MLflow as the replay command reaches it: the person's own settings, from the environment and .env. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { PermanentError } from '../../lambda/common/errors.ts';
import { connectMlflowRest, readCalibrationSettings } from '../../lambda/judge/calibration/connect.ts';
import { findExperiment } from '../../lambda/judge/calibration/mlflow-labels.ts';
import { createMlflowClient } from '../../lambda/mlflow/client.ts';
import { loadMlflowSecret } from '../../lambda/mlflow/secret.ts';
import type { MlflowPorts } from '../../lambda/replay/publish/publish.ts';
import { traceIdOf } from '../../lambda/trace/ids.ts';
import { dotenvOfCommand } from '../../local/dotenv-file.ts';

export interface MlflowFlags {
  trackingUri?: string;
  /** Of the replays; default: that of the captures, with `-replays`. */
  experiment?: string;
}

export interface ReplayMlflow extends MlflowPorts {
  /** Id of a captured line's trace; there when the captures' experiment is known. */
  traceIdOf?: (line: Buffer) => string;
  close(): void;
}

/** @throws PermanentError `InvalidSettings`, `MlflowTrackingUriMissing`, and those of the server */
export async function connectReplayMlflow(flags: MlflowFlags): Promise<ReplayMlflow> {
  const settings = readCalibrationSettings({
    ...dotenvOfCommand(),
    ...process.env,
    ...(flags.trackingUri === undefined ? {} : { MLFLOW_TRACKING_URI: flags.trackingUri }),
  });
  const { rest, close } = connectMlflowRest(settings);
  const {
    MLFLOW_TRACKING_USERNAME: username,
    MLFLOW_TRACKING_PASSWORD: password,
    MLFLOW_TRACKING_TOKEN: token,
    MLFLOW_SECRET_ARN: arn,
  } = settings;
  const own =
    username !== undefined && password !== undefined
      ? { username, password }
      : token === undefined
        ? undefined
        : { token };
  const secret = own ?? (arn === undefined ? undefined : () => loadMlflowSecret(undefined, arn));
  const s3 = async () => (await import('../../lambda/common/storage.ts')).createS3Client();
  const client = createMlflowClient({
    trackingUri: settings.MLFLOW_TRACKING_URI ?? '',
    credentials: defaultProvider(),
    s3: await s3(),
    ...(settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT ? { customEndpoint: settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT } : {}),
    ...(secret === undefined ? {} : { secret }),
  });
  const captures = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
  const name = flags.experiment ?? (captures === undefined ? 'replays' : `${captures}-replays`);
  const experiment = await client.resolveExperiment(name);
  const capturesId = captures === undefined ? undefined : await experimentId(rest, captures);
  return {
    rest,
    client,
    experiment,
    s3,
    ...(capturesId === undefined ? {} : { traceIdOf: (line: Buffer) => traceIdOf(capturesId, line) }),
    close: () => {
      close();
      client.close();
    },
  };
}

/** Captures that were never traced have no experiment: their replays are not linked. */
async function experimentId(rest: MlflowPorts['rest'], name: string): Promise<string | undefined> {
  try {
    return await findExperiment(rest, name);
  } catch (error) {
    if (error instanceof PermanentError && error.name === 'MlflowExperimentMissing') return undefined;
    throw error;
  }
}

/** MLflow as the replay command reaches it: the person's own settings, from the environment and .env. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { ownSecret, readCalibrationSettings, requireTrackingUri } from '../../lambda/judge/calibration/connect.ts';
import { createMlflowClient } from '../../lambda/mlflow/client.ts';
import { findExperiment } from '../../lambda/mlflow/experiments.ts';
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
  const { MLFLOW_SECRET_ARN: arn, SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: customEndpoint } = settings;
  const secret = ownSecret(settings) ?? (arn === undefined ? undefined : () => loadMlflowSecret(undefined, arn));
  const s3 = async () => (await import('../../lambda/common/storage.ts')).createS3Client();
  const client = createMlflowClient({
    trackingUri: requireTrackingUri(settings),
    credentials: defaultProvider(),
    s3: await s3(),
    ...(customEndpoint ? { customEndpoint } : {}),
    ...(secret === undefined ? {} : { secret }),
  });
  const captures = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
  const name = flags.experiment ?? (captures === undefined ? 'replays' : `${captures}-replays`);
  const experiment = await client.resolveExperiment(name);
  // Captures that were never traced have no experiment: their replays are not linked.
  const capturesId = captures === undefined ? undefined : (await findExperiment(client.rest, captures))?.id;
  return {
    client,
    experiment,
    s3,
    ...(capturesId === undefined ? {} : { traceIdOf: (line: Buffer) => traceIdOf(capturesId, line) }),
    close: () => client.close(),
  };
}

/** Connects the replay command to MLflow, with the user's settings from the environment and .env. */

import { traceIdOf } from '../../src/captures/trace/ids.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import { commandSettings } from './settings.ts';

export interface ReplayMlflowFlags {
  trackingUri?: string;
  /** Experiment of the replays. Default: that of the captures, with the suffix `-replays`. */
  experiment?: string;
}

/** @throws PermanentError `InvalidSettings`, `MlflowTrackingUriMissing`, and errors of the server */
export async function connectReplayMlflow(flags: ReplayMlflowFlags) {
  const settings = commandSettings({ MLFLOW_TRACKING_URI: flags.trackingUri });
  const s3 = async () => (await import('../../src/core/aws/storage.ts')).createS3Client();
  const client = mlflowOf(settings, await s3());
  const captures = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
  const name = flags.experiment ?? (captures === undefined ? 'replays' : `${captures}-replays`);
  const experiment = await client.resolveExperiment(name);
  // Captures without traces have no experiment: their replays are not linked.
  const capturesId = captures === undefined ? undefined : (await findExperiment(client.rest, captures))?.id;
  return {
    client,
    experiment,
    s3,
    /** Address of the server's web page, if it has one. */
    url: webPageOf(client.target),
    /** Returns the trace id of a captured line. Absent if the experiment of the captures is unknown. */
    ...(capturesId === undefined ? {} : { traceIdOf: (line: Buffer) => traceIdOf(capturesId, line) }),
    close: () => client.close(),
  };
}

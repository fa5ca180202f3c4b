/** The trial of LogTraces: its work on a line, up to the request to MLflow. */

import { buildTrace } from '../../captures/trace/build.ts';
import { otlpRequest, otlpTrace } from '../../mlflow/otlp.ts';
import { asTrial } from '../chunk/trial.ts';

export const tryToLog = asTrial(import.meta.url, (capture, raw) => {
  otlpRequest([otlpTrace(buildTrace(capture, raw, { experimentId: '0', endpointName: 'trial' }))]);
});

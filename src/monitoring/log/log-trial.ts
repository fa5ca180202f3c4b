/** What LogTraces does with a line, up to the request to MLflow. */
import { otlpRequest, otlpTrace } from '../../mlflow/otlp.ts';
import { buildTrace } from '../../trace/build.ts';
import { asTrial, decodeOnTrial } from '../chunk/trial.ts';

export const tryToLog = asTrial(import.meta.url, (raw, options) => {
  const capture = decodeOnTrial(raw, options);
  if (capture === undefined) return;
  otlpRequest([otlpTrace(buildTrace(capture, raw, { experimentId: '0', endpointName: 'trial' }))]);
});

/** What LogTraces does with a line, up to the request to MLflow. */
import { decodeLine } from '../capture/decode.ts';
import { otlpRequest, otlpTrace } from '../mlflow/otlp.ts';
import { buildTrace } from '../trace/build.ts';
import { asTrial } from './trial.ts';

export const tryToLog = asTrial(import.meta.url, (raw, options) => {
  const decoded = decodeLine(raw, options);
  if (decoded.kind !== 'capture') return;
  otlpRequest([otlpTrace(buildTrace(decoded.capture, raw, { experimentId: '0', endpointName: 'trial' }))]);
});

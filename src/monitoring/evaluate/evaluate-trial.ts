/** The trial of EvaluateTraces: its work on a line, up to the requests to MLflow and to the judge. */

import { buildTrace } from '../../captures/trace/build.ts';
import { timeOf } from '../../core/process/within-time.ts';
import { askSize } from '../../judge/pricing/ask-size.ts';
import { codeScorers } from '../../judge/scorers/code-scorers.ts';
import { otlpRequest, otlpTrace } from '../../mlflow/otlp.ts';
import { asTrial } from '../chunk/trial.ts';
import { codeAssessments } from './assessments.ts';

export const tryToEvaluate = asTrial(import.meta.url, (capture, raw, only) => {
  otlpRequest([otlpTrace(buildTrace(capture, raw, { experimentId: '0', endpointName: 'trial' }))]);
  if (only === 'trace') return;
  askSize(capture, []);
  // A scorer that takes too long is interrupted here as it is in the step, so the line is not rejected for it.
  codeAssessments(codeScorers, capture, timeOf(capture), {
    traceId: '',
    run: '',
    part: '1',
    sample: '1',
    replaces: new Set(),
  });
});

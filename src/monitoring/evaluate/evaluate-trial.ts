/** What EvaluateTraces does with a line, up to the request to the judge. */

import { askSize } from '../../judge/pricing/ask-size.ts';
import { codeScorers } from '../../judge/scorers/code-scorers.ts';
import { timeOf } from '../../shared/within-time.ts';
import { asTrial, decodeOnTrial } from '../chunk/trial.ts';
import { codeAssessments } from './assessments.ts';

export const tryToEvaluate = asTrial(import.meta.url, (raw, options) => {
  const capture = decodeOnTrial(raw, options);
  if (capture === undefined) return;
  askSize(capture, []);
  // What outlives its time is broken off here as it is there: the line is not to be left out for it.
  codeAssessments(codeScorers, capture, timeOf(capture), { traceId: '', run: '', overrides: new Map() });
});

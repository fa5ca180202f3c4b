/** What EvaluateTraces does with a line, up to the request to the judge. */
import { decodeLine } from '../capture/decode.ts';
import { askSize } from '../judge/ask-size.ts';
import { codeScorers } from '../judge/code-scorers.ts';
import { asTrial } from './trial.ts';

export const tryToEvaluate = asTrial(import.meta.url, (raw, options) => {
  const decoded = decodeLine(raw, options);
  if (decoded.kind !== 'capture') return;
  askSize(decoded.capture, []);
  for (const scorer of codeScorers) scorer.score(decoded.capture);
});
